#include "tunnel/listener/upgrade.h"

#include <stdint.h>

#include "base/http1/http1.h"
#include "base/parse.h"
#include "base/token.h"
#include "tunnel/wire/handshake.h"
#include "tunnel/wire/ws_handshake.h"

enum { WEBSOCKET_KEY_BYTES = 16 };

// ---- reading -------------------------------------------------------------------------------------------------

// A header that we interpret: once, and bounded.
static struct str upgrade_header(struct tunnel_upgrade *u, const struct http1_head *head, struct str name)
{
    struct str value = STR_EMPTY;
    unsigned count = 0;
    for (size_t i = 0; i < head->header_count; i++) {
        if (!str_eq_nocase(head->headers[i].name, name)) continue;
        value = head->headers[i].value;
        count++;
    }
    if (count > 1) u->repeated = true;
    if (value.len > UPGRADE_HEADER_BYTES_MAX) u->too_long = true;
    return value;
}

static bool upgrade_has_header(const struct http1_head *head, struct str name)
{
    for (size_t i = 0; i < head->header_count; i++)
        if (str_eq_nocase(head->headers[i].name, name)) return true;
    return false;
}

static void upgrade_read(struct tunnel_upgrade *u, const struct http1_head *head)
{
    u->is_get = str_eq(head->method, STR("GET"));
    u->is_known_method = http1_is_known_method(head->method);
    u->http_1_1 = head->minor == 1;
    u->has_body = head->body != HTTP1_BODY_NONE;
    u->has_origin = upgrade_has_header(head, STR("origin"));
    u->has_expect = upgrade_has_header(head, STR("expect"));
    u->connection_upgrade = http1_has_token(head, STR("connection"), STR("upgrade"));
    u->query = head->target;
    u->path = u->query;
    if (!str_cut(&u->query, '?', &u->path)) u->query = STR_EMPTY;
    if (str_has_byte(head->target, '?') && !u->query.len) u->query = STR("?");
    u->host = head->host;
    u->upgrade = upgrade_header(u, head, STR("upgrade"));
    u->websocket_version = upgrade_header(u, head, STR("sec-websocket-version"));
    u->websocket_key = upgrade_header(u, head, STR("sec-websocket-key"));
    u->subprotocols = upgrade_header(u, head, STR("sec-websocket-protocol"));
    u->authorization = upgrade_header(u, head, STR("authorization"));
    u->instance_id = upgrade_header(u, head, STR(WIRE_HEADER_INSTANCE_ID));
    u->boot_id = upgrade_header(u, head, STR(WIRE_HEADER_BOOT_ID));
    u->agent_version = upgrade_header(u, head, STR(WIRE_HEADER_AGENT_VERSION));
    u->runtime = upgrade_header(u, head, STR(WIRE_HEADER_RUNTIME));
    u->features = upgrade_header(u, head, STR(WIRE_HEADER_FEATURES));
    u->enrollment = upgrade_header(u, head, STR(WIRE_HEADER_ENROLLMENT));
    u->enrollment_hash = upgrade_header(u, head, STR(WIRE_HEADER_ENROLLMENT_HASH));
}

enum error_code tunnel_upgrade_parse(const char *at, size_t len, size_t head_bytes_max, struct tunnel_upgrade *out,
                                     struct error *err)
{
    struct http1_head head;
    size_t head_bytes = 0;
    enum error_code code = http1_parse_request(at, len, head_bytes_max, &head, &head_bytes, err);
    if (code) return code;
    // A WebSocket client sends nothing before it has seen the 101: this is a second request, or a
    // body without a length.
    if (head_bytes < len) return error_set(err, ERROR_INVALID, "bytes after the request");
    struct tunnel_upgrade upgrade = {0};
    upgrade_read(&upgrade, &head);
    *out = upgrade;
    return ERROR_NONE;
}

// ---- judging -------------------------------------------------------------------------------------------------

static bool upgrade_list_has(struct str list, struct str wanted)
{
    struct str item;
    bool more = true;
    while (more) {
        more = str_cut(&list, ',', &item);
        if (str_eq(str_trim(item), wanted)) return true;
    }
    return false;
}

bool tunnel_upgrade_has_feature(const struct tunnel_upgrade *upgrade, struct str feature)
{
    return upgrade_list_has(upgrade->features, feature);
}

// Empty is a list, too: it names nothing we speak.
static bool upgrade_list_is_valid(struct str list)
{
    struct str item;
    bool more = list.len > 0;
    while (more) {
        more = str_cut(&list, ',', &item);
        if (!http1_is_token(str_trim(item))) return false;
    }
    return true;
}

static bool upgrade_key_is_valid(struct str key)
{
    uint8_t nonce[WEBSOCKET_KEY_BYTES + 2];
    size_t len = 0;
    return key.len == 24 && parse_base64(key, nonce, sizeof(nonce), &len, NULL) == ERROR_NONE &&
           len == WEBSOCKET_KEY_BYTES;
}

// Names that land in logs, rows and pages: visible ASCII, bounded.
static bool upgrade_name_is_valid(struct str name, size_t bytes_max)
{
    if (name.len == 0 || name.len > bytes_max) return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] <= 0x20 || name.at[i] >= 0x7f) return false;
    return true;
}

static int upgrade_refuse(int status, enum error_code code, struct error *err, const char *text)
{
    (void)error_set(err, code, "%s", text);
    return status;
}

