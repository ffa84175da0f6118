// Headers into and out of a cluster: 500 mutations of what must not pass, and what has to.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/token.h"
#include "server/proxy/call_headers.h"

static const struct call_caller plain_caller = {
    .peer = {"2001:db8::1", 11}, .host = {"a.example:1", 11}, .request_id = {"id-1", 4}, .tls = true};

static bool has(const struct http_header *headers, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(headers[i].name, str_c(name))) return true;
    return false;
}

static struct str value_of(const struct http_header *headers, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(headers[i].name, str_c(name))) return headers[i].value;
    return STR_EMPTY;
}

// Does a header with this name and a canary for a value reach the cluster?
static bool enters(const char *name, const char *connection, const struct call_caller *caller)
{
    struct arena *arena = arena_create(0);
    struct http_header out[2 + CALL_REQUEST_ADDED_MAX];
    struct http_header in[2] = {{STR("Connection"), str_c(connection)}, {str_c(name), STR("canary")}};
    size_t count = call_headers_request(in, 2, caller, arena, out);
    bool found = false;
    for (size_t i = 0; i < count; i++)
        if (memmem(out[i].value.at, out[i].value.len, "canary", 6)) found = true;
    arena_destroy(arena);
    return found;
}

static const char *const denied[] = {
    "Authorization",
    "Proxy-Authorization",
    "Cookie",
    "Cookie2",
    "X-Access-Token",
    "Impersonate-User",
    "Impersonate-Group",
    "Impersonate-Uid",
    "Impersonate-Extra-Scopes",
    "X-Remote-User",
    "X-Remote-Group",
    "X-Remote-Extra-A",
    "Culvert-Identity",
    "Culvert-Cause",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-User",
    "X-Forwarded-Email",
    "Forwarded",
    "X-Real-Ip",
    "X-Original-Url",
    "X-Rewrite-Url",
    "X-Auth-Request-User",
    "X-Webauth-User",
    "Ssl-Client-Verify",
    "X-Ssl-Client-Cert",
    "X-Client-Cert",
    "X-Client-Ip",
    "True-Client-Ip",
    "X-Goog-Authenticated-User-Email",
    "X-Amzn-Oidc-Identity",
    "X-Ms-Client-Principal-Name",
    "Transfer-Encoding",
    "Content-Length",
    "Upgrade",
    "Http2-Settings",
    "Keep-Alive",
    "Proxy-Connection",
    "Trailer",
    "Te",
    "Expect",
    "Host",
    "Via",
    "X-Http-Method-Override",
    "X-Method-Override",
    "X-Request-Id",
    "Sec-Websocket-Key",
    "Sec-Websocket-Protocol",
};

static void mutate(const char *name, int how, char *out, size_t cap)
{
    snprintf(out, cap, "%s", name);
    for (char *c = out; *c; c++) {
        if (how == 1 && *c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
        if (how == 2 && *c >= 'a' && *c <= 'z') *c = (char)(*c - 32);
        if (how == 3 && *c == '-') *c = '_';
        if (how == 4 && *c == '-' && (c - out) % 2) *c = '_';
    }
    if (how == 5) snprintf(out, cap, "%s ", name);
    if (how == 6) snprintf(out, cap, " %s", name);
    if (how == 7) snprintf(out, cap, "%s\r\nX: %s", name, name);
    if (how == 8) snprintf(out, cap, "%s:", name);
    if (how == 9) snprintf(out, cap, "%s_", name);
}

static void test_what_must_not_enter(void **state)
{
    size_t cases = 0;
    (void)state;
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
        for (int how = 0; how < 10; how++, cases++) {
            char name[256];
            mutate(denied[i], how, name, sizeof name);
            if (enters(name, "keep-alive", &plain_caller)) print_error("%s\n", name);
            assert_false(enters(name, "keep-alive", &plain_caller));
        }
        // Naming it in Connection brings it back no more than it brings anything else.
        assert_false(enters(denied[i], denied[i], &plain_caller));
    }
    assert_true(cases >= 470);
}

