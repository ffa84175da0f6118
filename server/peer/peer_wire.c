#include "server/peer/peer_wire.h"

#include <inttypes.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>

#include "base/parse.h"

#define OURS "culvert-hop-"

enum { NAME_BYTES_MAX = 127, USER_BYTES_MAX = 1024, HEAD_TIMEOUT_MS_MAX = 24 * 3600 * 1000 };

bool peer_wire_is_ours(struct str name)
{
    return str_starts_nocase(name, STR(OURS));
}

// ---- requests ------------------------------------------------------------------------------------------------------

struct fields {
    struct http_header *at;
    size_t count, bytes;
};

static bool add(struct fields *fields, struct str name, struct str value)
{
    if (fields->count == PEER_WIRE_FIELDS_MAX) return false;
    fields->at[fields->count++] = (struct http_header){name, value};
    fields->bytes += name.len + value.len;
    return fields->bytes <= PEER_WIRE_HEAD_BYTES_MAX;
}

// What HTTP/2 does not carry (RFC 9113 section 8.2.2), and what only the far end may say.
static bool is_dropped(const struct http_header *header)
{
    static const char *const names[] = {
        "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "http2-settings", "host"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_eq(header->name, str_c(names[i]))) return true;
    if (peer_wire_is_ours(header->name)) return true;
    return str_eq(header->name, STR("te")) && !str_eq_nocase(str_trim(header->value), STR("trailers"));
}

static bool is_sendable(struct str name, struct str value)
{
    return name.len && name.at[0] != ':' && nghttp2_check_header_name((const uint8_t *)name.at, name.len) &&
           nghttp2_check_header_value_rfc9113((const uint8_t *)(value.at ? value.at : ""), value.len);
}

static struct str number(struct arena *arena, uint64_t value)
{
    return str_c(arena_printf(arena, "%" PRIu64, value));
}

static struct str encoded(struct arena *arena, const char *text)
{
    struct str plain = str_first(str_c(text), USER_BYTES_MAX);
    char *out = arena_alloc(arena, (plain.len + 2) / 3 * 4 + 1);
    return str_of(out, format_base64url((const uint8_t *)plain.at, plain.len, out));
}

static bool add_head(struct fields *fields, const struct tunnel_request *request, uint64_t epoch, struct arena *arena)
{
    bool fits = add(fields, STR(":method"), request->method);
    if (request->protocol.len) fits &= add(fields, STR(":protocol"), request->protocol);
    fits &= add(fields, STR(":scheme"), STR("https")) && add(fields, STR(":authority"), STR("peer"));
    fits &= add(fields, STR(":path"), request->path);
    fits &= add(fields, STR(OURS "account"), request->account_id) && add(fields, STR(OURS "runtime"), request->runtime);
    fits &= add(fields, STR(OURS "epoch"), number(arena, epoch));
    if (request->authority.len) fits &= add(fields, STR(OURS "authority"), request->authority);
    if (request->user_id) fits &= add(fields, STR(OURS "user"), encoded(arena, request->user_id));
    if (request->user_name) fits &= add(fields, STR(OURS "user-name"), encoded(arena, request->user_name));
    if (request->head_timeout_ms)
        fits &= add(fields, STR(OURS "head-timeout"), number(arena, request->head_timeout_ms));
    return fits;
}

enum error_code peer_wire_request_encode(const struct tunnel_request *request, uint64_t epoch, struct arena *arena,
                                         struct http_header out[PEER_WIRE_FIELDS_MAX], size_t *out_count,
                                         struct error *err)
{
    struct fields fields = {.at = out};
    if (request->path.len == 0 || request->path.at[0] != '/')
        return error_set(err, ERROR_INVALID, "the path must be in origin-form");
    if (!add_head(&fields, request, epoch, arena))
        return error_set(err, ERROR_TOO_LARGE, "the request line is too long");
    for (size_t i = 0; i < fields.count; i++)
        if (!nghttp2_check_header_value_rfc9113((const uint8_t *)(out[i].value.at ? out[i].value.at : ""),
                                                out[i].value.len))
            return error_set(err, ERROR_INVALID, "the request line cannot be sent over HTTP/2");
    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];
        if (is_dropped(header)) continue;
        if (!is_sendable(header->name, header->value))
            return error_set(err, ERROR_INVALID, "request header %zu cannot be sent over HTTP/2", i);
        if (!add(&fields, header->name, header->value))
            return error_set(err, ERROR_TOO_LARGE, "too many request headers");
    }
    *out_count = fields.count;
    return ERROR_NONE;
}

// What a hop says of itself; each at most once.
struct hop {
    struct str method, protocol, path, scheme, peer, account, runtime, epoch, authority, user, user_name, head_timeout;
};

static struct str *slot_of(struct hop *hop, struct str name)
{
    const struct {
        struct str name;
        struct str *slot;
    } slots[] = {
        {STR(":method"), &hop->method},
        {STR(":protocol"), &hop->protocol},
        {STR(":path"), &hop->path},
        {STR(":scheme"), &hop->scheme},
        {STR(":authority"), &hop->peer},
        {STR(OURS "account"), &hop->account},
        {STR(OURS "runtime"), &hop->runtime},
        {STR(OURS "epoch"), &hop->epoch},
        {STR(OURS "authority"), &hop->authority},
        {STR(OURS "user"), &hop->user},
        {STR(OURS "user-name"), &hop->user_name},
        {STR(OURS "head-timeout"), &hop->head_timeout},
    };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (str_eq(name, slots[i].name)) return slots[i].slot;
    return NULL;
}

