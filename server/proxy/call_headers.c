#include "server/proxy/call_headers.h"

#include "base/token.h"
#include "server/proxy/call_proxy.h"
#include "server/proxy/request_id.h"

// A field name in a table, with its length: tables are walked for each field of each request.
#define FIELD(name)                                                                                                    \
    {                                                                                                                  \
        name, sizeof(name) - 1                                                                                         \
    }

// ---- into the cluster ---------------------------------------------------------------------------

// Hop-by-hop (RFC 9110 section 7.6.1), framing that is made anew, credentials, and what others
// would believe about where the request comes from or what it means.
static const struct str request_denied[] = {
    FIELD("connection"),
    FIELD("keep-alive"),
    FIELD("te"),
    FIELD("trailer"),
    FIELD("transfer-encoding"),
    FIELD("upgrade"),
    FIELD("http2-settings"),
    FIELD("host"),
    FIELD("content-length"),
    FIELD("expect"),
    FIELD("authorization"),
    FIELD("cookie"),
    FIELD("cookie2"),
    FIELD("x-access-token"),
    FIELD("x-csrf-token"),
    FIELD("forwarded"),
    FIELD("via"),
    FIELD("x-real-ip"),
    FIELD("x-client-ip"),
    FIELD("true-client-ip"),
    FIELD("x-cluster-client-ip"),
    FIELD("cf-connecting-ip"),
    FIELD("x-request-id"),
    FIELD("x-rewrite-url"),
    FIELD("x-http-method"),
    FIELD("x-method-override"),
    FIELD("x-http-method-override"),
};
static const struct str request_denied_prefixes[] = {
    FIELD("impersonate-"),    FIELD("x-remote-"),
    FIELD("x-forwarded-"),    FIELD("x-original-"),
    FIELD("culvert-"),        FIELD("proxy-"),
    FIELD("x-auth-request-"), FIELD("x-webauth-"),
    FIELD("x-ssl-"),          FIELD("ssl-client-"),
    FIELD("x-client-cert"),   FIELD("x-goog-authenticated-"),
    FIELD("x-amzn-oidc-"),    FIELD("x-ms-client-principal"),
    FIELD("sec-websocket-"),  FIELD("remote-"),
    FIELD("x-goog-iap-"),     FIELD("cf-access-"),
    FIELD("x-pomerium-"),     FIELD("x-authentik-"),
    FIELD("x-vouch-"),        FIELD("tailscale-"),
};
// End to end through the tunnel; the key and its answer are between the client and us.
static const struct str websocket_kept[] = {FIELD("sec-websocket-protocol"), FIELD("sec-websocket-version"),
                                            FIELD("sec-websocket-extensions")};

// Checksums of what went before; gRPC knows no trailers of a client.
static const struct str request_trailers_allowed[] = {FIELD("content-digest"), FIELD("repr-digest"), FIELD("digest"),
                                                      FIELD("content-md5"), FIELD("server-timing")};
static const struct str request_trailer_prefixes[] = {FIELD("x-checksum-"), FIELD("x-amz-checksum-"),
                                                      FIELD("x-amz-trailer-"), FIELD("x-trailer-")};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool is_one_of(struct str name, const struct str *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].len == name.len && str_eq_nocase(name, list[i])) return true;
    return false;
}

static bool starts_with_one_of(struct str name, const struct str *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_starts_nocase(name, list[i])) return true;
    return false;
}

static bool list_has(struct str list, struct str token)
{
    struct str element;
    bool more = true;
    while (more) {
        more = str_cut(&list, ',', &element);
        if (str_eq_nocase(str_trim(element), token)) return true;
    }
    return false;
}

static bool is_named_by_connection(const struct http_header *headers, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(headers[i].name, STR("connection")) && list_has(headers[i].value, name)) return true;
    return false;
}

