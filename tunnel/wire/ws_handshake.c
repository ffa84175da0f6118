#include "tunnel/wire/ws_handshake.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/id.h"
#include "base/parse.h"
#include "tunnel/wire/handshake.h"

void ws_handshake_key(char out[WS_HANDSHAKE_KEY_BYTES])
{
    uint8_t random[16];
    id_random(random, sizeof(random));
    format_base64(random, sizeof(random), out);
}

void ws_handshake_accept(struct str key, char out[WS_HANDSHAKE_ACCEPT_BYTES])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; // RFC 6455 section 1.3
    uint8_t digest[EVP_MAX_MD_SIZE];
    char text[128];
    size_t len = key.len < sizeof(text) - sizeof(guid) ? key.len : sizeof(text) - sizeof(guid);
    if (len) memcpy(text, key.at, len);
    memcpy(text + len, guid, sizeof(guid) - 1);
    unsigned digest_len = 0;
    // SHA-1 may be missing in a FIPS provider: then nothing matches and the handshake fails closed.
    if (!EVP_Digest(text, len + sizeof(guid) - 1, digest, &digest_len, EVP_sha1(), NULL) || digest_len != 20)
        memset(digest, 0, sizeof(digest));
    format_base64(digest, 20, out);
}

static bool add_header(struct strbuf *out, struct str name, struct str value)
{
    return strbuf_add_str(out, name) && strbuf_add(out, ": ", 2) && strbuf_add_str(out, value) &&
           strbuf_add(out, "\r\n", 2);
}

static bool is_target(struct str path)
{
    if (!path.len || path.at[0] != '/') return false;
    for (size_t i = 0; i < path.len; i++)
        if ((unsigned char)path.at[i] <= ' ' || (unsigned char)path.at[i] >= 0x7f) return false;
    return true;
}

enum error_code ws_handshake_write(const struct ws_handshake_request *request, struct str key, struct strbuf *out,
                                   struct error *err)
{
    if (!is_target(request->path)) return error_set(err, ERROR_INVALID, "websocket path must be a request target");
    if (!request->host.len || !http1_is_field_value(request->host))
        return error_set(err, ERROR_INVALID, "websocket host must be a header value");
    if (request->subprotocol.len && !http1_is_token(request->subprotocol))
        return error_set(err, ERROR_INVALID, "websocket subprotocol must be a token");

    bool ok = strbuf_add_c(out, "GET ") && strbuf_add_str(out, request->path) && strbuf_add_c(out, " HTTP/1.1\r\n") &&
              add_header(out, STR("Host"), request->host) && add_header(out, STR("Upgrade"), STR("websocket")) &&
              add_header(out, STR("Connection"), STR("Upgrade")) &&
              add_header(out, STR("Sec-WebSocket-Version"), STR("13")) &&
              add_header(out, STR("Sec-WebSocket-Key"), key);
    if (ok && request->subprotocol.len) ok = add_header(out, STR("Sec-WebSocket-Protocol"), request->subprotocol);
    for (size_t i = 0; ok && i < request->header_count; i++) {
        const struct http_header *h = &request->headers[i];
        if (!http1_is_token(h->name) || !http1_is_field_value(h->value))
            return error_set(err, ERROR_INVALID, "header %.*s has a value that cannot be sent", STR_ARG(h->name));
        ok = add_header(out, h->name, h->value);
    }
    ok = ok && strbuf_add(out, "\r\n", 2);
    return ok ? ERROR_NONE : error_set(err, ERROR_TOO_LARGE, "websocket request over its limit");
}

enum error_code ws_handshake_check(const struct http1_head *head, struct str key, struct error *err)
{
    char accept[WS_HANDSHAKE_ACCEPT_BYTES];
    ws_handshake_accept(key, accept);
    if (head->status != 101) return error_set(err, ERROR_PROTOCOL, "websocket: answered %d", head->status);
    if (!str_eq_nocase(str_trim(http1_find(head, STR("upgrade"))), STR("websocket")) ||
        !http1_has_token(head, STR("connection"), STR("upgrade")))
        return error_set(err, ERROR_PROTOCOL, "websocket: 101 without upgrade to websocket");
    if (!str_eq(http1_find(head, STR("sec-websocket-accept")), str_c(accept)))
        return error_set(err, ERROR_PROTOCOL, "websocket: invalid Sec-WebSocket-Accept");
    return ERROR_NONE;
}

static void read_refusal(const struct http1_head *head, struct ws_handshake_answer *out)
{
    uint64_t seconds;
    out->status = head->status;
    if (parse_u64(http1_find(head, STR("retry-after")), 0, 86400, &seconds, NULL) == ERROR_NONE)
        out->retry_after_ms = (int64_t)seconds * 1000;
}

enum error_code ws_handshake_add(struct strbuf *request, struct str name, struct str value, struct error *err)
{
    if (!http1_is_token(name) || !http1_is_field_value(value))
        return error_set(err, ERROR_INVALID, "header %.*s has a value that cannot be sent", STR_ARG(name));
    request->len -= 2; // of the empty line
    bool ok = add_header(request, name, value) && strbuf_add(request, "\r\n", 2);
    return ok ? ERROR_NONE : error_set(err, ERROR_TOO_LARGE, "websocket request over its limit");
}

enum error_code ws_handshake_read(const char *at, size_t len, struct str key, struct str subprotocol,
                                  struct ws_handshake_answer *out, size_t *out_bytes, struct error *err)
{
    struct http1_head head;
    size_t bytes;
    enum error_code code = http1_parse_response(at, len, WS_HANDSHAKE_ANSWER_BYTES_MAX, STR("GET"), &head, &bytes, err);
    if (code == ERROR_AGAIN) return code;
    if (code) {
        error_prefix(err, "websocket answer");
        return code;
    }

    struct ws_handshake_answer answer = {.status = head.status, .retry_after_ms = -1};
    struct str chosen = http1_find(&head, STR("sec-websocket-protocol"));
    if (chosen.len < sizeof(answer.subprotocol) && chosen.len) memcpy(answer.subprotocol, chosen.at, chosen.len);
    if (head.status != 101) {
        read_refusal(&head, &answer);
    } else {
        code = ws_handshake_check(&head, key, err);
        if (code) return code;
        if (!str_eq(chosen, subprotocol))
            return error_set(err, ERROR_PROTOCOL, "websocket: server selected another subprotocol");
        if (http1_find(&head, STR("sec-websocket-extensions")).len)
            return error_set(err, ERROR_PROTOCOL, "websocket: extension that was not requested");
        struct str proof = http1_find(&head, STR(WIRE_HEADER_PROOF));
        if (proof.len < sizeof(answer.proof) && proof.len) memcpy(answer.proof, proof.at, proof.len);
    }
    *out = answer;
    *out_bytes = bytes;
    return ERROR_NONE;
}
