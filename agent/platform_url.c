#include "agent/platform_url.h"

#include <stdio.h>

#include "base/parse.h"
#include "tunnel/wire/handshake.h"

// "host[:port]" with the port that the scheme implies.
static enum error_code parse_authority(struct str authority, uint16_t default_port, char *out_host, size_t host_cap,
                                       uint16_t *out_port, struct error *err)
{
    char text[320];
    bool bracketed = authority.len && authority.at[authority.len - 1] == ']';
    bool has_port = !bracketed && str_has_byte(authority, ':');
    int n = snprintf(text, sizeof(text), has_port ? "%.*s" : "%.*s:%u", STR_ARG(authority), (unsigned)default_port);
    struct str host;
    if (n < 0 || (size_t)n >= sizeof(text)) return error_set(err, ERROR_INVALID, "host name is too long");
    enum error_code code = parse_address(str_of(text, (size_t)n), &host, out_port, err);
    if (code) return code;
    if (!host.len || host.len >= host_cap || str_has_byte(host, '@'))
        return error_set(err, ERROR_INVALID, "host name is missing or not one");
    snprintf(out_host, host_cap, "%.*s", STR_ARG(host));
    return ERROR_NONE;
}

static bool is_excluded(struct str host, struct str exclude)
{
    struct str entry;
    bool more = exclude.len > 0;
    while (more) {
        more = str_cut(&exclude, ',', &entry);
        entry = str_trim(entry);
        if (str_eq(entry, STR("*"))) return true;
        if (entry.len && entry.at[0] == '.') entry = str_from(entry, 1);
        if (!entry.len || entry.len > host.len) continue;
        if (!str_eq_nocase(str_from(host, host.len - entry.len), entry)) continue;
        if (entry.len == host.len || host.at[host.len - entry.len - 1] == '.') return true;
    }
    return false;
}

enum error_code platform_url_parse(struct str url, struct str proxy, struct str exclude, struct platform_url *out,
                                   struct error *err)
{
    struct platform_url u = {.port = 0};
    struct str authority, rest = url;
    if (!str_starts_nocase(url, STR("wss://")))
        return error_set(err, ERROR_INVALID, "platform.url must start with wss://");
    rest = str_from(url, 6);
    bool has_path = str_cut(&rest, '/', &authority);
    enum error_code code = parse_authority(authority, 443, u.host, sizeof(u.host), &u.port, err);
    if (code) return error_prefix(err, "platform.url");
    struct str prefix = has_path ? rest : STR_EMPTY;
    while (prefix.len && prefix.at[prefix.len - 1] == '/')
        prefix.len--;
    if (str_has_byte(prefix, '?') || str_has_byte(prefix, '#') || prefix.len > 256)
        return error_set(err, ERROR_INVALID, "platform.url: only host, port and a path prefix are known");
    snprintf(u.path, sizeof(u.path), "%s%.*s%s", prefix.len ? "/" : "", STR_ARG(prefix), WIRE_TUNNEL_PATH);

    if (proxy.len && !is_excluded(str_c(u.host), exclude)) {
        if (!str_starts_nocase(proxy, STR("http://")))
            return error_set(err, ERROR_INVALID, "proxy.url must start with http:// (HTTP CONNECT)");
        rest = str_from(proxy, 7);
        str_cut(&rest, '/', &authority);
        code = parse_authority(authority, 80, u.proxy_host, sizeof(u.proxy_host), &u.proxy_port, err);
        if (code) return error_prefix(err, "proxy.url");
    }
    *out = u;
    return ERROR_NONE;
}