static bool is_platform_token(struct str value)
{
    struct token token;
    bool is = token_parse(token_from_authorization(value), &token, NULL) == ERROR_NONE;
    explicit_bzero(&token, sizeof token);
    return is;
}

static bool may_enter(const struct http_header *header, const struct call_caller *caller)
{
    struct str name = header->name;
    if (str_has_byte(name, '_') || !http1_is_token(name) || !http1_is_field_value(header->value)) return false;
    if (caller->websocket && is_one_of(name, websocket_kept, COUNT(websocket_kept))) return true;
    // A webhook's own credential is for the event source; ours never is.
    if (caller->anonymous && str_eq_nocase(name, STR("authorization"))) return !is_platform_token(header->value);
    return !is_one_of(name, request_denied, COUNT(request_denied)) &&
           !starts_with_one_of(name, request_denied_prefixes, COUNT(request_denied_prefixes));
}

static struct str lower_copy(struct arena *arena, struct str s)
{
    char *copy = arena_cstr(arena, s);
    for (size_t i = 0; i < s.len; i++)
        if (copy[i] >= 'A' && copy[i] <= 'Z') copy[i] = (char)(copy[i] - 'A' + 'a');
    return str_of(copy, s.len);
}

// All in a row, in the arena.
static struct str join(struct arena *arena, const struct str *parts, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    char *text = arena_alloc(arena, len + 1), *end = text;
    for (size_t i = 0; i < count; i++)
        if (parts[i].len) end = (char *)memcpy(end, parts[i].at, parts[i].len) + parts[i].len;
    return str_of(text, len);
}

// What a trusted proxy said in all fields of that name, and then `own`.
static struct str append_to(struct str own, struct str name, const struct http_header *headers, size_t count,
                            const struct call_caller *caller, struct arena *arena)
{
    struct str value = STR_EMPTY;
    if (!caller->is_trusted_proxy) return own;
    for (size_t i = 0; i < count; i++) {
        if (!str_eq_nocase(headers[i].name, name) || headers[i].value.len == 0) continue;
        if (value.len + headers[i].value.len > CALL_FORWARDED_BYTES_MAX || !http1_is_field_value(headers[i].value))
            return own;
        value = value.len ? join(arena, (struct str[]){value, STR(", "), headers[i].value}, 3) : headers[i].value;
    }
    return value.len ? join(arena, (struct str[]){value, STR(", "), own}, 3) : own;
}

// RFC 7239: for= and host= are quoted because of colons and brackets.
static struct str forwarded_value(const struct call_caller *caller, struct str proto, struct arena *arena)
{
    bool v6 = str_has_byte(caller->peer, ':');
    const struct str parts[] = {v6 ? STR("for=\"[") : STR("for=\""),
                                caller->peer,
                                v6 ? STR("]\";host=\"") : STR("\";host=\""),
                                caller->host,
                                STR("\";proto="),
                                proto};
    return join(arena, parts, COUNT(parts));
}

static struct str proto_of(const struct http_header *headers, size_t count, const struct call_caller *caller)
{
    for (size_t i = 0; caller->is_trusted_proxy && i < count; i++) {
        if (!str_eq_nocase(headers[i].name, STR("x-forwarded-proto"))) continue;
        if (str_eq(headers[i].value, STR("https"))) return STR("https");
        if (str_eq(headers[i].value, STR("http"))) return STR("http");
    }
    return caller->tls ? STR("https") : STR("http");
}

bool call_headers_take_trailers(const struct http_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(headers[i].name, STR("te")) && list_has(headers[i].value, STR("trailers"))) return true;
    return false;
}

