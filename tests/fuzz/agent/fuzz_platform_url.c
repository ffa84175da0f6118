// Settings of the way to the platform: lines URL, proxy URL, NO_PROXY, host. Whatever they say,
// what comes out can be written into a CONNECT request and says nothing else there; and messages
// never repeat the proxy's credential.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tunnel/connect_proxy.h"
#include "agent/tunnel/platform_url.h"
#include "agent/tunnel/proxy_exclude.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check_text(const char *text, size_t cap)
{
    size_t n = strnlen(text, cap);
    if (n == cap) abort();
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7f) abort();
}

static unsigned count_lines(struct str s)
{
    unsigned lines = 0;
    for (size_t i = 0; i < s.len; i++)
        lines += s.at[i] == '\n';
    return lines;
}

static void check_request(const struct platform_url *u)
{
    char authority[300];
    struct strbuf out;
    snprintf(authority, sizeof(authority), strchr(u->host, ':') ? "[%s]:%u" : "%s:%u", u->host, (unsigned)u->port);
    strbuf_init(&out, CONNECT_PROXY_HEAD_BYTES_MAX);
    if (connect_proxy_request(str_c(authority), str_c(u->proxy_credential), &out, NULL) == ERROR_NONE) {
        unsigned lines = count_lines(strbuf_str(&out));
        if (lines != (u->proxy_credential[0] ? 4U : 3U)) abort();
        if (!str_ends(strbuf_str(&out), STR("\r\n\r\n"))) abort();
    }
    strbuf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct str rest = str_of((const char *)at, len), url, proxy, exclude;
    struct platform_url u;
    struct error err = {0};
    str_cut(&rest, '\n', &url);
    str_cut(&rest, '\n', &proxy);
    str_cut(&rest, '\n', &exclude);
    bool excluded = proxy_exclude_matches(exclude, rest, 443);
    if (excluded && !exclude.len) abort();
    if (platform_url_parse(url, proxy, exclude, &u, &err)) {
        struct str credential = proxy, host;
        // "secret" stands for a password in the corpus: where the proxy alone has it, no message
        // does.
        if (!str_cut(&credential, '@', &host) || strstr(err.text, "secret") == NULL) return 0;
        for (size_t i = 0; i + 6 <= url.len; i++)
            if (memcmp(url.at + i, "secret", 6) == 0) return 0;
        abort();
    }
    check_text(u.host, sizeof(u.host));
    check_text(u.path, sizeof(u.path));
    check_text(u.proxy_host, sizeof(u.proxy_host));
    if (!u.host[0] || u.path[0] != '/') abort();
    if (u.proxy_host[0] && proxy_exclude_matches(exclude, str_c(u.host), u.port)) abort();
    check_request(&u);
    return 0;
}
