// Host and target to account, runtime and path: every second reading is an error (tenancy escape by confusion).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/proxy/call_route.h"

#define ACCOUNT "0123456789abcdef01234567"
#define DOMAIN  "tunnels.example.com"

static enum error_code route(const char *host, const char *target, struct call_route *out)
{
    return call_route_parse(str_c(host), str_c(target), STR(DOMAIN), STR("platform.example.com"), out, NULL);
}

static void test_hosts(void **state)
{
    static const struct {
        const char *host, *runtime; // runtime NULL: nobody
    } cases[] = {
        {ACCOUNT "-prod." DOMAIN, "prod"},
        {ACCOUNT "-prod." DOMAIN ":8446", "prod"},
        {ACCOUNT "-prod." DOMAIN ".", "prod"},
        {ACCOUNT "-prod." DOMAIN ".:8446", "prod"},
        {"0123456789ABCDEF01234567-PROD.Tunnels.EXAMPLE.com", "prod"},
        {ACCOUNT "-a-b-1." DOMAIN, "a-b-1"},
        {ACCOUNT "-0." DOMAIN, "0"},
        {ACCOUNT "-prod." DOMAIN "..", NULL},
        {ACCOUNT "-prod..tunnels.example.com", NULL},
        {ACCOUNT "-prod.x." DOMAIN, NULL},
        {"x." ACCOUNT "-prod." DOMAIN, NULL},
        {ACCOUNT "-prod.evil" DOMAIN, NULL},
        {ACCOUNT "-prod-" DOMAIN, NULL},
        {ACCOUNT "-prod." DOMAIN ".evil.com", NULL},
        {ACCOUNT "-prodtunnels.example.com", NULL},
        {ACCOUNT "-." DOMAIN, NULL},
        {ACCOUNT "--prod." DOMAIN, NULL},
        {ACCOUNT "-prod-." DOMAIN, NULL},
        {ACCOUNT "-pr_od." DOMAIN, NULL},
        {ACCOUNT "." DOMAIN, NULL},
        {ACCOUNT "prod." DOMAIN, NULL},
        {"0123456789abcdef0123456-prod." DOMAIN, NULL},
        {"0123456789abcdef012345678-prod." DOMAIN, NULL},
        {"0123456789abcdef0123456g-prod." DOMAIN, NULL},
        {ACCOUNT "-aaaaaaaaaabbbbbbbbbbccccccccccdddddddd." DOMAIN, "aaaaaaaaaabbbbbbbbbbccccccccccdddddddd"},
        {ACCOUNT "-aaaaaaaaaabbbbbbbbbbccccccccccddddddddd." DOMAIN, NULL},
        {DOMAIN, NULL},
        {"." DOMAIN, NULL},
        {"", NULL},
        {".", NULL},
        {"localhost", NULL},
        {"[::1]", NULL},
        {"[::1]:80", NULL},
        {"127.0.0.1", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call_route out;
        enum error_code code = route(cases[i].host, "/x?y", &out);
        if (code != (cases[i].runtime ? ERROR_NONE : ERROR_NOT_FOUND)) print_error("%s\n", cases[i].host);
        assert_int_equal(code, cases[i].runtime ? ERROR_NONE : ERROR_NOT_FOUND);
        if (code != ERROR_NONE) continue;
        assert_string_equal(out.account_id, ACCOUNT);
        assert_string_equal(out.runtime, cases[i].runtime);
        assert_true(str_eq(out.path, STR("/x?y")));
        assert_false(out.platform_host || out.webhook);
    }
}

static const char *const refused_targets[] = {
    "",        "*",         "x",      "http://a/", "//",        "//x",       "/a//b",       "/a/b//",    "/a/%2fb",
    "/a%2Fb",  "/a%5cb",    "/a%5Cb", "/a\\b",     "/\\x",      "/.",        "/..",         "/./a",      "/../a",
    "/a/.",    "/a/..",     "/a/./b", "/a/../b",   "/a/..?x",   "/a/.?x",    "/%2e",        "/%2E%2e/a", "/.%2e/a",
    "/%2e./a", "/a/%2e%2e", "/..;/a", "/.;x/a",    "/..;a=b/c", "/%2e%2e;/", "/a/%2e%2E;x", "/..%3b/a",  "/%",
    "/%2",     "/%zz",      "/a%",    "/a%0",      "/a%00",     "/a%00b",    "/a%0d%0aX",   "/a%09",     "/a%7f",
    "/a%1f",   "/a b",      "/a\tb",  "/a#b",      "/a?b#c",    "/a\x7f",    "/\xc3\xa4",   "/a?\x01",   "/a?\xff",
};

static void test_targets_with_two_meanings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused_targets / sizeof *refused_targets; i++) {
        struct call_route out;
        enum error_code code = route(ACCOUNT "-prod." DOMAIN, refused_targets[i], &out);
        if (code != ERROR_INVALID) print_error("%s\n", refused_targets[i]);
        assert_int_equal(code, ERROR_INVALID);
        // The same on the platform's host, where the path even names the runtime.
        char target[256];
        snprintf(target, sizeof target, "/runtimes/prod/proxy%s", refused_targets[i]);
        code = route("platform.example.com", target, &out);
        if (code == ERROR_NONE) print_error("%s\n", target);
        assert_int_not_equal(code, ERROR_NONE);
    }
    // A query is one opaque thing.
    static const char *const fine[] = {
        "/",    "/a?b=../..//%2f%00\\", "/a/", "/a/b.c/...", "/...", "/a..b/..c/d..", "/a;b=c/d", "/a%20b", "/?",
        "/%41", "/~a/-_.!$&'()*+,;=:@"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        struct call_route out;
        enum error_code code = route(ACCOUNT "-prod." DOMAIN, fine[i], &out);
        if (code != ERROR_NONE) print_error("%s\n", fine[i]);
        assert_int_equal(code, ERROR_NONE);
        assert_true(str_eq(out.path, str_c(fine[i])));
    }
}

