#include "agent/calls/router.h"

#include <stdio.h>
#include <string.h>

#include "agent/calls/router_settings.h"
#include "base/mem.h"
#include "base/parse.h"
#include "tunnel/wire/handshake.h"

enum { ENTRIES_MAX = 256, NAME_BYTES_MAX = 253 };

struct endpoint {
    char *name; // service: its name; webhook: "namespace/eventsource"
    char *host;
    uint16_t port;
    enum agent_route_protocol protocol;
};

struct endpoint_list {
    struct endpoint *at;
    size_t count;
};

struct agent_router {
    struct endpoint_list services, webhooks, tcp;
    struct endpoint workflows; // host NULL: none
};

// ---- configuration ---------------------------------------------------------------------------------------------

static bool is_name(struct str s)
{
    if (!s.len || s.len > NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
        if (!ok) return false;
    }
    return s.at[0] != '.' && s.at[0] != '-';
}

static const struct scheme {
    const char *prefix;
    enum agent_route_protocol protocol;
    uint16_t port; // 0: must be said
} schemes[] = {{"http://", AGENT_ROUTE_HTTP, 80},
               {"https://", AGENT_ROUTE_HTTPS, 443},
               {"h2c://", AGENT_ROUTE_H2C, 80},
               {"tcp://", AGENT_ROUTE_TCP, 0}};

// host[:port], nothing behind it.
static enum error_code parse_host(struct str text, uint16_t default_port, struct endpoint *out, struct error *err)
{
    struct str host, rest = text;
    uint16_t port = default_port;
    bool v6_alone = str_ends(rest, STR("]"));
    if (str_has_byte(rest, ':') && !v6_alone) {
        enum error_code code = parse_address(rest, &host, &port, err);
        if (code) return code;
    } else {
        host = v6_alone && rest.len > 2 ? str_of(rest.at + 1, rest.len - 2) : rest;
    }
    bool plain = host.len > 0 && host.len <= NAME_BYTES_MAX && port > 0;
    for (size_t i = 0; plain && i < host.len; i++)
        plain = host.at[i] > ' ' && host.at[i] < 0x7f && !str_has_byte(STR("/?#@%\\[]"), host.at[i]);
    if (!plain) return error_set(err, ERROR_INVALID, "\"%.*s\" is not host:port", STR_ARG(str_first(text, 80)));
    out->host = mem_strndup(host.at, host.len);
    out->port = port;
    return ERROR_NONE;
}

// A scheme of the list, host[:port], nothing behind it.
static enum error_code parse_url(struct str url, struct endpoint *out, struct error *err)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const struct scheme *scheme = &schemes[i];
        if (!str_starts(url, str_c(scheme->prefix))) continue;
        struct str rest = str_from(url, strlen(scheme->prefix));
        if (str_ends(rest, STR("/")) && scheme->protocol != AGENT_ROUTE_TCP) rest.len--;
        out->protocol = scheme->protocol;
        return parse_host(rest, scheme->port, out, err);
    }
    return error_set(err, ERROR_INVALID, "\"%.*s\" does not start with http://, https://, h2c:// or tcp://",
                     STR_ARG(str_first(url, 80)));
}

static enum error_code parse_named(struct str entry, const char *form, struct str *out_name, struct str *out_rest,
                                   struct error *err)
{
    *out_rest = entry;
    if (str_cut(out_rest, '=', out_name) && is_name(*out_name)) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "\"%.*s\" is not %s", STR_ARG(str_first(entry, 80)), form);
}

static enum error_code parse_service(struct str entry, struct endpoint *out, struct error *err)
{
    struct str name, url;
    enum error_code code = parse_named(entry, "name=http://host:port", &name, &url, err);
    if (!code) code = parse_url(url, out, err);
    if (!code) out->name = mem_strndup(name.at, name.len);
    return code;
}

static enum error_code parse_tcp(struct str entry, struct endpoint *out, struct error *err)
{
    struct str name, address;
    enum error_code code = parse_named(entry, "name=host:port", &name, &address, err);
    out->protocol = AGENT_ROUTE_TCP;
    if (!code) code = parse_host(address, 0, out, err);
    if (!code) out->name = mem_strndup(name.at, name.len);
    return code;
}

static enum error_code parse_http_url(struct str url, struct endpoint *out, struct error *err)
{
    enum error_code code = parse_url(url, out, err);
    if (code || out->protocol != AGENT_ROUTE_TCP) return code;
    mem_free(out->host);
    out->host = NULL;
    return error_set(err, ERROR_INVALID, "\"%.*s\" must be HTTP", STR_ARG(str_first(url, 80)));
}

// Without a URL it is the Service that Argo Events makes for an EventSource.
static enum error_code parse_webhook(struct str entry, struct endpoint *out, struct error *err)
{
    struct str name, url = entry, ns, source;
    bool has_url = str_cut(&url, '=', &name);
    source = name;
    if (!str_cut(&source, '/', &ns) || !is_name(ns) || !is_name(source))
        return error_set(err, ERROR_INVALID, "\"%.*s\" is not namespace/eventsource", STR_ARG(str_first(entry, 80)));
    if (has_url) {
        enum error_code code = parse_http_url(url, out, err);
        if (code) return code;
    } else {
        out->host = mem_printf("%.*s-eventsource-svc.%.*s.svc.cluster.local", STR_ARG(source), STR_ARG(ns));
        out->port = 80;
    }
    out->name = mem_strndup(name.at, name.len);
    return ERROR_NONE;
}

