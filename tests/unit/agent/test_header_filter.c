#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>

#include "agent/calls/header_filter.h"

static bool request_passes(const char *name, bool webhook)
{
    const struct http_header in[] = {{str_c(name), STR("v")}};
    struct http_header out[HTTP1_HEADERS_MAX];
    return header_filter_request(in, 1, webhook, out) == 1;
}

static bool answer_passes(const char *name, bool trailers)
{
    const struct http_header in[] = {{str_c(name), STR("v")}};
    struct http_header out[HTTP1_HEADERS_MAX];
    return header_filter_answer(in, 1, trailers, out) == 1;
}

static void test_request_drops(void **state)
{
    (void)state;
    static const char *const dropped[] = {
        "Connection",
        "keep-alive",
        "Proxy-Authorization",
        "TE",
        "Transfer-Encoding",
        "upgrade",
        "HTTP2-Settings",
        "host",
        "content-length",
        "authorization",
        "Cookie",
        "x-access-token",
        "impersonate-user",
        "Impersonate-Extra-x",
        "X-Remote-User",
        "x_remote_user",
        "X-Remote-Extra-Y",
        "culvert-identity",
        "Culvert-Cause",
        "x-forwarded-user",
        "X-Auth-Request-Email",
        "remote-user",
        "sec-websocket-key",
        "sec-websocket-version",
    };
    static const char *const passed[] = {
        "accept",          "content-type",    "user-agent", "x-request-id", "traceparent", "x-hub-signature-256",
        "x-gitlab-token",  "x-forwarded-for", "forwarded",  "range",        "expect",      "sec-websocket-protocol",
        "accept-encoding", "x-remoteness"};
    for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
        if (request_passes(dropped[i], false)) fail_msg("%s passed", dropped[i]);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        if (!request_passes(passed[i], false)) fail_msg("%s was dropped", passed[i]);
}

static void test_webhooks_keep_their_authorization(void **state)
{
    (void)state;
    assert_true(request_passes("authorization", true));
    assert_false(request_passes("cookie", true));
    assert_false(request_passes("impersonate-user", true));
}

static void test_what_connection_names(void **state)
{
    (void)state;
    const struct http_header in[] = {{STR("connection"), STR("close, X-Secret ,x-other")},
                                     {STR("x-secret"), STR("1")},
                                     {STR("X-Other"), STR("2")},
                                     {STR("x-third"), STR("3")}};
    struct http_header out[HTTP1_HEADERS_MAX];
    assert_int_equal(header_filter_request(in, 4, false, out), 1);
    assert_true(str_eq(out[0].name, STR("x-third")));
    assert_int_equal(header_filter_answer(in, 4, false, out), 1);
}

static void test_answers(void **state)
{
    (void)state;
    assert_false(answer_passes("culvert-cause", false));
    assert_false(answer_passes("Transfer-Encoding", false));
    assert_false(answer_passes("sec-websocket-accept", false));
    assert_true(answer_passes("content-type", false));
    assert_true(answer_passes("sec-websocket-protocol", false));
    assert_true(answer_passes("grpc-status", true));
    assert_false(answer_passes("content-length", true));
    assert_false(answer_passes("set-cookie", true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_request_drops),
                                       cmocka_unit_test(test_webhooks_keep_their_authorization),
                                       cmocka_unit_test(test_what_connection_names), cmocka_unit_test(test_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
