// What must not wait for an end: events, early hints, both directions at once, WebSockets with big
// messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/unit/agent/scripted_service.h"
#include "tests/unit/agent/tunnel_pair.h"

enum { BIG_BYTES = 5 * 1024 * 1024 };

struct rig {
    struct tunnel_pair pair;
    struct scripted_service *service;
    const char *awaited;
};

static struct rig *rig_create(const struct scripted_step *steps, size_t count)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    char services[64];
    tunnel_pair_init(&rig->pair);
    rig->service = scripted_service_create(loop_uv(rig->pair.loop), steps, count);
    snprintf(services, sizeof(services), "svc=http://127.0.0.1:%u", scripted_service_port(rig->service));
    tunnel_pair_open(&rig->pair, services, "");
    return rig;
}

static void rig_destroy(struct rig *rig)
{
    scripted_service_destroy(rig->service);
    tunnel_pair_finish(&rig->pair);
    mem_free(rig);
}

static bool body_came(void *arg)
{
    struct rig *rig = arg;
    return strcmp(pair_text(&rig->pair.call[0].body), rig->awaited) == 0;
}

static bool head_came(void *arg)
{
    const struct rig *rig = arg;
    return rig->pair.call[0].status != 0;
}

static bool service_is_left(void *arg)
{
    struct rig *rig = arg;
    return scripted_service_open(rig->service) == 0;
}

static void test_events_come_one_by_one(void **state)
{
    (void)state;
    static const struct scripted_step steps[] = {
        {.wait = "\r\n\r\n",
         .answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "9\r\ndata: 1\n\n\r\n"},
        {.wait = "next", .answer = "9\r\ndata: 2\n\n\r\n"},
    };
    struct rig *rig = rig_create(steps, 2);
    struct pair_call *call = tunnel_pair_call(
        &rig->pair, &(struct pair_request){.method = "POST", .path = "/services/svc/events", .body = true});
    rig->awaited = "data: 1\n\n";
    tunnel_pair_run(&rig->pair, body_came, rig); // before anything else happens
    assert_int_equal(call->status, 200);
    tunnel_pair_write(call, "next", 4, false); // the request goes on, too
    rig->awaited = "data: 1\n\ndata: 2\n\n";
    tunnel_pair_run(&rig->pair, body_came, rig);
    assert_false(call->closed);
    tunnel_pair_reset(call);
    tunnel_pair_run(&rig->pair, service_is_left, rig);
    rig_destroy(rig);
}

static bool hint_came(void *arg)
{
    const struct rig *rig = arg;
    return rig->pair.call[0].infos == 2;
}

