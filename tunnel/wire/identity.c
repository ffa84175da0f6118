#include "tunnel/wire/identity.h"

#include <stdbool.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/parse.h"

enum { IDENTITY_JSON_BYTES_MAX = 1024, SIGNATURE_TEXT_BYTES = (ID_SHA256_BYTES * 4 + 2) / 3 };

static void identity_add_json(const struct wire_identity *identity, struct strbuf *json)
{
    strbuf_add_c(json, "{\"account\":");
    strbuf_add_json(json, str_c(identity->account_id));
    strbuf_add_c(json, ",\"runtime\":");
    strbuf_add_json(json, str_c(identity->runtime));
    strbuf_add_c(json, ",\"user\":");
    strbuf_add_json(json, str_c(identity->user_id));
    strbuf_add_c(json, ",\"name\":");
    strbuf_add_json(json, str_c(identity->user_name));
    strbuf_addf(json, ",\"exp\":%lld}", (long long)identity->expires_at_ms);
}

// The signature covers the text that travels, so that there is nothing to canonicalise.
static void identity_signature(const uint8_t key[ID_SHA256_BYTES], struct str signed_text,
                               char out[SIGNATURE_TEXT_BYTES + 1 + 8])
{
    uint8_t mac[ID_SHA256_BYTES];
    id_hmac_sha256(str_of((const char *)key, ID_SHA256_BYTES), signed_text.at, signed_text.len, mac);
    format_base64url(mac, sizeof(mac), out);
}

enum error_code wire_identity_sign(const struct wire_identity *identity, const uint8_t key[ID_SHA256_BYTES],
                                   struct strbuf *out, struct error *err)
{
    struct strbuf json;
    strbuf_init(&json, IDENTITY_JSON_BYTES_MAX);
    identity_add_json(identity, &json);
    if (json.overflow) {
        strbuf_finish(&json);
        return error_set(err, ERROR_TOO_LARGE, "identity is over %d bytes", IDENTITY_JSON_BYTES_MAX);
    }
    char text[(IDENTITY_JSON_BYTES_MAX + 2) / 3 * 4 + 1];
    size_t text_len = format_base64url((const uint8_t *)json.at, json.len, text);
    strbuf_finish(&json);

    char signature[SIGNATURE_TEXT_BYTES + 1 + 8];
    identity_signature(key, str_of(text, text_len), signature);
    strbuf_add(out, text, text_len);
    strbuf_add_byte(out, '.');
    strbuf_add_c(out, signature);
    if (out->overflow) return error_set(err, ERROR_TOO_LARGE, "identity does not fit the buffer");
    return ERROR_NONE;
}

static bool identity_copy(char *to, size_t cap, struct str from)
{
    if (from.len >= cap || str_has_byte(from, '\0')) return false;
    if (from.len) memcpy(to, from.at, from.len);
    to[from.len] = '\0';
    return true;
}

static enum error_code identity_parse(struct str json_text, struct wire_identity *out, struct error *err)
{
    const struct json_limits limits = {.bytes_max = IDENTITY_JSON_BYTES_MAX, .depth_max = 2, .tokens_max = 32};
    json_t *json = NULL;
    enum error_code code = json_decode(json_text, &limits, &json, err);
    if (code) return code;
    struct wire_identity identity = {.expires_at_ms = json_get_int(json, "exp", -1)};
    bool whole = json_is_object(json) &&
                 identity_copy(identity.account_id, sizeof(identity.account_id), json_get_str(json, "account")) &&
                 identity_copy(identity.runtime, sizeof(identity.runtime), json_get_str(json, "runtime")) &&
                 identity_copy(identity.user_id, sizeof(identity.user_id), json_get_str(json, "user")) &&
                 identity_copy(identity.user_name, sizeof(identity.user_name), json_get_str(json, "name"));
    json_decref(json);
    if (!whole) return error_set(err, ERROR_INVALID, "identity lacks a member or has one that is too long");
    *out = identity;
    return ERROR_NONE;
}

enum error_code wire_identity_verify(struct str text, const uint8_t key[ID_SHA256_BYTES], struct str account_id,
                                     struct str runtime, int64_t now_ms, struct wire_identity *out, struct error *err)
{
    if (text.len > WIRE_IDENTITY_BYTES_MAX) return error_set(err, ERROR_TOO_LARGE, "identity of %zu bytes", text.len);
    struct str signature = text;
    struct str body;
    if (!str_cut(&signature, '.', &body) || body.len == 0)
        return error_set(err, ERROR_INVALID, "identity has no signature");
    char expected[SIGNATURE_TEXT_BYTES + 1 + 8];
    identity_signature(key, body, expected);
    if (!str_eq_secret(signature, str_c(expected)))
        return error_set(err, ERROR_UNAUTHENTICATED, "identity's signature is wrong");

    uint8_t json[WIRE_IDENTITY_BYTES_MAX];
    size_t json_len = 0;
    enum error_code code = parse_base64url(body, json, sizeof(json), &json_len, err);
    if (code) return code;
    struct wire_identity identity;
    code = identity_parse(str_of((const char *)json, json_len), &identity, err);
    if (code) return code;
    if (!str_eq(str_c(identity.account_id), account_id) || !str_eq(str_c(identity.runtime), runtime))
        return error_set(err, ERROR_FORBIDDEN, "identity is for another runtime");
    if (identity.expires_at_ms < 0 || now_ms - WIRE_IDENTITY_SKEW_MS > identity.expires_at_ms)
        return error_set(err, ERROR_UNAUTHENTICATED, "identity has expired");
    *out = identity;
    return ERROR_NONE;
}