static void test_connection_names_are_dropped(void **state)
{
    static const char *const lists[] = {"x-internal",    "X-INTERNAL",      "close, x-internal",  "x-internal,close",
                                        "a,,x-internal", "\tx-internal ,b", "upgrade, x-internal"};
    (void)state;
    assert_true(enters("X-Internal", "close", &plain_caller));
    assert_true(enters("X-Internal", "x-internal-2, x", &plain_caller));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_false(enters("X-Internal", lists[i], &plain_caller));
}

static void test_what_enters(void **state)
{
    static const char *const names[] = {
        "Accept",  "Accept-Encoding", "Content-Type", "User-Agent", "Range",   "If-None-Match",  "Origin",
        "Referer", "X-Custom",        "Traceparent",  "Tracestate", "Baggage", "X-Gitlab-Token", "Grpc-Timeout"};
    struct arena *arena = arena_create(0);
    struct http_header out[4 + CALL_REQUEST_ADDED_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(enters(names[i], "keep-alive", &plain_caller));
    struct call_caller caller = plain_caller;
    caller.websocket = true;
    assert_true(enters("Sec-WebSocket-Protocol", "upgrade", &caller));
    assert_false(enters("Sec-WebSocket-Key", "upgrade", &caller));
    struct http_header in[] = {{STR("Content-Length"), STR("12")}, {STR("TE"), STR("deflate, Trailers")}};
    caller = plain_caller;
    caller.body = true;
    caller.prefix = STR("/runtimes/a/proxy");
    size_t count = call_headers_request(in, 2, &caller, arena, out);
    assert_true(str_eq(value_of(out, count, "content-length"), STR("12")));
    assert_true(str_eq(value_of(out, count, "te"), STR("trailers")));
    assert_true(str_eq(value_of(out, count, "x-forwarded-for"), STR("2001:db8::1")));
    assert_true(str_eq(value_of(out, count, "x-forwarded-prefix"), STR("/runtimes/a/proxy")));
    assert_true(
        str_eq(value_of(out, count, "forwarded"), STR("for=\"[2001:db8::1]\";host=\"a.example:1\";proto=https")));
    arena_destroy(arena);
}

// A webhook's own Authorization is for its event source; a key of ours never leaves the platform.
static void test_only_trusted_proxies_are_believed(void **state)
{
    struct arena *arena = arena_create(0);
    struct http_header out[8 + CALL_REQUEST_ADDED_MAX];
    const struct http_header in[] = {{STR("X-Forwarded-For"), STR("1.2.3.4")}, {STR("X-Forwarded-For"), STR("5.6.7.8")},
                                     {STR("X-Forwarded-Proto"), STR("https")}, {STR("Forwarded"), STR("for=1.2.3.4")},
                                     {STR("X-Forwarded-Host"), STR("evil")},   {STR("X-Forwarded-User"), STR("root")}};
    struct call_caller caller = plain_caller;
    (void)state;
    caller.peer = STR("10.0.0.1");
    caller.tls = false;
    size_t count = call_headers_request(in, 6, &caller, arena, out);
    assert_true(str_eq(value_of(out, count, "x-forwarded-for"), STR("10.0.0.1")));
    assert_true(str_eq(value_of(out, count, "x-forwarded-proto"), STR("http")));
    assert_false(str_starts(value_of(out, count, "forwarded"), STR("for=1.2.3.4")));
    caller.is_trusted_proxy = true;
    count = call_headers_request(in, 6, &caller, arena, out);
    assert_true(str_eq(value_of(out, count, "x-forwarded-for"), STR("1.2.3.4, 5.6.7.8, 10.0.0.1")));
    assert_true(str_eq(value_of(out, count, "x-forwarded-proto"), STR("https")));
    assert_true(str_starts(value_of(out, count, "forwarded"), STR("for=1.2.3.4, for=\"10.0.0.1\"")));
    assert_true(str_eq(value_of(out, count, "x-forwarded-host"), caller.host));
    assert_false(has(out, count, "x-forwarded-user"));
    arena_destroy(arena);
}

static void test_request_trailers(void **state)
{
    struct arena *arena = arena_create(0);
    struct http_header out[4];
    const struct http_header in[] = {{STR("Digest"), STR("a")},
                                     {STR("X-Checksum-Sha256"), STR("b")},
                                     {STR("Authorization"), STR("c")},
                                     {STR("Content-Length"), STR("1")},
                                     {STR("X-Checksum_Sha1"), STR("d")},
                                     {STR("Repr-Digest"), STR("e")},
                                     {STR("Host"), STR("f")}};
    (void)state;
    assert_int_equal(call_headers_request_trailers(in, 7, arena, out, 4), 3);
    assert_true(str_eq(out[0].name, STR("digest")) && str_eq(out[1].name, STR("x-checksum-sha256")) &&
                str_eq(out[2].name, STR("repr-digest")));
    assert_int_equal(call_headers_request_trailers(in, 7, arena, out, 1), 1);
    arena_destroy(arena);
}

static void test_authorization_of_webhooks(void **state)
{
    struct call_caller caller = plain_caller;
    struct arena *arena = arena_create(0);
    struct http_header out[1 + CALL_REQUEST_ADDED_MAX];
    struct token token;
    char text[TOKEN_TEXT_BYTES];
    char bearer[TOKEN_TEXT_BYTES + 8];
    (void)state;
    caller.anonymous = true;
    assert_true(enters("Authorization", "close", &caller));
    token_generate(&token, text);
    snprintf(bearer, sizeof bearer, "Bearer %s", text);
    struct http_header in = {STR("Authorization"), str_c(text)};
    assert_false(has(out, call_headers_request(&in, 1, &caller, arena, out), "authorization"));
    in.value = str_c(bearer);
    assert_false(has(out, call_headers_request(&in, 1, &caller, arena, out), "authorization"));
    arena_destroy(arena);
}

static void test_credential(void **state)
{
    struct http_header in[] = {{STR("x-access-token"), STR("two")}, {STR("authorization"), STR("Bearer one")}};
    (void)state;
    assert_true(str_eq(call_headers_credential(in, 2), STR("one")));
    assert_true(str_eq(call_headers_credential(in, 1), STR("two")));
    assert_int_equal(call_headers_credential(in, 0).len, 0);
    in[0].name = STR("Authorization"); // two of them: neither
    assert_int_equal(call_headers_credential(in, 2).len, 0);
}

// ---- out of the cluster --------------------------------------------------------------------------------------

static const struct call_origin runtime_origin = {.host = {"a.example:1", 11}};
static const struct call_origin platform_origin = {
    .host = {"p.example", 9}, .prefix = {"/runtimes/r/proxy", 17}, .platform = true};

static bool leaves(const char *name, const char *value, const struct call_origin *origin)
{
    struct arena *arena = arena_create(0);
    struct http_header out[CALL_RESPONSE_HEADERS_MAX];
    struct http_header in = {str_c(name), str_c(value)};
    size_t count = 0;
    uint64_t length;
    assert_true(call_headers_response(&in, 1, origin, arena, out, &count, &length));
    bool found = count > (origin->platform ? 2u : 1u);
    arena_destroy(arena);
    return found;
}

static void test_what_must_not_leave(void **state)
{
    static const char *const names[] = {
        "set-cookie",
        "set-cookie2",
        "nel",
        "report-to",
        "reporting-endpoints",
        "link",
        "refresh",
        "content-security-policy",
        "content-security-policy-report-only",
        "clear-site-data",
        "strict-transport-security",
        "alt-svc",
        "public-key-pins",
        "expect-ct",
        "permissions-policy",
        "feature-policy",
        "referrer-policy",
        "cross-origin-opener-policy",
        "cross-origin-embedder-policy",
        "x-frame-options",
        "access-control-allow-credentials",
        "service-worker-allowed",
        "sourcemap",
        "x-sourcemap",
        "connection",
        "keep-alive",
        "transfer-encoding",
        "upgrade",
        "trailer",
        "proxy-authenticate",
        "server",
        "via",
        "x-powered-by",
        "x-request-id",
        "x-accel-redirect",
        "x-sendfile",
        "culvert-identity",
        "content-location",
        "origin-agent-cluster",
        "x-content-type-options",
        "timing-allow-origin",
        "accept-ch",
        "critical-ch",
        "origin-trial",
        "www-authenticate",
        "x_y",
        "",
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char upper[64];
        snprintf(upper, sizeof upper, "%s", names[i]);
        for (char *c = upper; *c; c++)
            if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 32);
        if (leaves(names[i], "canary", &runtime_origin)) print_error("%s\n", names[i]);
        assert_false(leaves(names[i], "canary", &runtime_origin));
        assert_false(leaves(upper, "canary", &runtime_origin));
        assert_false(leaves(names[i], "canary", &platform_origin));
    }
    assert_false(leaves("access-control-allow-origin", "*", &platform_origin));
    assert_true(leaves("access-control-allow-origin", "*", &runtime_origin));
    assert_false(leaves("www-authenticate", "Basic realm=x", &runtime_origin));
    assert_true(leaves("www-authenticate", "Bearer realm=x", &runtime_origin));
    // A listed name with an unlisted value inside.
    assert_false(leaves("etag", "x\r\nset-cookie: a=b", &runtime_origin));
    assert_false(leaves("etag", "x\nset-cookie: a=b", &runtime_origin));
    assert_false(leaves("etag\r\nset-cookie", "x", &runtime_origin));
    assert_false(leaves("content-type ", "text/html", &runtime_origin));
    assert_false(leaves("culvert-cause", "a b", &runtime_origin));
    assert_true(leaves("culvert-cause", "no-route", &runtime_origin));
    char *large = test_malloc(CALL_HEADER_BYTES_MAX + 2);
    memset(large, 'x', CALL_HEADER_BYTES_MAX + 1);
    large[CALL_HEADER_BYTES_MAX + 1] = '\0';
    assert_false(leaves("etag", large, &runtime_origin));
    test_free(large);
}