size_t call_headers_request(const struct http_header *headers, size_t count, const struct call_caller *caller,
                            struct arena *arena, struct http_header *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const struct http_header *header = &headers[i];
        if (caller->body && str_eq_nocase(header->name, STR("content-length")))
            out[n++] = (struct http_header){STR("content-length"), header->value};
        if (!may_enter(header, caller) || is_named_by_connection(headers, count, header->name)) continue;
        out[n++] = (struct http_header){lower_copy(arena, header->name), header->value};
    }
    if (call_headers_take_trailers(headers, count)) out[n++] = (struct http_header){STR("te"), STR("trailers")};
    struct str proto = proto_of(headers, count, caller), forwarded = forwarded_value(caller, proto, arena);
    if (caller->expect_continue) out[n++] = (struct http_header){STR("expect"), STR("100-continue")};
    out[n++] = (struct http_header){STR("x-forwarded-for"),
                                    append_to(caller->peer, STR("x-forwarded-for"), headers, count, caller, arena)};
    out[n++] = (struct http_header){STR("x-forwarded-host"), caller->host};
    out[n++] = (struct http_header){STR("x-forwarded-proto"), proto};
    out[n++] =
        (struct http_header){STR("forwarded"), append_to(forwarded, STR("forwarded"), headers, count, caller, arena)};
    out[n++] = (struct http_header){STR("x-request-id"), caller->request_id};
    if (caller->prefix.len) out[n++] = (struct http_header){STR("x-forwarded-prefix"), caller->prefix};
    return n;
}

// The value of a field that may come once; repeated, it has two meanings and counts as absent.
static struct str find_single(const struct http_header *headers, size_t count, struct str name)
{
    struct str found = STR_EMPTY;
    size_t times = 0;
    for (size_t i = 0; i < count; i++) {
        if (!str_eq_nocase(headers[i].name, name)) continue;
        found = headers[i].value;
        times++;
    }
    return times == 1 ? found : STR_EMPTY;
}

struct str call_headers_credential(const struct http_header *headers, size_t count)
{
    struct str value = token_from_authorization(find_single(headers, count, STR("authorization")));
    return value.len ? value : find_single(headers, count, STR("x-access-token"));
}

void call_headers_take_credential(const struct http_header *headers, size_t count, bool takes_cookie,
                                  struct call_credential *out)
{
    *out = (struct call_credential){.token = call_headers_credential(headers, count)};
    if (out->token.len || !takes_cookie) return;
    out->cookie = find_single(headers, count, STR("cookie"));
    out->csrf_token = find_single(headers, count, STR("x-csrf-token"));
    out->sec_fetch_site = find_single(headers, count, STR("sec-fetch-site"));
}

struct str call_headers_request_id(const struct http_header *headers, size_t count)
{
    struct str id = find_single(headers, count, STR("x-request-id"));
    return request_id_is_sound(id) ? id : STR_EMPTY;
}

// Nothing about framing, routing, credentials or identity may stand behind a body (RFC 9110 section
// 6.5.1).
size_t call_headers_request_trailers(const struct http_header *trailers, size_t count, struct arena *arena,
                                     struct http_header *out, size_t out_max)
{
    size_t n = 0;
    for (size_t i = 0; i < count && n < out_max; i++) {
        struct str name = trailers[i].name;
        bool allowed = is_one_of(name, request_trailers_allowed, COUNT(request_trailers_allowed)) ||
                       starts_with_one_of(name, request_trailer_prefixes, COUNT(request_trailer_prefixes));
        if (allowed && http1_is_token(name) && !str_has_byte(name, '_') &&
            trailers[i].value.len <= CALL_HEADER_BYTES_MAX && http1_is_field_value(trailers[i].value))
            out[n++] = (struct http_header){lower_copy(arena, name), trailers[i].value};
    }
    return n;
}

// ---- out of the cluster -------------------------------------------------------------------------

