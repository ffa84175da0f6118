#include "tunnel/wire/identity.h"

#include <stdbool.h>

#include "base/json/json.h"
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
    if (identity->expires_at_ms) strbuf_addf(json, ",\"exp\":%lld", (long long)identity->expires_at_ms);
    strbuf_add_byte(json, '}');
}

// The signature covers the text that travels, so that there is nothing to canonicalise.
static void identity_signature(const uint8_t key[ID_SHA256_BYTES], struct str signed_text,
                               char out[SIGNATURE_TEXT_BYTES + 1 + 8])
{
    uint8_t mac[ID_SHA256_BYTES];
    id_hmac_sha256(str_of((const char *)key, ID_SHA256_BYTES), signed_text.at, signed_text.len, mac);
    format_base64url(mac, sizeof(mac), out);
}

// base64url of the JSON, behind what is there.
static enum error_code identity_add_caller(const struct wire_identity *identity, struct strbuf *out, struct error *err)
{
    struct strbuf json;
    char text[(IDENTITY_JSON_BYTES_MAX + 2) / 3 * 4 + 1];
    strbuf_init(&json, IDENTITY_JSON_BYTES_MAX);
    identity_add_json(identity, &json);
    bool overflow = json.overflow;
    if (!overflow) strbuf_add(out, text, format_base64url((const uint8_t *)json.at, json.len, text));
    strbuf_finish(&json);
    if (overflow) return error_set(err, ERROR_TOO_LARGE, "identity is over %d bytes", IDENTITY_JSON_BYTES_MAX);
    return ERROR_NONE;
}

enum error_code wire_identity_sign(const struct wire_identity *identity, const uint8_t key[ID_SHA256_BYTES],
                                   struct strbuf *out, struct error *err)
{
    size_t start = out->len;
    enum error_code code = identity_add_caller(identity, out, err);
    if (code) return code;
    char signature[SIGNATURE_TEXT_BYTES + 1 + 8];
    identity_signature(key, str_of(out->at + start, out->len - start), signature);
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
    if (!whole) return error_set(err, ERROR_INVALID, "identity has a member that is missing or too long");
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
        return error_set(err, ERROR_INVALID, "identity is not signed");
    char expected[SIGNATURE_TEXT_BYTES + 1 + 8];
    identity_signature(key, body, expected);
    if (!str_eq_secret(signature, str_c(expected)))
        return error_set(err, ERROR_UNAUTHENTICATED, "identity has an invalid signature");

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

// ---- bound to a call -----------------------------------------------------------------------------------------

// Nothing of it holds a NUL, so that no two calls give the same bytes; nor does what is signed of
// an unbound identity begin like this.
static const char bound_context[] = "culvert-identity-2";

enum { CALL_BYTES_MAX = 128 * 1024 };

static enum error_code bound_signature(const uint8_t key[ID_SHA256_BYTES], struct str signed_text,
                                       const struct wire_identity_call *call, char out[SIGNATURE_TEXT_BYTES + 1 + 8],
                                       struct error *err)
{
    const struct str parts[] = {signed_text, call->method, call->protocol, call->authority, call->path};
    struct strbuf text;
    strbuf_init(&text, CALL_BYTES_MAX);
    strbuf_add_c(&text, bound_context);
    bool has_nul = false;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        has_nul = has_nul || str_has_byte(parts[i], '\0');
        strbuf_add_byte(&text, '\0');
        strbuf_add_str(&text, parts[i]);
    }
    bool fits = !text.overflow && !has_nul;
    if (fits) identity_signature(key, strbuf_str(&text), out);
    strbuf_finish(&text);
    return fits ? ERROR_NONE : error_set(err, ERROR_TOO_LARGE, "the call is too long for an identity, or has a NUL");
}

