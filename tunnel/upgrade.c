#include "tunnel/upgrade.h"

#include <stdint.h>

#include "base/parse.h"
#include "base/token.h"
#include "tunnel/wire/handshake.h"

enum { WEBSOCKET_KEY_BYTES = 16 };

static bool upgrade_list_has(struct str list, struct str wanted, bool nocase)
{
    struct str item;
    bool more = true;
    while (more) {
        more = str_cut(&list, ',', &item);
        item = str_trim(item);
        if (nocase ? str_eq_nocase(item, wanted) : str_eq(item, wanted)) return true;
    }
    return false;
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
    if (!upgrade_list_has(u->connection, STR("upgrade"), true))
        return upgrade_refuse(400, ERROR_INVALID, err, "Connection does not name Upgrade");
    if (!str_eq(u->websocket_version, STR("13")))
        return upgrade_refuse(426, ERROR_INVALID, err, "Sec-WebSocket-Version must be 13");
    if (!upgrade_key_is_valid(u->websocket_key))
        return upgrade_refuse(400, ERROR_INVALID, err, "Sec-WebSocket-Key is not the base64 text of 16 bytes");
    if (u->has_origin) return upgrade_refuse(403, ERROR_FORBIDDEN, err, "browsers have no business here");
    if (!upgrade_list_has(u->subprotocols, STR(WIRE_TUNNEL_SUBPROTOCOL), false))
        return upgrade_refuse(426, ERROR_INVALID, err, "the subprotocol here is " WIRE_TUNNEL_SUBPROTOCOL);
    return 101;
}

int tunnel_upgrade_check(const struct tunnel_upgrade *u, struct str *out_token, struct error *err)
{
    if (u->too_long) return upgrade_refuse(400, ERROR_TOO_LARGE, err, "a header is too long");
    if (u->repeated) return upgrade_refuse(400, ERROR_INVALID, err, "a header is repeated");
    if (!u->is_get || !u->http_1_1) return upgrade_refuse(400, ERROR_INVALID, err, "only GET with HTTP/1.1");
    if (u->has_body) return upgrade_refuse(400, ERROR_INVALID, err, "the request has a body");
    if (u->host.len == 0) return upgrade_refuse(400, ERROR_INVALID, err, "Host is missing");
    if (!str_eq(u->path, STR(WIRE_TUNNEL_PATH)) || u->query.len)
        return upgrade_refuse(404, ERROR_NOT_FOUND, err, "only " WIRE_TUNNEL_PATH " is here");
    int status = upgrade_check_websocket(u, err);
    if (status != 101) return status;
    struct str token = token_from_authorization(u->authorization);
    if (token.len == 0) return upgrade_refuse(401, ERROR_UNAUTHENTICATED, err, "a runtime token is required");
    if (!upgrade_name_is_valid(u->instance_id, 127) || !upgrade_name_is_valid(u->boot_id, 63) ||
        !upgrade_name_is_valid(u->agent_version, 63) || !upgrade_name_is_valid(u->runtime, 127))
        return upgrade_refuse(400, ERROR_INVALID, err,
                              "one of the headers " WIRE_HEADER_INSTANCE_ID ", " WIRE_HEADER_BOOT_ID
                              ", " WIRE_HEADER_AGENT_VERSION ", " WIRE_HEADER_RUNTIME " is missing or malformed");
    *out_token = token;
    return 101;
}

static const char *upgrade_reason(int status)
{
    switch (status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 426: return "Upgrade Required";
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
    if (status == 401) strbuf_add_c(out, "www-authenticate: Bearer realm=\"culvert tunnel\"\r\n");
    if (status == 503) strbuf_addf(out, "retry-after: %u\r\n", retry_after_s);
    strbuf_addf(out, "content-length: %zu\r\n\r\n%s\n", strlen(err->text) + 1, err->text);
}
