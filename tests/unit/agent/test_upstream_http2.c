// Calls to an h2c service, as gRPC makes them, through both ends of a tunnel in memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/unit/agent/http2_service.h"
#include "tests/unit/agent/tunnel_pair.h"

struct rig {
    struct tunnel_pair pair;
    struct http2_service *service;
    struct http2_service_seen *seen;
};

static struct rig *rig_create(void)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    char services[128];
    rig->service = http2_service_start();
    rig->seen = http2_service_seen(rig->service);
    snprintf(services, sizeof(services), "svc=h2c://127.0.0.1:%u,down=h2c://127.0.0.1:1",
             http2_service_port(rig->service));
    tunnel_pair_init(&rig->pair);
    tunnel_pair_open(&rig->pair, services, "");
    return rig;
}

static void rig_destroy(struct rig *rig)
{
    tunnel_pair_finish(&rig->pair);
    http2_service_stop(rig->service);
    mem_free(rig);
}

static struct pair_call *post(struct rig *rig, const char *path)
{
    return tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "POST", .path = path, .body = true});
}

static void test_call_with_trailers_both_ways(void **state)
{
    (void)state;
    static const char *const trailers[] = {"x-sum", "7", NULL};
    struct rig *rig = rig_create();
    for (int i = 0; i < 5; i++) {
        struct pair_call *call = post(rig, "/services/svc/echo");
        call->up_trailers = trailers;
        tunnel_pair_write(call, "hello ", 6, false);
        tunnel_pair_write(call, "world", 5, true);
        tunnel_pair_run_to_close(call);
        assert_int_equal(call->status, 200);
        assert_int_equal(call->code, 0);
        assert_string_equal(pair_text(&call->body), "hello world");
        assert_string_equal(pair_text(&call->heads), "content-type: application/grpc\n");
        assert_string_equal(pair_text(&call->trailers), "grpc-status: 0\nx-sum: 9\n");
    }
    assert_true(atomic_load(&rig->seen->trailer));
    assert_true(atomic_load(&rig->seen->te));
    assert_int_equal(atomic_load(&rig->seen->connections), 1);
    rig_destroy(rig);
}

static void test_without_a_body(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct pair_call *call =
        tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = "/services/svc/info"});
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_int_equal(call->infos, 1);
    assert_int_equal(call->body.len, 0);
    rig_destroy(rig);
}

static void test_big_both_ways(void **state)
{
    (void)state;
    enum { BYTES = 3 * 1024 * 1024 };
    struct rig *rig = rig_create();
    struct pair_call *up = post(rig, "/services/svc/echo");
    struct pair_call *down =
        tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = "/services/svc/big"});
    char *bytes = mem_alloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (char)(i * 31 >> 3);
    tunnel_pair_write(up, bytes, BYTES, true);
    tunnel_pair_run_to_close(up);
    tunnel_pair_run_to_close(down);
    assert_int_equal(up->body.len, BYTES);
    assert_memory_equal(up->body.at, bytes, BYTES);
    assert_int_equal(down->body.len, HTTP2_SERVICE_BIG_BYTES);
    mem_free(bytes);
    rig_destroy(rig);
}

static bool is_cancelled(void *arg)
{
    struct rig *rig = arg;
    return atomic_load(&rig->seen->cancels) == 1;
}

static bool is_begun(void *arg)
{
    struct rig *rig = arg;
    return atomic_load(&rig->seen->streams) == 1;
}

static void test_cancel_reaches_the_service(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct pair_call *call =
        tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = "/services/svc/hang"});
    tunnel_pair_run(&rig->pair, is_begun, rig);
    tunnel_pair_reset(call);
    tunnel_pair_run(&rig->pair, is_cancelled, rig);
    rig_destroy(rig);
}

static void test_resets_and_failures(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    const struct {
        const char *path;
        int status;
        const char *cause;
    } cases[] = {{"/services/svc/refuse", 502, "dial-failed"}, {"/services/down/x", 502, "dial-failed"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair_call *call =
            tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = cases[i].path});
        tunnel_pair_run_to_close(call);
        assert_int_equal(call->status, cases[i].status);
        assert_non_null(strstr(pair_text(&call->heads), cases[i].cause));
    }
    struct pair_call *call =
        tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = "/services/svc/reset"});
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->code, NGHTTP2_INTERNAL_ERROR);
    assert_false(call->end);
    call = tunnel_pair_call(
        &rig->pair, &(struct pair_request){
                        .method = "CONNECT", .protocol = "websocket", .path = "/services/svc/echo", .body = true});
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 403);
    rig_destroy(rig);
}

static bool window_is_full(void *arg)
{
    struct rig *rig = arg;
    return rig->pair.call[0].held == 65536;
}

static bool upload_stands(void *arg)
{
    struct rig *rig = arg;
    return atomic_load(&rig->seen->received) >= 65535;
}

static void test_flow_control_reaches_from_end_to_end(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct pair_call *slow =
        tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = "/services/svc/big"});
    slow->hold = true;
    tunnel_pair_run(&rig->pair, window_is_full, rig);
    for (int i = 0; i < 10; i++) { // others pass, and the service has been stopped long before its end
        struct pair_call *other = post(rig, "/services/svc/echo");
        tunnel_pair_write(other, "x", 1, true);
        tunnel_pair_run_to_close(other);
        assert_string_equal(pair_text(&other->body), "x");
    }
    assert_true(atomic_load(&rig->seen->sent) <= 65536 + 65536 + 128 * 1024 + 20);
    tunnel_pair_release(slow);
    tunnel_pair_run_to_close(slow);
    assert_int_equal(slow->body.len, HTTP2_SERVICE_BIG_BYTES);
    rig_destroy(rig);
}

static void test_slow_service_stops_the_upload(void **state)
{
    (void)state;
    enum { BYTES = 4 * 1024 * 1024 };
    struct rig *rig = rig_create();
    atomic_store(&rig->seen->hold, true);
    struct pair_call *call = post(rig, "/services/svc/sink");
    char *bytes = mem_zalloc(BYTES);
    tunnel_pair_write(call, bytes, BYTES, false);
    tunnel_pair_run(&rig->pair, upload_stands, rig);
    for (int i = 0; i < 3; i++) {
        struct pair_call *other =
            tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = "/app-proxy/api/readyz"});
        tunnel_pair_run_to_close(other);
    }
    // The service's window, the agent's queue, and the window that was given to the platform.
    assert_true(call->up_at <= 65535 + 65536 + 64 * 1024 + 128 * 1024);
    assert_int_equal(atomic_load(&rig->seen->received), 65535);
    tunnel_pair_reset(call);
    tunnel_pair_run(&rig->pair, is_cancelled, rig);
    mem_free(bytes);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_with_trailers_both_ways),
        cmocka_unit_test(test_without_a_body),
        cmocka_unit_test(test_big_both_ways),
        cmocka_unit_test(test_cancel_reaches_the_service),
        cmocka_unit_test(test_resets_and_failures),
        cmocka_unit_test(test_flow_control_reaches_from_end_to_end),
        cmocka_unit_test(test_slow_service_stops_the_upload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