static void test_platform_paths(void **state)
{
    static const struct {
        const char *target, *runtime, *path;
        enum error_code code;
    } cases[] = {
        {"/runtimes/prod/proxy/a?b", "prod", "/a?b", ERROR_NONE},
        {"/runtimes/prod/proxy/", "prod", "/", ERROR_NONE},
        {"/runtimes/My.Run_time-1/proxy/x/", "My.Run_time-1", "/x/", ERROR_NONE},
        {"/runtimes/prod/proxy/webhooks/a/b", "prod", "/webhooks/a/b", ERROR_NONE},
        {"/runtimes/prod/proxy", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/prod/proxy?x", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/prod/proxyx/a", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/prod/", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/prod", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/pr%6fd/proxy/a", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/pr;od/proxy/a", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/?/proxy/a", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/a?/proxy/a", NULL, NULL, ERROR_NOT_FOUND},
        {"/Runtimes/prod/proxy/a", NULL, NULL, ERROR_NOT_FOUND},
        {"/x/runtimes/prod/proxy/a", NULL, NULL, ERROR_NOT_FOUND},
        {"/runtimes/A/..%2fB/proxy/api", NULL, NULL, ERROR_INVALID},
        {"/runtimes//proxy/a", NULL, NULL, ERROR_INVALID},
        {"/runtimes/../proxy/a", NULL, NULL, ERROR_INVALID},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call_route out;
        enum error_code code = route("PLATFORM.example.com.:443", cases[i].target, &out);
        if (code != cases[i].code) print_error("%s\n", cases[i].target);
        assert_int_equal(code, cases[i].code);
        if (code != ERROR_NONE) continue;
        assert_true(out.platform_host);
        assert_false(out.webhook);
        assert_string_equal(out.account_id, "");
        assert_string_equal(out.runtime, cases[i].runtime);
        assert_true(str_eq(out.path, str_c(cases[i].path)));
        assert_int_equal(out.prefix.len + out.path.len, strlen(cases[i].target));
    }
    char target[300];
    struct call_route out;
    memset(target, 'a', sizeof target);
    memcpy(target, "/runtimes/", 10);
    memcpy(target + 10 + CALL_RUNTIME_BYTES - 1, "/proxy/", 8);
    assert_int_equal(route("platform.example.com", target, &out), ERROR_NONE);
    target[10 + CALL_RUNTIME_BYTES - 1] = 'a';
    memcpy(target + 10 + CALL_RUNTIME_BYTES, "/proxy/", 8);
    assert_int_equal(route("platform.example.com", target, &out), ERROR_NOT_FOUND);
    // Without a platform host nothing but runtimes is served.
    assert_int_equal(call_route_parse(STR(""), STR("/runtimes/a/proxy/"), STR(DOMAIN), STR_EMPTY, &out, NULL),
                     ERROR_NOT_FOUND);
}