// What describes the answer itself. Nothing here sets state or policy in a browser for the origin.
static const struct {
    struct str name;
    bool list; // may come several times
} response_allowed[] = {
    {FIELD("content-type"), false},
    {FIELD("content-encoding"), true},
    {FIELD("content-language"), true},
    {FIELD("content-disposition"), false},
    {FIELD("content-range"), false},
    {FIELD("content-md5"), false},
    {FIELD("content-digest"), true},
    {FIELD("repr-digest"), true},
    {FIELD("digest"), true},
    {FIELD("cache-control"), true},
    {FIELD("pragma"), false},
    {FIELD("expires"), false},
    {FIELD("age"), false},
    {FIELD("date"), false},
    {FIELD("etag"), false},
    {FIELD("last-modified"), false},
    {FIELD("vary"), true},
    {FIELD("accept-ranges"), false},
    {FIELD("accept-patch"), true},
    {FIELD("allow"), true},
    {FIELD("retry-after"), false},
    {FIELD("x-total-count"), false},
    {FIELD("grpc-status"), false},
    {FIELD("grpc-message"), false},
    {FIELD("grpc-encoding"), false},
    {FIELD("grpc-accept-encoding"), true},
    {FIELD("traceresponse"), false},
    {FIELD("sec-websocket-protocol"), false},
    {FIELD("sec-websocket-extensions"), true},
};
// A runtime's own origin may be opened to scripts of others: it knows no cookies, so there is
// nothing to ride on.
static const struct str cors_allowed[] = {FIELD("access-control-allow-origin"), FIELD("access-control-allow-methods"),
                                          FIELD("access-control-allow-headers"), FIELD("access-control-expose-headers"),
                                          FIELD("access-control-max-age")};
static const struct str trailers_allowed[] = {
    FIELD("grpc-status"),    FIELD("grpc-message"), FIELD("grpc-status-details-bin"),
    FIELD("content-digest"), FIELD("repr-digest"),  FIELD("digest"),
    FIELD("server-timing")};

static bool is_sound(const struct http_header *header)
{
    return header->value.len <= CALL_HEADER_BYTES_MAX && http1_is_token(header->name) &&
           http1_is_field_value(header->value);
}

static bool has_name(const struct http_header *headers, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(headers[i].name, name)) return true;
    return false;
}

// A path on our own host, or empty when the target is elsewhere: "//x", "/\x", other schemes and
// other hosts are.
static struct str local_location(struct str value, struct str host)
{
    static const struct str schemes[] = {FIELD("https://"), FIELD("http://")};
    if (value.len == 0 || str_has_byte(value, '\\')) return STR_EMPTY;
    // Browsers take tabs out before they read it: "/", tab, "/x" is "//x".
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.at[i] <= 0x20) return STR_EMPTY;
    for (size_t i = 0; i < COUNT(schemes); i++) {
        struct str rest = str_from(value, schemes[i].len);
        if (!str_starts_nocase(value, schemes[i])) continue;
        if (!str_starts_nocase(rest, host) || host.len == 0) return STR_EMPTY;
        rest = str_from(rest, host.len);
        if (rest.len == 0) return STR("/");
        value = rest;
        if (value.at[0] != '/') return STR_EMPTY;
    }
    if (str_starts(value, STR("//"))) return STR_EMPTY;
    // "javascript:..." and the like: a colon before the first slash makes a scheme.
    for (size_t i = 0; i < value.len && value.at[i] != '/' && value.at[i] != '?' && value.at[i] != '#'; i++)
        if (value.at[i] == ':') return STR_EMPTY;
    return value;
}

static struct str rewrite_location(struct str value, const struct call_origin *origin, struct arena *arena)
{
    struct str local = local_location(str_trim(value), origin->host);
    if (local.len == 0 || local.at[0] != '/' || origin->prefix.len == 0) return local;
    struct str rest = str_from(local, origin->prefix.len);
    if (str_starts(local, origin->prefix) && (rest.len == 0 || rest.at[0] == '/')) return local;
    return str_c(arena_printf(arena, "%.*s%.*s", STR_ARG(origin->prefix), STR_ARG(local)));
}

