#include "agent/tunnel/platform_url.h"

#include <stdio.h>
#include <string.h>

#include "agent/tunnel/proxy_exclude.h"
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
    bool plain = host.len > 0 && host.len < host_cap;
    for (size_t i = 0; plain && i < host.len; i++)
        plain = host.at[i] > ' ' && host.at[i] < 0x7f && !str_has_byte(STR("@/?#%\\[]\""), host.at[i]);
    if (!plain) return error_set(err, ERROR_INVALID, "host name is missing or invalid");
    snprintf(out_host, host_cap, "%.*s", STR_ARG(host));
    return ERROR_NONE;
}

// The byte of two hex digits after '%'; 0: invalid.
static uint8_t percent_byte(struct str s, size_t at)
{
    uint8_t byte = 0;
    if (s.len - at < 3 || parse_hex(str_of(s.at + at + 1, 2), &byte, 1, NULL)) return 0;
    return byte;
}

// "user:password" with percent escapes, as URLs carry it. Error messages do not contain it.
static enum error_code parse_credential(struct str text, char *out, size_t cap, struct error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.at[i];
        if (byte == '%') {
            byte = percent_byte(text, i);
            i += 2;
        }
        if (byte < ' ' || byte == 0x7f) return error_set(err, ERROR_INVALID, "the credential contains an invalid byte");
        if (n + 1 >= cap) return error_set(err, ERROR_TOO_LARGE, "the credential is over %zu bytes", cap - 1);
        out[n++] = (char)byte;
    }
    out[n] = '\0';
    return ERROR_NONE;
}

static enum error_code parse_proxy(struct str proxy, struct platform_url *out, struct error *err)
{
    struct str rest = proxy, authority;
    bool http = str_starts_nocase(proxy, STR("http://"));
    if (!http && proxy.len) {
        // curl and others take "host:port" for http://host:port.
        for (size_t i = 0; i + 2 < proxy.len; i++)
            if (proxy.at[i] == ':' && proxy.at[i + 1] == '/' && proxy.at[i + 2] == '/')
                return error_set(err, ERROR_INVALID, "must start with http:// (HTTP CONNECT)");
    }
    rest = str_from(proxy, http ? 7 : 0);
    str_cut(&rest, '/', &authority);
    for (size_t i = authority.len; i-- > 0;) { // the last one: a password may hold another
        if (authority.at[i] != '@') continue;
        enum error_code code =
            parse_credential(str_first(authority, i), out->proxy_credential, sizeof(out->proxy_credential), err);
        if (code) return code;
        authority = str_from(authority, i + 1);
        break;
    }
    // Its own message would repeat the text, and what stands in the wrong place may be a password.
    if (parse_authority(authority, 80, out->proxy_host, sizeof(out->proxy_host), &out->proxy_port, NULL))
        return error_set(err, ERROR_INVALID, "is not http://[user:password@]host:port");
    return ERROR_NONE;
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
    bool plain = prefix.len <= 256;
    for (size_t i = 0; plain && i < prefix.len; i++)
        plain = prefix.at[i] > ' ' && prefix.at[i] < 0x7f && !str_has_byte(STR("?#"), prefix.at[i]);
    if (!plain)
        return error_set(err, ERROR_INVALID, "platform.url: must consist of host, port and an optional path prefix");
    snprintf(u.path, sizeof(u.path), "%s%.*s%s", prefix.len ? "/" : "", STR_ARG(prefix), WIRE_TUNNEL_PATH);

    if (proxy.len && !proxy_exclude_matches(exclude, str_c(u.host), u.port)) {
        code = parse_proxy(proxy, &u, err);
        if (code) {
            explicit_bzero(&u, sizeof(u));
            return error_prefix(err, "proxy.url");
        }
    }
    *out = u;
    return ERROR_NONE;
}