static void test_what_leaves(void **state)
{
    static const char *const names[] = {"content-type",
                                        "content-encoding",
                                        "content-language",
                                        "content-disposition",
                                        "content-range",
                                        "cache-control",
                                        "etag",
                                        "last-modified",
                                        "vary",
                                        "accept-ranges",
                                        "retry-after",
                                        "date",
                                        "expires",
                                        "allow",
                                        "grpc-status",
                                        "Content-Type"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(leaves(names[i], "x", &runtime_origin));
}

static void test_locations(void **state)
{
    static const struct {
        const char *value, *runtime, *platform; // NULL: dropped
    } cases[] = {
        {"/x?y#z", "/x?y#z", "/runtimes/r/proxy/x?y#z"},
        {"/", "/", "/runtimes/r/proxy/"},
        {"/runtimes/r/proxy/x", "/runtimes/r/proxy/x", "/runtimes/r/proxy/x"},
        {"/runtimes/r/proxyx", "/runtimes/r/proxyx", "/runtimes/r/proxy/runtimes/r/proxyx"},
        {"x/y", "x/y", "x/y"},
        {"?a=b:c", "?a=b:c", "?a=b:c"},
        {"#a:b", "#a:b", "#a:b"},
        {"https://a.example:1/x", "/x", NULL},
        {"HTTP://A.example:1/x", "/x", NULL},
        {"https://a.example:1", "/", NULL},
        {"https://p.example/x", NULL, "/runtimes/r/proxy/x"},
        {"https://a.example/x", NULL, NULL},
        {"https://a.example:12/x", NULL, NULL},
        {"https://a.example:1.evil/x", NULL, NULL},
        {"https://a.example:1@evil/x", NULL, NULL},
        {"https://evil/", NULL, NULL},
        {"//evil/x", NULL, NULL},
        {"https://a.example:1//evil/x", NULL, NULL},
        {"/\\evil", NULL, NULL},
        {"\\\\evil", NULL, NULL},
        {"javascript:alert(1)", NULL, NULL},
        {"data:text/html,x", NULL, NULL},
        {"https:evil", NULL, NULL},
        {"x:y/z", NULL, NULL},
        {"", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        bool platform = i % 2;
        const char *want = platform ? cases[i / 2].platform : cases[i / 2].runtime;
        struct arena *arena = arena_create(0);
        struct http_header out[CALL_RESPONSE_HEADERS_MAX];
        struct http_header in = {STR("location"), str_c(cases[i / 2].value)};
        size_t count = 0;
        uint64_t length;
        assert_true(
            call_headers_response(&in, 1, platform ? &platform_origin : &runtime_origin, arena, out, &count, &length));
        struct str got = value_of(out, count, "location");
        if (!str_eq(got, str_c(want))) print_error("%s: %.*s\n", cases[i / 2].value, STR_ARG(got));
        assert_true(str_eq(got, str_c(want)));
        arena_destroy(arena);
    }
}

static void test_lengths_and_repeats(void **state)
{
    struct arena *arena = arena_create(0);
    struct http_header out[CALL_RESPONSE_HEADERS_MAX];
    size_t count;
    uint64_t length;
    static const char *const bad[] = {"", "x", "-1", "+1", "1,1", "1 ", "0x1", "9999999999999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct http_header in = {STR("content-length"), str_c(bad[i])};
        assert_false(call_headers_response(&in, 1, &runtime_origin, arena, out, &count, &length));
    }
    struct http_header two[] = {{STR("content-length"), STR("5")}, {STR("content-length"), STR("6")}};
    assert_false(call_headers_response(two, 2, &runtime_origin, arena, out, &count, &length));
    two[1].value = STR("5");
    assert_true(call_headers_response(two, 2, &runtime_origin, arena, out, &count, &length));
    assert_int_equal(length, 5);
    struct http_header types[] = {{STR("content-type"), STR("text/plain")}, {STR("content-type"), STR("text/html")}};
    assert_true(call_headers_response(types, 2, &runtime_origin, arena, out, &count, &length));
    assert_int_equal(count, 2);
    assert_true(str_eq(value_of(out, count, "content-type"), STR("text/plain")));
    assert_true(str_eq(value_of(out, count, "x-content-type-options"), STR("nosniff")));
    // More than fit: the platform's own are still there.
    struct http_header many[200];
    for (size_t i = 0; i < 200; i++)
        many[i] = (struct http_header){STR("vary"), STR("x")};
    assert_true(call_headers_response(many, 200, &platform_origin, arena, out, &count, &length));
    assert_int_equal(count, CALL_RESPONSE_HEADERS_MAX);
    assert_true(has(out, count, "content-security-policy"));
    arena_destroy(arena);
}

static void test_trailers(void **state)
{
    struct http_header out[2];
    static const struct http_header in[] = {{STR("grpc-status"), STR("0")},    {STR("set-cookie"), STR("a")},
                                            {STR("content-length"), STR("5")}, {STR("grpc-message"), STR("a\r\nb")},
                                            {STR("digest"), STR("x")},         {STR("grpc-message"), STR("too many")}};
    (void)state;
    assert_int_equal(call_headers_trailers(in, 6, out, 2), 2);
    assert_true(str_eq(out[1].name, STR("digest")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_must_not_enter), cmocka_unit_test(test_connection_names_are_dropped),
        cmocka_unit_test(test_what_enters),         cmocka_unit_test(test_only_trusted_proxies_are_believed),
        cmocka_unit_test(test_request_trailers),    cmocka_unit_test(test_authorization_of_webhooks),
        cmocka_unit_test(test_credential),          cmocka_unit_test(test_what_must_not_leave),
        cmocka_unit_test(test_what_leaves),         cmocka_unit_test(test_locations),
        cmocka_unit_test(test_lengths_and_repeats), cmocka_unit_test(test_trailers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