enum error_code wire_identity_sign_call(const struct wire_identity *identity, const struct wire_identity_call *call,
                                        const uint8_t key[ID_SHA256_BYTES], struct strbuf *out, struct error *err)
{
    struct wire_identity caller = *identity;
    caller.expires_at_ms = 0; // so that one caller is always the same text
    size_t start = out->len;
    strbuf_add_c(out, "2.");
    enum error_code code = identity_add_caller(&caller, out, err);
    if (code) return code;
    strbuf_addf(out, ".%llu.%llu.%llu", (unsigned long long)identity->expires_at_ms,
                (unsigned long long)identity->epoch, (unsigned long long)identity->number);
    if (out->overflow) return error_set(err, ERROR_TOO_LARGE, "identity does not fit the buffer");
    char signature[SIGNATURE_TEXT_BYTES + 1 + 8];
    code = bound_signature(key, str_of(out->at + start, out->len - start), call, signature, err);
    if (code) return code;
    strbuf_add_byte(out, '.');
    strbuf_add_c(out, signature);
    return out->overflow ? error_set(err, ERROR_TOO_LARGE, "identity does not fit the buffer") : ERROR_NONE;
}

static bool bound_number(struct str *rest, uint64_t *out)
{
    struct str field;
    return str_cut(rest, '.', &field) && parse_u64(field, 0, INT64_MAX, out, NULL) == ERROR_NONE;
}

enum error_code wire_identity_verify_call(struct str text, const struct wire_identity_call *call,
                                          const uint8_t key[ID_SHA256_BYTES], uint64_t epoch, int64_t now_ms,
                                          struct wire_identity_bound *out, struct error *err)
{
    struct str rest = text, version, caller;
    uint64_t expires_at_ms, of_epoch, number;
    if (text.len > WIRE_IDENTITY_BYTES_MAX) return error_set(err, ERROR_TOO_LARGE, "identity of %zu bytes", text.len);
    if (!str_cut(&rest, '.', &version) || !str_eq(version, STR("2")) || !str_cut(&rest, '.', &caller) ||
        !bound_number(&rest, &expires_at_ms) || !bound_number(&rest, &of_epoch) || !bound_number(&rest, &number))
        return error_set(err, ERROR_INVALID, "identity is not bound to a call");
    char expected[SIGNATURE_TEXT_BYTES + 1 + 8];
    enum error_code code = bound_signature(key, str_first(text, text.len - rest.len - 1), call, expected, err);
    if (code) return code;
    if (!str_eq_secret(rest, str_c(expected)))
        return error_set(err, ERROR_UNAUTHENTICATED, "identity has an invalid signature, or one for another call");
    if (of_epoch != epoch) return error_set(err, ERROR_UNAUTHENTICATED, "identity is of another session");
    if ((int64_t)expires_at_ms < now_ms) return error_set(err, ERROR_UNAUTHENTICATED, "identity has expired");
    if ((int64_t)expires_at_ms > now_ms + WIRE_IDENTITY_BOUND_LIFE_MS + WIRE_IDENTITY_DRIFT_MS)
        return error_set(err, ERROR_UNAUTHENTICATED, "identity is valid for too long");
    *out = (struct wire_identity_bound){.caller = caller, .expires_at_ms = (int64_t)expires_at_ms, .number = number};
    return ERROR_NONE;
}

enum error_code wire_identity_read_caller(struct str caller, struct str runtime, struct wire_identity *out,
                                          struct error *err)
{
    uint8_t json[WIRE_IDENTITY_BYTES_MAX];
    size_t json_len = 0;
    struct wire_identity identity;
    enum error_code code = parse_base64url(caller, json, sizeof(json), &json_len, err);
    if (!code) code = identity_parse(str_of((const char *)json, json_len), &identity, err);
    if (code) return code;
    if (!str_eq(str_c(identity.runtime), runtime))
        return error_set(err, ERROR_FORBIDDEN, "identity is for another runtime");
    *out = identity;
    return ERROR_NONE;
}
