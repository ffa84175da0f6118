#include "server/proxy/call_route.h"

enum { HOST_LABEL_BYTES_MAX = 63, ACCOUNT_DIGITS = 24 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
    return -1;
}

// ---- target -------------------------------------------------------------------------------------

// Is the segment "." or ".." once escapes are decoded and parameters (";...") cut off, as some
// servers do?
static bool is_dot_segment(struct str segment)
{
    size_t dots = 0;
    for (size_t i = 0; i < segment.len; i++) {
        char c = segment.at[i];
        if (c == '%') {
            c = (char)(hex_value(segment.at[i + 1]) * 16 + hex_value(segment.at[i + 2]));
            i += 2;
        }
        if (c == ';') break;
        if (c != '.') return false;
        dots++;
    }
    return dots == 1 || dots == 2;
}

static enum error_code check_escapes(struct str path, struct error *err)
{
    for (size_t i = 0; i < path.len; i++) {
        if (path.at[i] == '\\') return error_set(err, ERROR_INVALID, "backslash in the path");
        if (path.at[i] != '%') continue;
        if (path.len - i < 3 || hex_value(path.at[i + 1]) < 0 || hex_value(path.at[i + 2]) < 0)
            return error_set(err, ERROR_INVALID, "incomplete percent escape in the path");
        int byte = hex_value(path.at[i + 1]) * 16 + hex_value(path.at[i + 2]);
        if (byte == '/' || byte == '\\') return error_set(err, ERROR_INVALID, "encoded separator in the path");
        if (byte < 0x20 || byte == 0x7f) return error_set(err, ERROR_INVALID, "encoded control byte in the path");
        i += 2;
    }
    return ERROR_NONE;
}

static struct str path_of(struct str target)
{
    struct str path;
    (void)str_cut(&target, '?', &path);
    return path;
}

enum error_code call_route_check_target(struct str target, struct error *err)
{
    struct str path = path_of(target);
    struct str segment;
    bool more = true;
    if (target.len > CALL_TARGET_BYTES_MAX) return error_set(err, ERROR_INVALID, "target is too long");
    if (path.len == 0 || path.at[0] != '/') return error_set(err, ERROR_INVALID, "target is not in origin form");
    for (size_t i = 0; i < target.len; i++)
        if ((unsigned char)target.at[i] <= 0x20 || (unsigned char)target.at[i] >= 0x7f || target.at[i] == '#')
            return error_set(err, ERROR_INVALID, "forbidden byte in the target");
    enum error_code code = check_escapes(path, err);
    if (code != ERROR_NONE) return code;
    path = str_from(path, 1);
    while (more) {
        more = str_cut(&path, '/', &segment);
        if (segment.len == 0 && more) return error_set(err, ERROR_INVALID, "empty segment in the path");
        if (is_dot_segment(segment)) return error_set(err, ERROR_INVALID, "dot segment in the path");
    }
    return ERROR_NONE;
}

static bool is_webhook(struct str path)
{
    struct str rest = str_from(path, STR("/webhooks/").len);
    return str_starts(path, STR("/webhooks/")) && rest.len > 0 && rest.at[0] != '?';
}

// A runtime's name in a path: as it is, so that nothing has to be decoded.
static bool is_runtime_segment(struct str s)
{
    if (s.len == 0 || s.len >= CALL_RUNTIME_BYTES) return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = lower(s.at[i]);
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.')) return false;
    }
    return true;
}

enum error_code call_route_parse_proxy(struct str target, struct call_route *out, struct error *err)
{
    struct str runtime, rest = target;
    struct call_route route = {.platform_host = true};
    enum error_code code = call_route_check_target(target, err);
    if (code != ERROR_NONE) return code;
    if (!str_starts(rest, STR("/runtimes/"))) return error_set(err, ERROR_NOT_FOUND, "not below /runtimes/");
    rest = str_from(rest, STR("/runtimes/").len);
    if (!str_cut(&rest, '/', &runtime) || !is_runtime_segment(runtime))
        return error_set(err, ERROR_NOT_FOUND, "no runtime in the path");
    if (!str_starts(rest, STR("proxy"))) return error_set(err, ERROR_NOT_FOUND, "not a proxy path");
    rest = str_from(rest, STR("proxy").len);
    if (rest.len == 0 || rest.at[0] != '/') return error_set(err, ERROR_NOT_FOUND, "not a proxy path");
    memcpy(route.runtime, runtime.at, runtime.len);
    route.path = rest;
    route.prefix = str_first(target, target.len - rest.len);
    route.webhook = false; // on the platform's host every call has a caller
    *out = route;
    return ERROR_NONE;
}

bool call_route_is_tcp(struct str path)
{
    struct str name = str_from(path, STR("/tcp/").len);
    if (!str_starts(path, STR("/tcp/")) || name.len == 0 || name.len > HOST_LABEL_BYTES_MAX) return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.')) return false;
    }
    return true;
}

// ---- host ---------------------------------------------------------------------------------------

// Without port and one trailing dot; an IPv6 literal is left whole and matches nothing.
static struct str host_name(struct str host)
{
    struct str name;
    if (host.len > 0 && host.at[0] == '[') return host;
    (void)str_cut(&host, ':', &name);
    if (name.len > 1 && name.at[name.len - 1] == '.') name.len--;
    return name;
}

// "<24 hex digits>-<runtime>": the runtime is a DNS label of its own.
static bool split_label(struct str label, struct call_route *route)
{
    if (label.len > HOST_LABEL_BYTES_MAX || label.len < ACCOUNT_DIGITS + 2 || label.at[ACCOUNT_DIGITS] != '-')
        return false;
    for (size_t i = 0; i < ACCOUNT_DIGITS; i++) {
        if (hex_value(label.at[i]) < 0) return false;
        route->account_id[i] = lower(label.at[i]);
    }
    struct str runtime = str_from(label, ACCOUNT_DIGITS + 1);
    for (size_t i = 0; i < runtime.len; i++) {
        char c = lower(runtime.at[i]);
        bool inside = i > 0 && i + 1 < runtime.len;
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && inside))) return false;
        route->runtime[i] = c;
    }
    return true;
}

enum error_code call_route_parse(struct str host, struct str target, struct str tunnel_domain, struct str platform_host,
                                 struct call_route *out, struct error *err)
{
    struct str name = host_name(host);
    struct call_route route = {0};
    if (platform_host.len > 0 && str_eq_nocase(name, platform_host)) return call_route_parse_proxy(target, out, err);
    enum error_code code = call_route_check_target(target, err);
    if (code != ERROR_NONE) return code;
    if (name.len <= tunnel_domain.len + 1) return error_set(err, ERROR_NOT_FOUND, "no runtime has this host name");
    struct str label = str_first(name, name.len - tunnel_domain.len - 1);
    struct str domain = str_from(name, label.len + 1);
    if (name.at[label.len] != '.' || !str_eq_nocase(domain, tunnel_domain) || !split_label(label, &route))
        return error_set(err, ERROR_NOT_FOUND, "no runtime has this host name");
    route.path = target;
    route.webhook = is_webhook(path_of(target));
    *out = route;
    return ERROR_NONE;
}
