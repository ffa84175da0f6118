#include "server/ingress_headers.h"

#include "base/token.h"

// ---- into the cluster ----------------------------------------------------------------------------------------

// Hop-by-hop (RFC 9110 section 7.6.1), framing that is made anew, credentials, and what others would believe about
// where the request comes from or what it means.
static const char *const request_denied[] = {
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "host",
    "content-length",
    "expect",
    "authorization",
    "cookie",
    "cookie2",
    "x-access-token",
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "x-cluster-client-ip",
    "cf-connecting-ip",
    "x-request-id",
    "x-rewrite-url",
    "x-http-method",
    "x-method-override",
    "x-http-method-override",
};
static const char *const request_denied_prefixes[] = {
    "impersonate-",    "x-remote-",
    "x-forwarded-",    "x-original-",
    "culvert-",        "proxy-",
    "x-auth-request-", "x-webauth-",
    "x-ssl-",          "ssl-client-",
    "x-client-cert",   "x-goog-authenticated-",
    "x-amzn-oidc-",    "x-ms-client-principal",
    "sec-websocket-",
};
// End to end through the tunnel; the key and its answer are between the client and us.
static const char *const websocket_kept[] = {"sec-websocket-protocol", "sec-websocket-version",
                                             "sec-websocket-extensions"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool is_one_of(struct str name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(name, str_c(list[i]))) return true;
    return false;
}

static bool starts_with_one_of(struct str name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_starts_nocase(name, str_c(list[i]))) return true;
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

static bool is_named_by_connection(const struct http1_header *headers, size_t count, struct str name)
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

static bool may_enter(const struct http1_header *header, const struct ingress_caller *caller)
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

// RFC 7239: for= and host= are quoted because of colons and brackets.
static struct str forwarded_value(const struct ingress_caller *caller, struct arena *arena)
{
    bool v6 = str_has_byte(caller->peer, ':');
    return str_c(arena_printf(arena, "for=\"%s%.*s%s\";host=\"%.*s\";proto=%s", v6 ? "[" : "", STR_ARG(caller->peer),
                              v6 ? "]" : "", STR_ARG(caller->host), caller->tls ? "https" : "http"));
}

size_t ingress_headers_request(const struct http1_header *headers, size_t count, const struct ingress_caller *caller,
                               struct arena *arena, struct tunnel_header *out)
{
    size_t n = 0;
    bool te_trailers = false;
    for (size_t i = 0; i < count; i++) {
        const struct http1_header *header = &headers[i];
        if (caller->body && str_eq_nocase(header->name, STR("content-length")))
            out[n++] = (struct tunnel_header){STR("content-length"), header->value};
        if (str_eq_nocase(header->name, STR("te")) && list_has(header->value, STR("trailers"))) te_trailers = true;
        if (!may_enter(header, caller) || is_named_by_connection(headers, count, header->name)) continue;
        out[n++] = (struct tunnel_header){lower_copy(arena, header->name), header->value};
    }
    if (te_trailers) out[n++] = (struct tunnel_header){STR("te"), STR("trailers")};
    out[n++] = (struct tunnel_header){STR("x-forwarded-for"), caller->peer};
    out[n++] = (struct tunnel_header){STR("x-forwarded-host"), caller->host};
    out[n++] = (struct tunnel_header){STR("x-forwarded-proto"), caller->tls ? STR("https") : STR("http")};
    out[n++] = (struct tunnel_header){STR("forwarded"), forwarded_value(caller, arena)};
    out[n++] = (struct tunnel_header){STR("x-request-id"), caller->request_id};
    if (caller->prefix.len) out[n++] = (struct tunnel_header){STR("x-forwarded-prefix"), caller->prefix};
    return n;
}

// The value of a field that may come once; repeated, it has two meanings and counts as absent.
static struct str find_single(const struct http1_header *headers, size_t count, struct str name)
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

struct str ingress_headers_credential(const struct http1_header *headers, size_t count)
{
    struct str value = token_from_authorization(find_single(headers, count, STR("authorization")));
    return value.len ? value : find_single(headers, count, STR("x-access-token"));
}

struct str ingress_headers_request_id(const struct http1_header *headers, size_t count)
{
    struct str id = find_single(headers, count, STR("x-request-id"));
    if (id.len > 64) return STR_EMPTY;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.at[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                  c == '.';
        if (!ok) return STR_EMPTY;
    }
    return id;
}

// ---- out of the cluster --------------------------------------------------------------------------------------