static void test_webhooks(void **state)
{
    static const struct {
        const char *target;
        bool webhook;
    } cases[] = {
        {"/webhooks/ns/source", true}, {"/webhooks/x", true},    {"/webhooks/x?y", true},  {"/webhooks/", false},
        {"/webhooks/?x", false},       {"/webhooks", false},     {"/webhooks?/x", false},  {"/webhooksx/y", false},
        {"/Webhooks/x", false},        {"/a/webhooks/x", false}, {"/?/webhooks/x", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call_route out;
        assert_int_equal(route(ACCOUNT "-prod." DOMAIN, cases[i].target, &out), ERROR_NONE);
        assert_int_equal(out.webhook, cases[i].webhook);
    }
    struct call_route out;
    assert_int_equal(route(ACCOUNT "-prod." DOMAIN, "/webhooks/../x", &out), ERROR_INVALID);
    assert_int_equal(route(ACCOUNT "-prod." DOMAIN, "/%77ebhooks/x", &out), ERROR_NONE);
    assert_false(out.webhook);
}

// 20,000 hosts and targets put together at random: what is accepted says in plain text where it goes.
static void test_random_tuples(void **state)
{
    static const char *const pieces[] = {ACCOUNT,
                                         "ffffffffffffffffffffffff",
                                         "-",
                                         "prod",
                                         "PROD",
                                         "other",
                                         ".",
                                         DOMAIN,
                                         ".tunnels.example.com",
                                         ":",
                                         "443",
                                         "..",
                                         "%2e",
                                         "x",
                                         "@",
                                         ",",
                                         "[",
                                         "]",
                                         " "};
    static const char *const paths[] = {"/", "a", "webhooks", "runtimes", "proxy", "prod", "..", ".",     "%2f", "%2e",
                                        ";", "?", "\\",       "//",       "%00",   "%",    "#",  "http:", "*",   "/"};
    unsigned seed = 1, accepted = 0;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        char host[256] = "", target[256] = "/", whole[256];
        struct call_route out;
        if (rand_r(&seed) % 2) snprintf(host, sizeof host, "%s-prod.%s", ACCOUNT, DOMAIN);
        for (int n = rand_r(&seed) % 5; n > 0; n--)
            strcat(host, pieces[(unsigned)rand_r(&seed) % (sizeof pieces / sizeof *pieces)]);
        for (int n = rand_r(&seed) % 7; n > 0; n--)
            strcat(target, paths[(unsigned)rand_r(&seed) % (sizeof paths / sizeof *paths)]);
        if (route(host, target, &out) != ERROR_NONE) continue;
        accepted++;
        size_t len = strcspn(host, ":");
        if (len > 0 && host[len - 1] == '.') len--;
        snprintf(whole, sizeof whole, "%s-%s.%s", out.account_id, out.runtime, DOMAIN);
        assert_true(str_eq_nocase(str_of(host, len), str_c(whole)));
        assert_true(str_eq(out.path, str_c(target)));
        size_t path_len = strcspn(target, "?");
        assert_false(memmem(target, path_len, "..", 2) && memmem(target, path_len, "/../", 4));
        assert_null(memmem(target, path_len, "//", 2));
        assert_null(memmem(target, path_len, "%2f", 3));
    }
    assert_true(accepted > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),          cmocka_unit_test(test_targets_with_two_meanings),
        cmocka_unit_test(test_platform_paths), cmocka_unit_test(test_webhooks),
        cmocka_unit_test(test_random_tuples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