static bool is_name(struct str s)
{
    if (s.len == 0 || s.len > NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '_' || c == '.';
        if (!fine) return false;
    }
    return true;
}

// NULL: malformed. A field that is absent gives *out NULL.
static bool decode_user(struct str text, struct arena *arena, const char **out)
{
    *out = NULL;
    if (!text.at) return true;
    size_t len = 0;
    if (text.len > (USER_BYTES_MAX + 2) / 3 * 4) return false;
    uint8_t *plain = arena_alloc(arena, text.len + 4);
    if (parse_base64url(text, plain, text.len + 3, &len, NULL) != ERROR_NONE) return false;
    if (!str_is_utf8(str_of((const char *)plain, len))) return false;
    plain[len] = '\0';
    *out = (const char *)plain;
    return true;
}

static enum error_code check_hop(const struct hop *hop, struct arena *arena, struct tunnel_request *out,
                                 struct error *err)
{
    if (!hop->method.len || !hop->path.len || hop->path.at[0] != '/' || !str_eq(hop->peer, STR("peer")))
        return error_set(err, ERROR_PROTOCOL, "hop: method, path or authority");
    if (str_eq(hop->method, STR("CONNECT")) != (hop->protocol.len > 0))
        return error_set(err, ERROR_PROTOCOL, "hop: CONNECT requires :protocol");
    if (!is_name(hop->account) || !is_name(hop->runtime))
        return error_set(err, ERROR_PROTOCOL, "hop: account or runtime");
    if (parse_u64(hop->epoch, 1, INT64_MAX, &out->epoch, NULL) != ERROR_NONE)
        return error_set(err, ERROR_PROTOCOL, "hop: epoch");
    if (hop->head_timeout.at &&
        parse_u64(hop->head_timeout, 1, HEAD_TIMEOUT_MS_MAX, &out->head_timeout_ms, NULL) != ERROR_NONE)
        return error_set(err, ERROR_PROTOCOL, "hop: head timeout");
    if (!decode_user(hop->user, arena, &out->user_id) || !decode_user(hop->user_name, arena, &out->user_name))
        return error_set(err, ERROR_PROTOCOL, "hop: user");
    return ERROR_NONE;
}

enum error_code peer_wire_request_decode(const struct http_header *fields, size_t count, struct arena *arena,
                                         struct tunnel_request *out, struct error *err)
{
    struct hop hop = {0};
    struct tunnel_request request = {0};
    struct http_header *headers = arena_array(arena, count + 1, sizeof *headers);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct str *slot = slot_of(&hop, fields[i].name);
        if (slot && slot->at) return error_set(err, ERROR_PROTOCOL, "hop: duplicate field");
        if (slot)
            *slot = fields[i].value.at ? fields[i].value : STR("");
        else if (peer_wire_is_ours(fields[i].name) || (fields[i].name.len && fields[i].name.at[0] == ':'))
            return error_set(err, ERROR_PROTOCOL, "hop: unknown field");
        else
            headers[kept++] = fields[i];
    }
    enum error_code code = check_hop(&hop, arena, &request, err);
    if (code != ERROR_NONE) return code;
    request.account_id = hop.account;
    request.runtime = hop.runtime;
    request.method = hop.method;
    request.path = hop.path;
    request.authority = hop.authority;
    request.protocol = hop.protocol;
    request.headers = headers;
    request.header_count = kept;
    *out = request;
    return ERROR_NONE;
}

// ---- failures ------------------------------------------------------------------------------------------------------

int peer_wire_fail_encode(enum tunnel_cause cause, const char *detail, char *text,
                          struct http_header out[PEER_WIRE_FAIL_FIELDS], size_t *out_count)
{
    size_t len = 0;
    for (; detail && detail[len] && len < PEER_WIRE_DETAIL_BYTES - 1; len++)
        text[len] = detail[len] >= ' ' && detail[len] < 0x7f ? detail[len] : '?';
    text[len] = '\0';
    struct str said = str_trim(str_of(text, len));
    out[0] = (struct http_header){STR(OURS "cause"), str_c(tunnel_cause_name(cause))};
    out[1] = (struct http_header){STR(OURS "detail"), said};
    *out_count = 2;
    return cause == TUNNEL_CAUSE_NO_TUNNEL ? 421 : tunnel_cause_status(cause);
}

enum tunnel_cause peer_wire_fail_decode(const struct http_header *fields, size_t count, struct str *out_detail)
{
    enum tunnel_cause cause = TUNNEL_CAUSE_NONE;
    *out_detail = STR_EMPTY;
    for (size_t i = 0; i < count; i++) {
        if (str_eq(fields[i].name, STR(OURS "detail"))) *out_detail = fields[i].value;
        if (!str_eq(fields[i].name, STR(OURS "cause"))) continue;
        cause = TUNNEL_CAUSE_UPSTREAM_FAILED; // one that a newer replica knows and we do not
        for (int c = TUNNEL_CAUSE_NONE + 1; c <= TUNNEL_CAUSE_CANCELLED; c++)
            if (str_eq(fields[i].value, str_c(tunnel_cause_name((enum tunnel_cause)c)))) cause = (enum tunnel_cause)c;
    }
    return cause;
}

uint32_t peer_wire_reset_code(enum tunnel_cause cause)
{
    return (uint32_t)PEER_WIRE_RESET + (uint32_t)cause;
}

enum tunnel_cause peer_wire_reset_cause(uint32_t code)
{
    uint32_t cause = code - (uint32_t)PEER_WIRE_RESET;
    return code > PEER_WIRE_RESET && cause <= TUNNEL_CAUSE_CANCELLED ? (enum tunnel_cause)cause : TUNNEL_CAUSE_NONE;
}
