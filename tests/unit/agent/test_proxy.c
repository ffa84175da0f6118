// The way to the platform through a CONNECT proxy: who is reached without it, what is said to it,
// what it may answer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <string.h>

#include "agent/tunnel/connect_proxy.h"
#include "agent/tunnel/platform_url.h"
#include "agent/tunnel/proxy_exclude.h"

static void test_exclude(void **state)
{
    (void)state;
    static const struct {
        const char *list, *host;
        uint16_t port;
        bool matches;
    } cases[] = {
        {"", "a", 443, false},
        {"*", "a", 443, true},
        {"example.org", "example.org", 443, true},
        {"example.org", "EXAMPLE.ORG", 443, true},
        {"example.org", "a.example.org", 443, true},
        {"example.org", "notexample.org", 443, false},
        {".example.org", "a.b.example.org", 443, true},
        {".example.org", "example.org", 443, true},
        {"*.example.org", "a.example.org", 443, true},
        {"*.example.org", "b.org", 443, false},
        {"example.org.", "example.org", 443, true},
        {"example.org", "example.org.", 443, true},
        {"x, example.org ,y", "example.org", 443, true},
        {"x example.org\ty", "y", 443, true},
        {"example.org:8443", "example.org", 8443, true},
        {"example.org:8443", "example.org", 443, false},
        {"example.org:0", "example.org", 443, false},
        {"10.0.0.1", "10.0.0.1", 443, true},
        {"10.0.0.1", "10.0.0.10", 443, false},
        {"0.0.1", "10.0.0.1", 443, false}, // no name, so nothing stands below it
        {"10.0.0.1:443", "10.0.0.1", 443, true},
        {"10.0.0.0/8", "10.200.3.4", 443, true},
        {"10.0.0.0/8", "11.0.0.1", 443, false},
        {"10.1.2.0/23", "10.1.3.255", 443, true},
        {"10.1.2.0/23", "10.1.4.0", 443, false},
        {"10.1.2.3/32", "10.1.2.3", 443, true},
        {"0.0.0.0/0", "8.8.8.8", 443, true},
        {"0.0.0.0/0", "::1", 443, false},
        {"0.0.0.0/0", "a", 443, false}, // nothing is resolved
        {"10.0.0.0/33", "10.0.0.1", 443, false},
        {"10.0.0.0/x", "10.0.0.1", 443, false},
        {"10.0.0/8", "10.0.0.1", 443, false},
        {"fd00::/8", "fd12::1", 443, true},
        {"fd00::/8", "fe80::1", 443, false},
        {"::1", "::1", 443, true},
        {"[::1]", "::1", 443, true},
        {"[::1]:443", "::1", 443, true},
        {"[::1]:443", "::1", 444, false},
        {"0:0:0:0:0:0:0:1", "::1", 443, true},
        {".", "a", 443, false},
        {"*.", "a", 443, false},
        {"/", "a", 443, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (proxy_exclude_matches(str_c(cases[i].list), str_c(cases[i].host), cases[i].port) != cases[i].matches)
            fail_msg("\"%s\" and %s:%u", cases[i].list, cases[i].host, (unsigned)cases[i].port);
}

static void test_credential_of_the_url(void **state)
{
    (void)state;
    static const struct {
        const char *proxy, *credential, *host;
        uint16_t port;
    } good[] = {
        {"http://proxy", "", "proxy", 80},
        {"proxy:3128", "", "proxy", 3128},
        {"http://u:p@proxy:3128/", "u:p", "proxy", 3128},
        {"http://u:p%40%2F%3a@proxy", "u:p@/:", "proxy", 80},
        {"http://u:p@q@[::1]:3128", "u:p@q", "::1", 3128},
        {"HTTP://u@proxy", "u", "proxy", 80},
    };
    static const char *const bad[] = {"https://u:secret@proxy",      "http://u:secret%0d%0ax@proxy",
                                      "http://u:secret%@proxy",      "http://u:secret%zz@proxy",
                                      "http://u:secret/x@proxy:1",   "http://u:secret@",
                                      "http://u:secret@proxy:70000", "http://u:secret@pro xy",
                                      "socks5://u:secret@proxy",     "http://u:secret@a:b:c"};
    struct platform_url u;
    struct error err = {0};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (platform_url_parse(STR("wss://x"), str_c(good[i].proxy), STR_EMPTY, &u, &err)) fail_msg("%s", err.text);
        assert_string_equal(u.proxy_credential, good[i].credential);
        assert_string_equal(u.proxy_host, good[i].host);
        assert_int_equal(u.proxy_port, good[i].port);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (!platform_url_parse(STR("wss://x"), str_c(bad[i]), STR_EMPTY, &u, &err)) fail_msg("%s", bad[i]);
        assert_non_null(strstr(err.text, "proxy.url"));
        assert_null(strstr(err.text, "secret"));
    }
}

static void test_request(void **state)
{
    (void)state;
    struct strbuf out;
    struct error err = {0};
    char longest[CONNECT_PROXY_CREDENTIAL_BYTES_MAX + 1];
    strbuf_init(&out, 16384);
    assert_int_equal(connect_proxy_request(STR("h:443"), STR("Aladdin:open sesame"), &out, &err), ERROR_NONE);
    assert_string_equal(out.at, "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n"
                                "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n");
    strbuf_clear(&out);
    assert_int_equal(connect_proxy_request(STR("h:443"), STR_EMPTY, &out, &err), ERROR_NONE);
    assert_null(strstr(out.at, "Authorization"));
    assert_int_not_equal(connect_proxy_request(STR("h\r\nX: y"), STR_EMPTY, &out, &err), ERROR_NONE);
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(connect_proxy_request(STR("h"), str_of(longest, sizeof(longest)), &out, &err), ERROR_TOO_LARGE);
    strbuf_clear(&out);
    assert_int_equal(connect_proxy_request(STR("h"), str_of(longest, sizeof(longest) - 1), &out, &err), ERROR_NONE);
    strbuf_finish(&out);
}

static void test_answers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum error_code code;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", ERROR_NONE},
        {"HTTP/1.0 200 OK\r\nVia: x\r\n\r\n", ERROR_NONE},
        {"HTTP/1.1 200 OK\r\nVia: x\r\n", ERROR_AGAIN},
        {"", ERROR_AGAIN},
        {"HTTP/1.1 407 No\r\n\r\n", ERROR_UNAUTHENTICATED},
        {"HTTP/1.1 502 No\r\n\r\n", ERROR_IO},
        {"HTTP/1.1 302 Elsewhere\r\nLocation: /\r\n\r\n", ERROR_IO},
        {"HTTP/1.1 200 OK\r\n\r\nx", ERROR_PROTOCOL},
        {"HTTP/1.1 200 OK\n\n", ERROR_INVALID},
        {"220 smtp\r\n\r\n", ERROR_INVALID},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error err = {0};
        enum error_code code = connect_proxy_answer(cases[i].text, strlen(cases[i].text), &err);
        if (code != cases[i].code) fail_msg("%s: %d %s", cases[i].text, (int)code, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exclude),
        cmocka_unit_test(test_credential_of_the_url),
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