// Takes what stands before the next comma outside quotes. False: it was the last.
static bool take_element(struct str *rest, struct str *out)
{
    bool quoted = false;
    for (size_t i = 0; i < rest->len; i++) {
        char c = rest->at[i];
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted) {
            *out = str_first(*rest, i);
            *rest = str_from(*rest, i + 1);
            return true;
        }
    }
    *out = *rest;
    *rest = STR_EMPTY;
    return false;
}

// RFC 6750 section 3: one challenge. Its parameters are name=value each; a list could hide another
// scheme.
static bool is_bearer_challenge(struct str value)
{
    struct str rest = str_from(value, STR("Bearer").len), element, name;
    bool more = true;
    // Where a string with an escaped quote ends is read in more ways than one.
    if (!str_starts_nocase(value, STR("Bearer")) || str_has_byte(value, '\\')) return false;
    if (rest.len == 0) return true;
    if (rest.at[0] != ' ') return false;
    while (more) {
        more = take_element(&rest, &element);
        if (!str_cut(&element, '=', &name) || !http1_is_token(str_trim(name))) return false;
    }
    return true;
}

static bool may_leave(const struct http_header *header, const struct call_origin *origin,
                      const struct http_header *taken, size_t taken_count)
{
    for (size_t i = 0; i < COUNT(response_allowed); i++)
        if (str_eq_nocase(header->name, response_allowed[i].name))
            return response_allowed[i].list || !has_name(taken, taken_count, header->name);
    if (!origin->platform && is_one_of(header->name, cors_allowed, COUNT(cors_allowed)))
        return !has_name(taken, taken_count, header->name);
    // Basic and Negotiate would make a browser ask for a password or send one in our name.
    if (str_eq_nocase(header->name, STR("www-authenticate"))) return is_bearer_challenge(header->value);
    // Who failed: said by the agent, passed on for machines to read.
    if (str_eq_nocase(header->name, STR("culvert-cause")))
        return http1_is_token(header->value) && !has_name(taken, taken_count, header->name);
    return false;
}

// False: it contradicts what came before.
static bool take_length(struct str value, uint64_t *length)
{
    uint64_t number = 0;
    if (value.len == 0 || value.len > 18) return false;
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9') return false;
        number = number * 10 + (uint64_t)(value.at[i] - '0');
    }
    if (*length != UINT64_MAX && *length != number) return false;
    *length = number;
    return true;
}

bool call_headers_response(const struct http_header *headers, size_t count, const struct call_origin *origin,
                           struct arena *arena, struct http_header *out, size_t *out_count, uint64_t *out_length)
{
    enum { OWN_MAX = 2 };
    size_t n = 0;
    uint64_t length = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct http_header *header = &headers[i];
        if (!is_sound(header)) continue;
        if (str_eq_nocase(header->name, STR("content-length"))) {
            if (!take_length(header->value, &length)) return false;
            continue;
        }
        if (n == CALL_RESPONSE_HEADERS_MAX - OWN_MAX) continue;
        if (str_eq_nocase(header->name, STR("location"))) {
            struct str location = rewrite_location(header->value, origin, arena);
            if (location.len && !has_name(out, n, header->name))
                out[n++] = (struct http_header){STR("location"), location};
        } else if (may_leave(header, origin, out, n)) {
            out[n++] = (struct http_header){lower_copy(arena, header->name), str_trim(header->value)};
        }
    }
    out[n++] = (struct http_header){STR("x-content-type-options"), STR("nosniff")};
    if (origin->platform)
        out[n++] = (struct http_header){STR("content-security-policy"), STR("default-src 'none'; sandbox")};
    *out_count = n;
    *out_length = length;
    return true;
}

size_t call_headers_trailers(const struct http_header *headers, size_t count, struct http_header *out, size_t out_max)
{
    size_t n = 0;
    for (size_t i = 0; i < count && n < out_max; i++)
        if (is_sound(&headers[i]) && is_one_of(headers[i].name, trailers_allowed, COUNT(trailers_allowed)))
            out[n++] = headers[i];
    return n;
}
