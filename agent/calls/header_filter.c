#include "agent/calls/header_filter.h"

static const char *const hop_by_hop[] = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-authentication-info",
    "te",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    NULL,
};

// Made anew for the service, or by the WebSocket handshake of this hop.
static const char *const request_own[] = {
    "host", "content-length", "sec-websocket-key", "sec-websocket-version", "sec-websocket-accept", NULL,
};

static const char *const credentials[] = {
    "authorization",
    "cookie",
    "x-access-token",
    "x-forwarded-access-token",
    "x-forwarded-user",
    "x-forwarded-email",
    "x-forwarded-groups",
    "x-forwarded-preferred-username",
    NULL,
};

static const char *const identity_prefixes[] = {
    "impersonate-", "x-remote-", "remote-", "x-auth-request-", "x-webauth-", "culvert-", NULL,
};

static const char *const trailer_forbidden[] = {
    "content-length",
    "host",
    "content-encoding",
    "content-type",
    "content-range",
    "trailer",
    "set-cookie",
    "cache-control",
    "authorization",
    "expect",
    "max-forwards",
    "range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "forwarded",
    NULL,
};

static bool in_list(struct str name, const char *const *list)
{
    for (; *list; list++)
        if (str_eq_nocase(name, str_c(*list))) return true;
    return false;
}

static bool has_prefix(struct str name, const char *const *list)
{
    for (; *list; list++)
        if (str_starts_nocase(name, str_c(*list))) return true;
    return false;
}

// Does a Connection header among them name this one?
static bool named_by_connection(const struct http_header *headers, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++) {
        if (!str_eq_nocase(headers[i].name, STR("connection"))) continue;
        struct str rest = headers[i].value, element;
        bool more = true;
        while (more) {
            more = str_cut(&rest, ',', &element);
            if (str_eq_nocase(str_trim(element), name)) return true;
        }
    }
    return false;
}

static bool has_connection(const struct http_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(headers[i].name, STR("connection"))) return true;
    return false;
}

static bool request_passes(struct str name, bool webhook)
{
    if (in_list(name, hop_by_hop) || in_list(name, request_own)) return false;
    if (str_has_byte(name, '_') || has_prefix(name, identity_prefixes)) return false;
    if (webhook && str_eq_nocase(name, STR("authorization"))) return true;
    return !in_list(name, credentials);
}

size_t header_filter_request(const struct http_header *headers, size_t count, bool webhook, struct http_header *out)
{
    bool connection = has_connection(headers, count);
    size_t n = 0;
    for (size_t i = 0; i < count && n < HTTP1_HEADERS_MAX; i++) {
        if (!request_passes(headers[i].name, webhook)) continue;
        if (connection && named_by_connection(headers, count, headers[i].name)) continue;
        out[n++] = headers[i];
    }
    return n;
}

size_t header_filter_request_trailers(const struct http_header *trailers, size_t count, struct http_header *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count && n < HTTP1_HEADERS_MAX; i++) {
        struct str name = trailers[i].name;
        if (!request_passes(name, false) || in_list(name, trailer_forbidden)) continue;
        if (str_starts_nocase(name, STR("x-forwarded-"))) continue;
        out[n++] = trailers[i];
    }
    return n;
}

size_t header_filter_answer(const struct http_header *headers, size_t count, bool trailers, struct http_header *out)
{
    bool connection = has_connection(headers, count);
    size_t n = 0;
    for (size_t i = 0; i < count && n < HTTP1_HEADERS_MAX; i++) {
        struct str name = headers[i].name;
        if (in_list(name, hop_by_hop) || str_starts_nocase(name, STR("culvert-"))) continue;
        if (str_eq_nocase(name, STR("sec-websocket-accept"))) continue;
        if (trailers && in_list(name, trailer_forbidden)) continue;
        if (connection && named_by_connection(headers, count, name)) continue;
        out[n++] = headers[i];
    }
    return n;
}