static int upgrade_check_websocket(const struct tunnel_upgrade *u, struct error *err)
{
    if (u->upgrade.len == 0 || !str_eq_nocase(u->upgrade, STR("websocket")))
        return upgrade_refuse(426, ERROR_INVALID, err, "this is a WebSocket endpoint");
    if (!u->connection_upgrade) return upgrade_refuse(400, ERROR_INVALID, err, "Connection does not name Upgrade");
    if (!str_eq(u->websocket_version, STR("13")))
        return upgrade_refuse(426, ERROR_INVALID, err, "Sec-WebSocket-Version must be 13");
    if (!upgrade_key_is_valid(u->websocket_key))
        return upgrade_refuse(400, ERROR_INVALID, err, "Sec-WebSocket-Key is not the base64 text of 16 bytes");
    if (u->has_origin) return upgrade_refuse(403, ERROR_FORBIDDEN, err, "browsers have no business here");
    if (!upgrade_list_is_valid(u->subprotocols))
        return upgrade_refuse(400, ERROR_INVALID, err, "Sec-WebSocket-Protocol is not a list of tokens");
    if (!upgrade_list_has(u->subprotocols, STR(WIRE_TUNNEL_SUBPROTOCOL)))
        return upgrade_refuse(426, ERROR_INVALID, err, "the subprotocol here is " WIRE_TUNNEL_SUBPROTOCOL);
    return 101;
}

static int upgrade_read_credential(const struct tunnel_upgrade *u, struct tunnel_credential *out, struct error *err)
{
    struct str value = str_trim(u->authorization);
    bool is_sealed = str_starts_nocase(value, STR("culvert "));
    out->token = is_sealed ? str_trim(str_from(value, strlen("culvert "))) : token_from_authorization(value);
    out->binding = is_sealed ? u->binding : NULL;
    out->runtime = u->runtime;
    out->enrollment = str_trim(u->enrollment);
    out->enrollment_hash = str_trim(u->enrollment_hash);
    if (out->token.len == 0) return upgrade_refuse(401, ERROR_UNAUTHENTICATED, err, "a runtime token is required");
    if (is_sealed && !u->binding)
        return upgrade_refuse(401, ERROR_UNAUTHENTICATED, err,
                              "a sealed token requires TLS 1.3, or 1.2 with the extended master secret");
    return 101;
}

int tunnel_upgrade_check(const struct tunnel_upgrade *u, struct tunnel_credential *out, struct error *err)
{
    if (u->too_long) return upgrade_refuse(400, ERROR_TOO_LARGE, err, "a header is too long");
    if (u->repeated) return upgrade_refuse(400, ERROR_INVALID, err, "a header is repeated");
    if (!u->is_known_method)
        return upgrade_refuse(501, ERROR_INVALID, err, "the method is not one of HTTP, and only GET is taken here");
    if (!u->is_get) return upgrade_refuse(405, ERROR_INVALID, err, "only GET");
    if (!u->http_1_1) return upgrade_refuse(400, ERROR_INVALID, err, "only GET with HTTP/1.1");
    if (u->has_expect) return upgrade_refuse(400, ERROR_INVALID, err, "nothing is expected of an upgrade");
    if (u->has_body) return upgrade_refuse(400, ERROR_INVALID, err, "the request has a body");
    if (u->host.len == 0) return upgrade_refuse(400, ERROR_INVALID, err, "Host is missing");
    if (!str_eq(u->path, STR(WIRE_TUNNEL_PATH)) || u->query.len)
        return upgrade_refuse(404, ERROR_NOT_FOUND, err, "only " WIRE_TUNNEL_PATH " is here");
    int status = upgrade_check_websocket(u, err);
    if (status != 101) return status;
    struct tunnel_credential credential;
    status = upgrade_read_credential(u, &credential, err);
    if (status != 101) return status;
    if (!upgrade_name_is_valid(u->instance_id, 127) || !upgrade_name_is_valid(u->boot_id, 63) ||
        !upgrade_name_is_valid(u->agent_version, 63) || !upgrade_name_is_valid(u->runtime, 127))
        return upgrade_refuse(400, ERROR_INVALID, err,
                              "one of the headers " WIRE_HEADER_INSTANCE_ID ", " WIRE_HEADER_BOOT_ID
                              ", " WIRE_HEADER_AGENT_VERSION ", " WIRE_HEADER_RUNTIME " is missing or malformed");
    *out = credential;
    return 101;
}

// ---- answering -----------------------------------------------------------------------------------------------

void tunnel_upgrade_accept(struct str websocket_key, struct str proof, struct strbuf *out)
{
    char accept[WS_HANDSHAKE_ACCEPT_BYTES];
    ws_handshake_accept(websocket_key, accept);
    strbuf_addf(out,
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                "sec-websocket-accept: %s\r\nsec-websocket-protocol: " WIRE_TUNNEL_SUBPROTOCOL "\r\n",
                accept);
    if (proof.len) strbuf_addf(out, WIRE_HEADER_PROOF ": %.*s\r\n", STR_ARG(proof));
    strbuf_add_c(out, "\r\n");
}

static const char *upgrade_reason(int status)
{
    switch (status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Error";
    }
}

void tunnel_upgrade_answer(int status, unsigned retry_after_s, const struct error *err, struct strbuf *out)
{
    strbuf_addf(out, "HTTP/1.1 %d %s\r\n", status, upgrade_reason(status));
    strbuf_add_c(out, "connection: close\r\ncontent-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n");
    if (status == 426)
        strbuf_add_c(
            out, "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-protocol: " WIRE_TUNNEL_SUBPROTOCOL
                 "\r\n");
    if (status == 405) strbuf_add_c(out, "allow: GET\r\n");
    if (status == 401) strbuf_add_c(out, "www-authenticate: Bearer realm=\"culvert tunnel\"\r\n");
    if (status == 503 || status == 429) strbuf_addf(out, "retry-after: %u\r\n", retry_after_s);
    strbuf_addf(out, "content-length: %zu\r\n\r\n%s\n", strlen(err->text) + 1, err->text);
}