static const struct endpoint *find(const struct endpoint_list *list, struct str name)
{
    for (size_t i = 0; i < list->count; i++)
        if (str_eq(str_c(list->at[i].name), name)) return &list->at[i];
    return NULL;
}

static enum error_code parse_list(const char *text,
                                  enum error_code (*parse)(struct str, struct endpoint *, struct error *),
                                  struct endpoint_list *out, struct error *err)
{
    struct str rest = str_c(text), entry;
    bool more = rest.len > 0;
    out->at = mem_array(ENTRIES_MAX, sizeof(*out->at));
    while (more) {
        struct endpoint endpoint = {.port = 0};
        more = str_cut(&rest, ',', &entry);
        entry = str_trim(entry);
        if (!entry.len) continue;
        if (out->count == ENTRIES_MAX) return error_set(err, ERROR_TOO_LARGE, "more than %d entries", ENTRIES_MAX);
        enum error_code code = parse(entry, &endpoint, err);
        if (code) {
            mem_free(endpoint.host);
            return code;
        }
        bool twice = find(out, str_c(endpoint.name));
        out->at[out->count++] = endpoint;
        if (twice) return error_set(err, ERROR_INVALID, "duplicate entry \"%s\"", endpoint.name);
    }
    return ERROR_NONE;
}

static void release_list(struct endpoint_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        mem_free(list->at[i].name);
        mem_free(list->at[i].host);
    }
    mem_free(list->at);
}

static enum error_code configure(struct agent_router *router, const struct router_settings *settings, struct error *err)
{
    if (parse_list(settings->services, parse_service, &router->services, err))
        return error_prefix(err, "router.services");
    if (parse_list(settings->webhooks, parse_webhook, &router->webhooks, err))
        return error_prefix(err, "router.webhooks");
    if (parse_list(settings->tcp_allow, parse_tcp, &router->tcp, err)) return error_prefix(err, "tcp.allow");
    if (!settings->workflows[0]) return ERROR_NONE;
    if (parse_http_url(str_c(settings->workflows), &router->workflows, err))
        return error_prefix(err, "router.workflows");
    return ERROR_NONE;
}

struct agent_router *agent_router_create(const struct router_settings *settings, struct error *err)
{
    struct agent_router *router = mem_zalloc(sizeof(*router));
    if (configure(router, settings, err) == ERROR_NONE) return router;
    agent_router_destroy(router);
    return NULL;
}

void agent_router_destroy(struct agent_router *router)
{
    if (!router) return;
    release_list(&router->services);
    release_list(&router->webhooks);
    release_list(&router->tcp);
    mem_free(router->workflows.host);
    mem_free(router);
}

static bool any_https(const struct endpoint_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].protocol == AGENT_ROUTE_HTTPS) return true;
    return false;
}

bool agent_router_needs_tls(const struct agent_router *router)
{
    bool workflows = router->workflows.host && router->workflows.protocol == AGENT_ROUTE_HTTPS;
    return workflows || any_https(&router->services) || any_https(&router->webhooks);
}

// ---- paths -----------------------------------------------------------------------------------------------------

// The byte at s[*i], decoded when it is %xx; -1: a broken escape. *i moves behind it.
static int next_byte(struct str s, size_t *i)
{
    uint8_t decoded;
    char c = s.at[(*i)++];
    if (c != '%') return (unsigned char)c;
    if (s.len - *i < 2 || parse_hex(str_of(s.at + *i, 2), &decoded, 1, NULL)) return -1;
    *i += 2;
    return decoded;
}

bool agent_router_path_ok(struct str path)
{
    size_t segment_bytes = 0, dots = 0, i = 1;
    if (!path.len || path.at[0] != '/') return false;
    for (size_t j = 0; j < path.len; j++)
        if ((unsigned char)path.at[j] <= ' ' || (unsigned char)path.at[j] >= 0x7f || path.at[j] == '#') return false;
    struct str rest = path, only_path;
    str_cut(&rest, '?', &only_path);
    while (i <= only_path.len) {
        bool raw = i < only_path.len && only_path.at[i] == '/';
        int byte = i < only_path.len ? next_byte(only_path, &i) : (i++, -2); // -2: the end closes the last segment
        if (byte == -1 || byte == 0) return false;
        if (byte == '/' || byte == '\\' || byte == -2) {
            bool dotted = dots == segment_bytes && (dots == 1 || dots == 2);
            bool empty = segment_bytes == 0 && raw; // a URL inside a segment (https%3A%2F%2F...) is fine
            if (dotted || empty) return false;
            segment_bytes = dots = 0;
        } else {
            segment_bytes++;
            if (byte == '.') dots++;
        }
    }
    return true;
}