static void test_early_hints_come_early(void **state)
{
    (void)state;
    static const struct scripted_step steps[] = {
        {.wait = "\r\n\r\n",
         .answer = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"},
        {.wait = "go", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
    };
    struct rig *rig = rig_create(steps, 2);
    struct pair_call *call = tunnel_pair_call(
        &rig->pair, &(struct pair_request){.method = "POST", .path = "/services/svc/page", .body = true});
    tunnel_pair_run(&rig->pair, hint_came, rig);
    assert_int_equal(call->status, 0);
    tunnel_pair_write(call, "go", 2, true);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    rig_destroy(rig);
}

static bool both_came(void *arg)
{
    const struct rig *rig = arg;
    const char *head_end = strstr(scripted_service_received(rig->service), "\r\n\r\n");
    return head_end && strlen(head_end + 4) == BIG_BYTES && rig->pair.call[0].body.len == BIG_BYTES + 7;
}

static void test_websocket_carries_big_messages_both_ways(void **state)
{
    (void)state;
    static const struct scripted_step steps[] = {
        {.wait = "\r\n\r\n", .websocket = true, .answer = "welcome", .fill_bytes = BIG_BYTES}};
    struct rig *rig = rig_create(steps, 1);
    struct pair_call *call = tunnel_pair_call(
        &rig->pair,
        &(struct pair_request){.method = "CONNECT", .protocol = "websocket", .path = "/services/svc/ws", .body = true});
    char *bytes = mem_alloc(BIG_BYTES);
    tunnel_pair_run(&rig->pair, head_came, rig);
    assert_int_equal(call->status, 200);
    for (size_t i = 0; i < BIG_BYTES; i++)
        bytes[i] = (char)('a' + i / 997 % 26);
    for (size_t at = 0, piece = 1; at < BIG_BYTES; at += piece, piece = piece * 3 % 100003 + 1) // in odd pieces
        tunnel_pair_write(call, bytes + at, piece < BIG_BYTES - at ? piece : BIG_BYTES - at, false);
    tunnel_pair_run(&rig->pair, both_came, rig);
    const char *received = strstr(scripted_service_received(rig->service), "\r\n\r\n") + 4;
    assert_memory_equal(received, bytes, BIG_BYTES);
    assert_memory_equal(call->body.at, "welcomexxx", 10);
    tunnel_pair_write(call, "", 0, true);
    tunnel_pair_run(&rig->pair, service_is_left, rig); // our half ended there, too
    mem_free(bytes);
    rig_destroy(rig);
}

#define SMUGGLED "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

static struct pair_call *call_websocket(struct rig *rig)
{
    return tunnel_pair_call(
        &rig->pair,
        &(struct pair_request){.method = "CONNECT", .protocol = "websocket", .path = "/services/svc/ws", .body = true});
}

// A success that is no 101 is an ordinary answer: nobody may take it for an accepted CONNECT, and
// what the caller says then is none of the service's business.
static void test_websocket_that_is_not_switched(void **state)
{
    (void)state;
    static const struct scripted_step steps[] = {
        {.wait = "\r\n\r\n", .answer = "HTTP/1.1 203 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nplain\r\n"},
        {.wait = "GET /after", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}};
    struct rig *rig = rig_create(steps, 2);
    struct pair_call *call = call_websocket(rig);
    rig->awaited = "plain";
    tunnel_pair_run(&rig->pair, body_came, rig);
    assert_int_equal(call->status, 502);
    assert_non_null(strstr(pair_text(&call->heads), "culvert-status: 203\n"));
    tunnel_pair_write(call, SMUGGLED, strlen(SMUGGLED), false);
    struct pair_call *after =
        tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = "/services/svc/after"});
    tunnel_pair_run_to_close(after);
    assert_int_equal(after->status, 200);
    assert_null(strstr(scripted_service_received(rig->service), "/smuggled"));
    rig_destroy(rig);
}

static void test_websocket_whose_caller_does_not_wait(void **state)
{
    (void)state;
    static const struct scripted_step steps[] = {{.wait = "/never"}};
    struct rig *rig = rig_create(steps, 1);
    struct pair_call *call = call_websocket(rig);
    tunnel_pair_write(call, SMUGGLED, strlen(SMUGGLED), true);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 502);
    assert_non_null(strstr(pair_text(&call->heads), "culvert-cause: upstream-failed\n"));
    tunnel_pair_run(&rig->pair, service_is_left, rig);
    assert_null(strstr(scripted_service_received(rig->service), "/smuggled"));
    rig_destroy(rig);
}

static void test_websocket_that_is_not_switched_by_the_largest_head(void **state)
{
    (void)state;
    char head[HTTP1_HEADERS_MAX * 6 + 64] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n";
    for (size_t i = 1; i < HTTP1_HEADERS_MAX; i++)
        strcat(head, "a: b\r\n");
    strcat(head, "\r\nplain");
    const struct scripted_step steps[] = {{.wait = "\r\n\r\n", .answer = head}};
    struct rig *rig = rig_create(steps, 1);
    struct pair_call *call = call_websocket(rig);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 502);
    assert_non_null(strstr(pair_text(&call->heads), "culvert-status: 200\n"));
    assert_string_equal(pair_text(&call->body), "plain");
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_come_one_by_one),
        cmocka_unit_test(test_early_hints_come_early),
        cmocka_unit_test(test_websocket_carries_big_messages_both_ways),
        cmocka_unit_test(test_websocket_that_is_not_switched),
        cmocka_unit_test(test_websocket_whose_caller_does_not_wait),
        cmocka_unit_test(test_websocket_that_is_not_switched_by_the_largest_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
