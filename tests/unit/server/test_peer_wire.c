// The hop's head, both ways, and what must not pass.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/peer/peer_wire.h"

static const struct tunnel_request request = {
    .account_id = {"acc", 3},
    .runtime = {"demo", 4},
    .method = {"POST", 4},
    .path = {"/services/x?y=1", 15},
    .authority = {"x.ns", 4},
    .user_id = "u-1",
    .user_name = "J\xc3\xb6rg \"the\" tester",
    .head_timeout_ms = 1500,
};

static void a_request_comes_back(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0);
    struct http_header fields[PEER_WIRE_FIELDS_MAX];
    const struct http_header headers[] = {{STR("accept"), STR("*/*")},
                                          {STR("te"), STR("trailers")},
                                          {STR("connection"), STR("x")},
                                          {STR("culvert-hop-epoch"), STR("1")},
                                          {STR("host"), STR("elsewhere")}};
    struct tunnel_request sent = request, got;
    size_t count = 0;
    struct error err;
    sent.headers = headers;
    sent.header_count = sizeof headers / sizeof *headers;
    assert_int_equal(peer_wire_request_encode(&sent, 42, arena, fields, &count, &err), ERROR_NONE);
    assert_int_equal(peer_wire_request_decode(fields, count, arena, &got, &err), ERROR_NONE);
    assert_true(str_eq(got.account_id, sent.account_id) && str_eq(got.runtime, sent.runtime));
    assert_true(str_eq(got.method, sent.method) && str_eq(got.path, sent.path) &&
                str_eq(got.authority, sent.authority));
    assert_string_equal(got.user_id, sent.user_id);
    assert_string_equal(got.user_name, sent.user_name);
    assert_int_equal(got.epoch, 42);
    assert_int_equal(got.head_timeout_ms, 1500);
    assert_int_equal(got.header_count, 2); // not those of a connection, nor those that only a hop may say
    assert_true(str_eq(got.headers[0].name, STR("accept")) && str_eq(got.headers[1].name, STR("te")));
    arena_destroy(arena);
}

static void a_webhook_has_no_user(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0);
    struct http_header fields[PEER_WIRE_FIELDS_MAX];
    struct tunnel_request sent = request, got;
    size_t count = 0;
    sent.user_id = sent.user_name = NULL;
    assert_int_equal(peer_wire_request_encode(&sent, 1, arena, fields, &count, NULL), ERROR_NONE);
    assert_int_equal(peer_wire_request_decode(fields, count, arena, &got, NULL), ERROR_NONE);
    assert_null(got.user_id);
    assert_null(got.user_name);
    arena_destroy(arena);
}

static void what_cannot_be_sent_is_refused(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0);
    struct http_header fields[PEER_WIRE_FIELDS_MAX];
    size_t count = 0;
    const struct http_header bad[] = {{STR("a b"), STR("x")}, {STR("a"), STR("x\r\ny: z")}, {STR(":path"), STR("/")}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tunnel_request sent = request;
        sent.headers = &bad[i];
        sent.header_count = 1;
        assert_int_equal(peer_wire_request_encode(&sent, 1, arena, fields, &count, NULL), ERROR_INVALID);
    }
    struct tunnel_request sent = request;
    sent.path = STR("services");
    assert_int_equal(peer_wire_request_encode(&sent, 1, arena, fields, &count, NULL), ERROR_INVALID);
    arena_destroy(arena);
}

// Each field of a good request missing, twice, or with another value.
static void a_malformed_head_is_refused(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0);
    struct http_header good[PEER_WIRE_FIELDS_MAX], bad[PEER_WIRE_FIELDS_MAX + 1];
    struct tunnel_request got;
    size_t count = 0;
    assert_int_equal(peer_wire_request_encode(&request, 1, arena, good, &count, NULL), ERROR_NONE);
    static const char *const needed[] = {
        ":method", ":path", ":authority", "culvert-hop-account", "culvert-hop-runtime", "culvert-hop-epoch"};
    for (size_t i = 0; i < count; i++) {
        memcpy(bad, good, count * sizeof *good);
        bad[count] = good[i];
        assert_int_equal(peer_wire_request_decode(bad, count + 1, arena, &got, NULL), ERROR_PROTOCOL);
        for (size_t k = 0; k < sizeof needed / sizeof *needed; k++) {
            if (!str_eq(good[i].name, str_c(needed[k]))) continue;
            memcpy(bad, good, count * sizeof *good);
            bad[i].name = STR("other");
            assert_int_equal(peer_wire_request_decode(bad, count, arena, &got, NULL), ERROR_PROTOCOL);
        }
    }
    static const struct http_header wrong[] = {
        {STR("culvert-hop-epoch"), STR("0")},       {STR("culvert-hop-epoch"), STR("-1")},
        {STR("culvert-hop-runtime"), STR("")},      {STR("culvert-hop-runtime"), STR("a/b")},
        {STR("culvert-hop-user"), STR("=")},        {STR(":path"), STR("*")},
        {STR(":method"), STR("CONNECT")},           {STR(":authority"), STR("runtime")},
        {STR("culvert-hop-head-timeout"), STR("0")}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(bad, good, count * sizeof *good);
        for (size_t k = 0; k < count; k++)
            if (str_eq(bad[k].name, wrong[i].name)) bad[k].value = wrong[i].value;
        assert_int_equal(peer_wire_request_decode(bad, count, arena, &got, NULL), ERROR_PROTOCOL);
    }
    bad[0] = (struct http_header){STR("culvert-hop-later"), STR("1")};
    memcpy(bad + 1, good, count * sizeof *good);
    assert_int_equal(peer_wire_request_decode(bad, count + 1, arena, &got, NULL), ERROR_PROTOCOL);
    arena_destroy(arena);
}

static void causes_come_back(void **state)
{
    (void)state;
    for (int cause = TUNNEL_CAUSE_NO_TUNNEL; cause <= TUNNEL_CAUSE_CANCELLED; cause++) {
        char text[PEER_WIRE_DETAIL_BYTES];
        struct http_header fields[PEER_WIRE_FAIL_FIELDS];
        struct str detail;
        size_t count = 0;
        int status = peer_wire_fail_encode((enum tunnel_cause)cause, "because\r\nx: y", text, fields, &count);
        assert_int_equal(status, cause == TUNNEL_CAUSE_NO_TUNNEL ? 421 : tunnel_cause_status((enum tunnel_cause)cause));
        assert_int_equal(peer_wire_fail_decode(fields, count, &detail), cause);
        assert_true(str_eq(detail, STR("because??x: y")));
        assert_int_equal(peer_wire_reset_cause(peer_wire_reset_code((enum tunnel_cause)cause)), cause);
    }
    struct str detail;
    const struct http_header plain[] = {{STR("culvert-cause"), STR("no-tunnel")}};
    assert_int_equal(peer_wire_fail_decode(plain, 1, &detail), TUNNEL_CAUSE_NONE);
    for (uint32_t code = 0; code < 0x20; code++)
        assert_int_equal(peer_wire_reset_cause(code), TUNNEL_CAUSE_NONE);
    assert_int_equal(peer_wire_reset_cause(UINT32_MAX), TUNNEL_CAUSE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_comes_back),
        cmocka_unit_test(a_webhook_has_no_user),
        cmocka_unit_test(what_cannot_be_sent_is_refused),
        cmocka_unit_test(a_malformed_head_is_refused),
        cmocka_unit_test(causes_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