// If path is prefix, or goes on behind it with '/' or '?': true and the rest.
static bool under(struct str path, struct str prefix, struct str *out_rest)
{
    if (!str_starts(path, prefix)) return false;
    struct str rest = str_from(path, prefix.len);
    if (rest.len && rest.at[0] != '/' && rest.at[0] != '?') return false;
    *out_rest = rest;
    return true;
}

// The next segment of "/segment/..."; false when there is none.
static bool cut_segment(struct str *rest, struct str *out_segment)
{
    if (!rest->len || rest->at[0] != '/') return false;
    size_t end = 1;
    while (end < rest->len && rest->at[end] != '/' && rest->at[end] != '?')
        end++;
    *out_segment = str_of(rest->at + 1, end - 1);
    *rest = str_from(*rest, end);
    return out_segment->len > 0;
}

static void refuse(struct agent_route *out, int status, const char *cause)
{
    *out = (struct agent_route){.kind = AGENT_ROUTE_REFUSED, .status = status, .cause = cause, .label = "refused"};
}

// rest: the path behind a stripped prefix: "", "/..." or "?...". Only the first and the last need a slash in front, and
// "?..." without one is refused rather than rewritten.
static void to_service(struct agent_route *out, const struct endpoint *endpoint, struct str rest, const char *label)
{
    if (rest.len && rest.at[0] != '/') {
        refuse(out, 404, "no-route");
        return;
    }
    *out = (struct agent_route){
        .kind = AGENT_ROUTE_SERVICE,
        .label = label,
        .host = str_c(endpoint->host),
        .port = endpoint->port,
        .protocol = endpoint->protocol,
        .path = rest.len ? rest : STR("/"),
    };
}

static void route_path(const struct agent_router *router, struct str path, struct agent_route *out)
{
    struct str rest, first, second;
    const struct endpoint *endpoint;
    if (under(path, STR("/app-proxy"), &rest)) {
        *out = (struct agent_route){.kind = AGENT_ROUTE_APP_PROXY, .label = "app-proxy", .path = path};
    } else if (under(path, STR("/webhooks"), &rest)) {
        const char *start = rest.at;
        bool named = cut_segment(&rest, &first) && cut_segment(&rest, &second);
        endpoint = named ? find(&router->webhooks, str_of(start + 1, first.len + 1 + second.len)) : NULL;
        if (!named) {
            refuse(out, 404, "no-route");
        } else if (!endpoint) {
            refuse(out, 403, "not-allowed");
        } else {
            to_service(out, endpoint, path, "webhook"); // event sources know the whole path
            out->anonymous = true;
        }
    } else if (under(path, STR("/services"), &rest)) {
        bool named = cut_segment(&rest, &first);
        endpoint = named ? find(&router->services, first) : NULL;
        if (endpoint)
            to_service(out, endpoint, rest, "service");
        else
            refuse(out, named ? 403 : 404, named ? "not-allowed" : "no-route");
    } else if (under(path, STR("/tcp"), &rest)) {
        bool named = cut_segment(&rest, &first) && !rest.len;
        endpoint = named ? find(&router->tcp, first) : NULL;
        if (endpoint)
            to_service(out, endpoint, rest, "tcp");
        else
            refuse(out, named ? 403 : 404, named ? "not-allowed" : "no-route");
    } else if (under(path, STR("/workflows"), &rest) && router->workflows.host) {
        to_service(out, &router->workflows, rest, "workflows");
    } else {
        refuse(out, 404, "no-route");
    }
}

// "<service>.<namespace>" names the entry itself or the entry whose host is that Service.
static const struct endpoint *find_service(const struct agent_router *router, struct str authority)
{
    const struct endpoint *endpoint = find(&router->services, authority);
    for (size_t i = 0; !endpoint && i < router->services.count; i++) {
        struct str host = str_c(router->services.at[i].host);
        struct str rest = str_from(host, authority.len);
        if (!authority.len || !str_has_byte(authority, '.') || !str_starts(host, authority)) continue;
        if (!rest.len || str_eq(rest, STR(".svc")) || str_starts(rest, STR(".svc.")))
            endpoint = &router->services.at[i];
    }
    return endpoint;
}

void agent_router_route(const struct agent_router *router, struct str method, struct str authority, struct str path,
                        struct agent_route *out)
{
    bool table = !authority.len || str_eq(authority, STR("culvert")) || str_eq(authority, STR("runtime"));
    if (str_eq(authority, STR("culvert")) && str_eq(path, STR(WIRE_REPORTS_PATH)) && str_eq(method, STR("POST"))) {
        *out = (struct agent_route){.kind = AGENT_ROUTE_REPORTS, .label = "reports"};
    } else if (!agent_router_path_ok(path)) {
        refuse(out, 400, "no-route");
    } else if (table) {
        route_path(router, path, out);
    } else {
        const struct endpoint *endpoint = find_service(router, authority);
        if (endpoint)
            to_service(out, endpoint, path, "service");
        else
            refuse(out, 403, "not-allowed");
    }
}