// What describes the answer itself. Nothing here sets state or policy in a browser for the origin.
static const struct {
    const char *name;
    bool list; // may come several times
} response_allowed[] = {
    {"content-type", false},
    {"content-encoding", true},
    {"content-language", true},
    {"content-disposition", false},
    {"content-range", false},
    {"content-md5", false},
    {"content-digest", true},
    {"repr-digest", true},
    {"digest", true},
    {"cache-control", true},
    {"pragma", false},
    {"expires", false},
    {"age", false},
    {"date", false},
    {"etag", false},
    {"last-modified", false},
    {"vary", true},
    {"accept-ranges", false},
    {"accept-patch", true},
    {"allow", true},
    {"retry-after", false},
    {"x-total-count", false},
    {"grpc-status", false},
    {"grpc-message", false},
    {"grpc-encoding", false},
    {"grpc-accept-encoding", true},
    {"traceresponse", false},
    {"sec-websocket-protocol", false},
    {"sec-websocket-extensions", true},
};
// A runtime's own origin may be opened to scripts of others: it knows no cookies, so there is nothing to ride on.
static const char *const cors_allowed[] = {"access-control-allow-origin", "access-control-allow-methods",
                                           "access-control-allow-headers", "access-control-expose-headers",
                                           "access-control-max-age"};
static const char *const trailers_allowed[] = {"grpc-status",    "grpc-message", "grpc-status-details-bin",
                                               "content-digest", "repr-digest",  "digest",
                                               "server-timing"};

static bool is_sound(const struct tunnel_header *header)
{
    return header->value.len <= INGRESS_HEADER_BYTES_MAX && http1_is_token(header->name) &&
           http1_is_field_value(header->value);
}

static bool has_name(const struct tunnel_header *headers, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(headers[i].name, name)) return true;
    return false;
}

// A path on our own host, or empty when the target is elsewhere: "//x", "/\x", other schemes and other hosts are.
static struct str local_location(struct str value, struct str host)
{
    static const char *const schemes[] = {"https://", "http://"};
    if (value.len == 0 || str_has_byte(value, '\\')) return STR_EMPTY;
    for (size_t i = 0; i < COUNT(schemes); i++) {
        struct str rest = str_from(value, strlen(schemes[i]));
        if (!str_starts_nocase(value, str_c(schemes[i]))) continue;
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

static struct str rewrite_location(struct str value, const struct ingress_origin *origin, struct arena *arena)
{
    struct str local = local_location(str_trim(value), origin->host);
    if (local.len == 0 || local.at[0] != '/' || origin->prefix.len == 0) return local;
    struct str rest = str_from(local, origin->prefix.len);
    if (str_starts(local, origin->prefix) && (rest.len == 0 || rest.at[0] == '/')) return local;
    return str_c(arena_printf(arena, "%.*s%.*s", STR_ARG(origin->prefix), STR_ARG(local)));
}

static bool may_leave(const struct tunnel_header *header, const struct ingress_origin *origin,
                      const struct tunnel_header *taken, size_t taken_count)
{
    for (size_t i = 0; i < COUNT(response_allowed); i++)
        if (str_eq_nocase(header->name, str_c(response_allowed[i].name)))
            return response_allowed[i].list || !has_name(taken, taken_count, header->name);
    if (!origin->platform && is_one_of(header->name, cors_allowed, COUNT(cors_allowed)))
        return !has_name(taken, taken_count, header->name);
    // Basic and Negotiate would make a browser ask for a password or send one in our name.
    if (str_eq_nocase(header->name, STR("www-authenticate"))) return str_starts_nocase(header->value, STR("Bearer"));
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

bool ingress_headers_response(const struct tunnel_header *headers, size_t count, const struct ingress_origin *origin,
                              struct arena *arena, struct tunnel_header *out, size_t *out_count, uint64_t *out_length)
{
    enum { OWN_MAX = 2 };
    size_t n = 0;
    uint64_t length = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct tunnel_header *header = &headers[i];
        if (!is_sound(header)) continue;
        if (str_eq_nocase(header->name, STR("content-length"))) {
            if (!take_length(header->value, &length)) return false;
            continue;
        }
        if (n == INGRESS_RESPONSE_HEADERS_MAX - OWN_MAX) continue;
        if (str_eq_nocase(header->name, STR("location"))) {
            struct str location = rewrite_location(header->value, origin, arena);
            if (location.len && !has_name(out, n, header->name))
                out[n++] = (struct tunnel_header){STR("location"), location};
        } else if (may_leave(header, origin, out, n)) {
            out[n++] = (struct tunnel_header){lower_copy(arena, header->name), str_trim(header->value)};
        }
    }
    out[n++] = (struct tunnel_header){STR("x-content-type-options"), STR("nosniff")};
    if (origin->platform)
        out[n++] = (struct tunnel_header){STR("content-security-policy"), STR("default-src 'none'; sandbox")};
    *out_count = n;
    *out_length = length;
    return true;
}

size_t ingress_headers_trailers(const struct tunnel_header *headers, size_t count, struct tunnel_header *out,
                                size_t out_max)
{
    size_t n = 0;
    for (size_t i = 0; i < count && n < out_max; i++)
        if (is_sound(&headers[i]) && is_one_of(headers[i].name, trailers_allowed, COUNT(trailers_allowed)))
            out[n++] = headers[i];
    return n;
}
