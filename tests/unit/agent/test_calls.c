// Calls from end to end inside one process: HTTP/2 client -> agent's session, calls, proxy,
// upstream -> scripted service.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "tests/unit/agent/scripted_service.h"
#include "tests/unit/agent/tunnel_pair.h"

struct rig {
    struct tunnel_pair pair;
    struct scripted_service *service;
};

#define STEPS(...)                                                                                                     \
    ((const struct scripted_step[]){__VA_ARGS__}),                                                                     \
        sizeof((const struct scripted_step[]){__VA_ARGS__}) / sizeof(struct scripted_step)

// The service is "svc" and the event source "ns/hook"; "down" listens nowhere.
static struct rig *rig_create(const struct scripted_step *steps, size_t count)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    char services[128], webhooks[64];
    log_set_level(LOG_ERROR);
    tunnel_pair_init(&rig->pair);
    rig->service = scripted_service_create(loop_uv(rig->pair.loop), steps, count);
    unsigned port = scripted_service_port(rig->service);
    snprintf(services, sizeof(services), "svc=http://127.0.0.1:%u,raw=tcp://127.0.0.1:%u,down=http://127.0.0.1:1", port,
             port);
    snprintf(webhooks, sizeof(webhooks), "ns/hook=http://127.0.0.1:%u", port);
    tunnel_pair_open(&rig->pair, services, webhooks);
    return rig;
}

static void rig_destroy(struct rig *rig)
{
    scripted_service_destroy(rig->service);
    tunnel_pair_finish(&rig->pair);
    mem_free(rig);
}

static struct pair_call *get(struct rig *rig, const char *path)
{
    return tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = path});
}

static void expect(const struct pair_call *call, int status, const char *cause)
{
    char line[64];
    snprintf(line, sizeof(line), "culvert-cause: %s\n", cause);
    if (call->status != status) fail_msg("status %d, %s", call->status, pair_text(&call->body));
    if (!strstr(pair_text(&call->heads), line)) fail_msg("no %s in %s", line, pair_text(&call->heads));
}

static bool service_done(void *arg)
{
    struct rig *rig = arg;
    return scripted_service_done(rig->service);
}

// ---- plain calls -------------------------------------------------------------------------------------------------

static void test_get_and_keep_alive(void **state)
{
    (void)state;
    struct rig *rig = rig_create(STEPS(
        {.wait = "\r\n\r\n",
         .answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\nculvert-cause: forged\r\nConnection: X-Hop\r\n"
                   "X-Hop: 1\r\n\r\nhello"},
        {.wait = "\r\n\r\n", .answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"}));
    static const char *const headers[] = {"accept", "*/*", "authorization", "Bearer x", "impersonate-user",
                                          "root",   NULL};
    struct pair_call *call = tunnel_pair_call(
        &rig->pair, &(struct pair_request){.method = "GET", .path = "/services/svc/a?b=c", .headers = headers});
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_true(call->end);
    assert_int_equal(call->code, 0);
    assert_string_equal(pair_text(&call->heads), "content-length: 5\nx-a: b\n");
    assert_string_equal(pair_text(&call->body), "hello");
    char request[128];
    snprintf(request, sizeof(request), "GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:%u\r\naccept: */*\r\n\r\n",
             scripted_service_port(rig->service));
    assert_string_equal(scripted_service_received(rig->service), request);

    call = get(rig, "/services/svc/");
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 404);
    assert_int_equal(scripted_service_connections(rig->service), 1);
    rig_destroy(rig);
}

static void test_chunked_answer_with_trailers(void **state)
{
    (void)state;
    struct rig *rig = rig_create(
        STEPS({.wait = "\r\n\r\n",
               .answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n"
                         "X-Check: 1\r\nContent-Length: 9\r\nGrpc-Status: 0\r\n\r\n"}));
    struct pair_call *call = get(rig, "/services/svc/");
    tunnel_pair_run_to_close(call);
    assert_string_equal(pair_text(&call->body), "hello world");
    assert_string_equal(pair_text(&call->trailers), "x-check: 1\ngrpc-status: 0\n");
    assert_int_equal(call->code, 0);
    rig_destroy(rig);
}

static void test_answer_until_close(void **state)
{
    (void)state;
    struct rig *rig =
        rig_create(STEPS({.wait = "\r\n\r\n", .answer = "HTTP/1.0 200 OK\r\n\r\nall there is", .close = true}));
    struct pair_call *call = get(rig, "/services/svc/");
    tunnel_pair_run_to_close(call);
    assert_string_equal(pair_text(&call->body), "all there is");
    assert_true(call->end);
    rig_destroy(rig);
}

static void test_upload_chunked_with_continue(void **state)
{
    (void)state;
    struct rig *rig =
        rig_create(STEPS({.wait = "\r\n\r\n", .answer = "HTTP/1.1 100 Continue\r\n\r\n"},
                         {.wait = "0\r\n\r\n", .answer = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"}));
    static const char *const headers[] = {"expect", "100-continue", NULL};
    struct pair_call *call = tunnel_pair_call(
        &rig->pair,
        &(struct pair_request){.method = "POST", .path = "/services/svc/up", .headers = headers, .body = true});
    tunnel_pair_write(call, "hello", 5, true);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 201);
    assert_int_equal(call->infos, 1);
    assert_non_null(strstr(scripted_service_received(rig->service), "expect: 100-continue\r\n"));
    assert_non_null(strstr(scripted_service_received(rig->service), "\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
    rig_destroy(rig);
}

static void test_request_trailers(void **state)
{
    (void)state;
    struct rig *rig =
        rig_create(STEPS({.wait = "x-sum: 7\r\n\r\n", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}));
    static const char *const trailers[] = {"authorization",
                                           "Bearer x",
                                           "cache-control",
                                           "no-store",
                                           "culvert-identity",
                                           "x",
                                           "x-forwarded-for",
                                           "1.2.3.4",
                                           "x-sum",
                                           "7",
                                           NULL};
    struct pair_call *call = tunnel_pair_call(
        &rig->pair, &(struct pair_request){.method = "POST", .path = "/services/svc/up", .body = true});
    call->up_trailers = trailers;
    tunnel_pair_write(call, "hello", 5, true);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_non_null(strstr(scripted_service_received(rig->service), "5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n"));
    rig_destroy(rig);
}

static void test_upload_with_length_and_growing_window(void **state)
{
    (void)state;
    enum { BYTES = 6 * 1024 * 1024 };
    struct rig *rig = rig_create(STEPS({.wait = "the end", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}));
    static const char *const headers[] = {"content-length", "6291463", NULL};
    struct pair_call *call = tunnel_pair_call(
        &rig->pair,
        &(struct pair_request){.method = "PUT", .path = "/services/svc/up", .headers = headers, .body = true});
    char *bytes = mem_alloc(BYTES);
    memset(bytes, 'z', BYTES);
    tunnel_pair_write(call, bytes, BYTES, false);
    tunnel_pair_write(call, "the end", 7, true);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_non_null(strstr(scripted_service_received(rig->service), "Content-Length: 6291463\r\n"));
    assert_true(rig->pair.connection_window_bytes >= 0x7fffffff - 65535);
    assert_true(rig->pair.granted_bytes > BYTES - 65536);
    mem_free(bytes);
    rig_destroy(rig);
}

// ---- identity and allow-list -------------------------------------------------------------------------------------

static void test_identity(void **state)
{
    (void)state;
    struct rig *rig = rig_create(STEPS({.wait = "\r\n\r\n", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}));
    const struct pair_request bad[] = {
        {.method = "GET", .path = "/services/svc/", .anonymous = true},
        {.method = "GET", .path = "/app-proxy/api/readyz", .anonymous = true},
        {.method = "GET", .path = "/services/svc/", .identity = "x"},
        {.method = "GET", .path = "/services/svc/", .identity = "e30.AAAA"},
        {.method = "GET", .path = "/services/svc/", .identity = "."},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct pair_call *call = tunnel_pair_call(&rig->pair, &bad[i]);
        tunnel_pair_run_to_close(call);
        expect(call, 403, "not-allowed");
    }
    assert_int_equal(scripted_service_connections(rig->service), 0);

    // Signed with another key.
    rig->pair.trust.key[0] ^= 1;
    struct pair_call *call = get(rig, "/services/svc/");
    rig->pair.trust.key[0] ^= 1;
    tunnel_pair_run_to_close(call);
    expect(call, 403, "not-allowed");
    rig_destroy(rig);
}

static int status_with(struct rig *rig, const char *method, const char *path, const char *authority,
                       const char *identity)
{
    struct pair_call *call = tunnel_pair_call(
        &rig->pair,
        &(struct pair_request){.method = method, .path = path, .authority = authority, .identity = identity});
    tunnel_pair_run_to_close(call);
    return call->status;
}

enum { LATER_MS = 1000 }; // more than two clocks may differ by when each is cut to ms

// Whoever has seen an identity can do nothing with it: not the same again, and nothing else.
static void test_identity_is_for_one_call(void **state)
{
    (void)state;
    struct rig *rig = rig_create(NULL, 0);
    char seen[WIRE_IDENTITY_BYTES_MAX + 1], unused[WIRE_IDENTITY_BYTES_MAX + 1];
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, NULL), 200);
    memcpy(seen, rig->pair.identity, sizeof(seen));
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, seen), 403);
    // One that has not been used, for another method, path, query or authority.
    const struct wire_identity identity = {.runtime = "demo",
                                           .user_id = "u1",
                                           .expires_at_ms = clock_wall_ms() + WIRE_IDENTITY_BOUND_LIFE_MS,
                                           .epoch = rig->pair.trust.epoch,
                                           .number = 100};
    const struct wire_identity_call of = {STR("GET"), STR_EMPTY, STR("culvert"), STR("/app-proxy/api/readyz")};
    struct strbuf text;
    strbuf_init(&text, WIRE_IDENTITY_BYTES_MAX);
    assert_int_equal(wire_identity_sign_call(&identity, &of, rig->pair.trust.key, &text, NULL), ERROR_NONE);
    snprintf(unused, sizeof(unused), "%.*s", (int)text.len, text.at);
    strbuf_finish(&text);
    assert_int_equal(status_with(rig, "POST", "/app-proxy/api/readyz", NULL, unused), 403);
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz?x", NULL, unused), 403);
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/healthz", NULL, unused), 403);
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", "other", unused), 403);
    rig->pair.trust.epoch++; // another session
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, unused), 403);
    rig->pair.trust.epoch--;
    rig->pair.trust.platform_ahead_ms += WIRE_IDENTITY_BOUND_LIFE_MS + LATER_MS;
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, unused), 403);
    rig->pair.trust.platform_ahead_ms -= WIRE_IDENTITY_BOUND_LIFE_MS + LATER_MS;
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, unused), 200); // none of that used it up
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, unused), 403);
    rig_destroy(rig);
}

// A platform that binds identities cannot be made to take a step back; one that is a version older
// still can call.
static void test_identity_of_an_older_platform(void **state)
{
    (void)state;
    struct rig *rig = rig_create(NULL, 0);
    char bound[WIRE_IDENTITY_BYTES_MAX + 1], unbound[WIRE_IDENTITY_BYTES_MAX + 1];
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, NULL), 200);
    memcpy(bound, rig->pair.identity, sizeof(bound));
    rig->pair.trust.is_bound = false;
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, NULL), 200);
    memcpy(unbound, rig->pair.identity, sizeof(unbound));
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, unbound), 200); // as ever
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, bound), 403);
    rig->pair.trust.is_bound = true;
    assert_int_equal(status_with(rig, "GET", "/app-proxy/api/readyz", NULL, unbound), 403);
    rig_destroy(rig);
}

static void test_webhooks_need_no_identity(void **state)
{
    (void)state;
    struct rig *rig = rig_create(STEPS({.wait = "\r\n\r\n", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}));
    static const char *const headers[] = {"authorization", "Bearer s", NULL};
    struct pair_call *call = tunnel_pair_call(
        &rig->pair,
        &(struct pair_request){.method = "POST", .path = "/webhooks/ns/hook", .anonymous = true, .headers = headers});
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_non_null(strstr(scripted_service_received(rig->service), "POST /webhooks/ns/hook HTTP/1.1\r\n"));
    assert_non_null(strstr(scripted_service_received(rig->service), "authorization: Bearer s\r\n"));
    assert_non_null(strstr(scripted_service_received(rig->service), "Content-Length: 0\r\n"));

    call = tunnel_pair_call(&rig->pair,
                            &(struct pair_request){.method = "POST", .path = "/webhooks/ns/other", .anonymous = true});
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 403);
    rig_destroy(rig);
}

static void test_refusals(void **state)
{
    (void)state;
    struct rig *rig = rig_create(NULL, 0);
    static const struct {
        const char *path;
        int status;
        const char *cause;
    } cases[] = {{"/services/other/", 403, "not-allowed"}, {"/nowhere", 404, "no-route"},
                 {"/services/svc/../x", 400, "no-route"},  {"/services/down/", 502, "dial-failed"},
                 {"/culvert/reports", 404, "no-route"},    {"/services/raw/", 403, "not-allowed"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair_call *call = get(rig, cases[i].path);
        tunnel_pair_run_to_close(call);
        expect(call, cases[i].status, cases[i].cause);
    }
    // A person cannot open the reports stream, and without a reporter neither can the platform.
    struct pair_call *call = tunnel_pair_call(
        &rig->pair, &(struct pair_request){.method = "POST", .path = "/culvert/reports", .authority = "culvert"});
    tunnel_pair_run_to_close(call);
    expect(call, 404, "no-route");
    rig_destroy(rig);
}

// ---- services that misbehave --------------------------------------------------------------------------------------

static void test_broken_heads(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        "garbage\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct rig *rig = rig_create(STEPS({.wait = "\r\n\r\n", .answer = answers[i]}));
        struct pair_call *call = get(rig, "/services/svc/");
        tunnel_pair_run_to_close(call);
        expect(call, 502, "upstream-failed");
        rig_destroy(rig);
    }
}

static void test_bodies_cut_short(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nab",
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct rig *rig = rig_create(STEPS({.wait = "\r\n\r\n", .answer = answers[i], .close = true}));
        struct pair_call *call = get(rig, "/services/svc/");
        tunnel_pair_run_to_close(call);
        // What came of it is told, also where all of it and the end came at once.
        assert_int_equal(call->status, 200);
        assert_string_equal(pair_text(&call->body), i ? (i == 1 ? "ab" : "") : "abc");
        assert_false(call->end);
        assert_int_equal(call->code, NGHTTP2_INTERNAL_ERROR);
        rig_destroy(rig);
    }
}

static void test_stale_connection_is_tried_again(void **state)
{
    (void)state;
    struct rig *rig =
        rig_create(STEPS({.wait = "\r\n\r\n", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
                         {.wait = "\r\n\r\n", .close = true},
                         {.wait = "\r\n\r\n", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}));
    tunnel_pair_run_to_close(get(rig, "/services/svc/one"));
    struct pair_call *call = get(rig, "/services/svc/two");
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_string_equal(pair_text(&call->body), "ok");
    assert_int_equal(scripted_service_connections(rig->service), 2);
    rig_destroy(rig);
}

static void test_answer_before_the_body_is_complete(void **state)
{
    (void)state;
    struct rig *rig =
        rig_create(STEPS({.wait = "\r\n\r\n", .answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n"}));
    struct pair_call *call = tunnel_pair_call(
        &rig->pair, &(struct pair_request){.method = "POST", .path = "/services/svc/up", .body = true});
    tunnel_pair_write(call, "abc", 3, false);
    tunnel_pair_run_to_close(call); // RST_STREAM(NO_ERROR) behind the answer
    assert_int_equal(call->status, 413);
    assert_string_equal(pair_text(&call->body), "no\n");
    assert_int_equal(call->code, NGHTTP2_NO_ERROR);
    rig_destroy(rig);
}

// ---- pace and end --------------------------------------------------------------------------------------------------

static bool service_has_no_client(void *arg)
{
    struct rig *rig = arg;
    return scripted_service_connections(rig->service) == 1 && scripted_service_open(rig->service) == 0;
}

static void test_reset_aborts_the_service_call(void **state)
{
    (void)state;
    struct rig *rig = rig_create(STEPS({.wait = "\r\n\r\n"}));
    struct pair_call *call = get(rig, "/services/svc/slow");
    tunnel_pair_run(&rig->pair, service_done, rig);
    tunnel_pair_reset(call);
    tunnel_pair_run(&rig->pair, service_has_no_client, rig);
    rig_destroy(rig);
}

static bool window_is_full(void *arg)
{
    struct rig *rig = arg;
    return rig->pair.call[0].held == 65536;
}

static bool all_came(void *arg)
{
    struct rig *rig = arg;
    return rig->pair.call[0].closed;
}

static void test_slow_reader_stops_the_service_not_the_others(void **state)
{
    (void)state;
    enum { BYTES = 32 * 1024 * 1024 };
    struct rig *rig = rig_create(STEPS(
        {.wait = "\r\n\r\n", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 33554432\r\n\r\n", .fill_bytes = BYTES}));
    struct pair_call *slow = get(rig, "/services/svc/big");
    slow->hold = true;
    tunnel_pair_run(&rig->pair, window_is_full, rig);
    for (int i = 0; i < 3; i++) {
        struct pair_call *other = get(rig, "/app-proxy/api/readyz");
        tunnel_pair_run_to_close(other);
        assert_string_equal(pair_text(&other->body), "OK");
    }
    assert_int_equal(slow->held, 65536);
    // What was taken off the service stays small: its kernel and ours hold some MiB, the agent a
    // queue.
    assert_true(scripted_service_unsent(rig->service) > BYTES / 2);
    tunnel_pair_release(slow);
    tunnel_pair_run(&rig->pair, all_came, rig);
    assert_int_equal(slow->body.len, BYTES);
    rig_destroy(rig);
}

static bool has_head(void *arg)
{
    return ((const struct pair_call *)arg)->status != 0;
}

static void test_websocket(void **state)
{
    (void)state;
    struct rig *rig = rig_create(
        STEPS({.wait = "\r\n\r\n", .websocket = true, .answer = "welcome"}, {.wait = "ping", .answer = "pong"}));
    static const char *const headers[] = {"sec-websocket-protocol", "chat", NULL};
    struct pair_call *call = tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "CONNECT",
                                                                                 .protocol = "websocket",
                                                                                 .path = "/services/svc/ws",
                                                                                 .headers = headers,
                                                                                 .body = true});
    tunnel_pair_run(&rig->pair, has_head, call);
    tunnel_pair_write(call, "ping", 4, false);
    tunnel_pair_run(&rig->pair, service_done, rig);
    assert_non_null(strstr(scripted_service_received(rig->service), "GET /ws HTTP/1.1\r\n"));
    assert_non_null(strstr(scripted_service_received(rig->service), "Upgrade: websocket\r\n"));
    assert_non_null(strstr(scripted_service_received(rig->service), "sec-websocket-protocol: chat\r\n"));
    tunnel_pair_write(call, "", 0, true); // half-close: the service still may speak
    tunnel_pair_run(&rig->pair, service_has_no_client, rig);
    assert_int_equal(call->status, 200);
    assert_string_equal(pair_text(&call->heads), "sec-websocket-protocol: chat\n");
    assert_string_equal(pair_text(&call->body), "welcomepong");
    assert_false(call->closed);
    tunnel_pair_reset(call);
    tunnel_pair_run_to_close(call);
    rig_destroy(rig);
}

static void test_raw_bytes(void **state)
{
    (void)state;
    struct rig *rig = rig_create(STEPS({.wait = "hello", .answer = "bye", .close = true}));
    struct pair_call *call = tunnel_pair_call(
        &rig->pair, &(struct pair_request){
                        .method = "CONNECT", .protocol = "connect-tcp", .authority = "raw", .path = "/", .body = true});
    tunnel_pair_write(call, "hello", 5, true);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_string_equal(scripted_service_received(rig->service), "hello");
    assert_string_equal(pair_text(&call->body), "bye");
    rig_destroy(rig);
}

static bool first_step_done(void *arg)
{
    struct rig *rig = arg;
    return strstr(scripted_service_received(rig->service), "some") != NULL;
}

static bool went_away(void *arg)
{
    struct rig *rig = arg;
    return rig->pair.goaway;
}

static void test_drain_lets_calls_finish(void **state)
{
    (void)state;
    struct rig *rig = rig_create(
        STEPS({.wait = "some"}, {.wait = "more", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}));
    struct pair_call *call =
        tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "POST", .path = "/services/svc/", .body = true});
    tunnel_pair_write(call, "some", 4, false);
    tunnel_pair_run(&rig->pair, first_step_done, rig);
    agent_session_drain(rig->pair.agent);
    tunnel_pair_run(&rig->pair, went_away, rig);
    tunnel_pair_write(call, "more", 4, true);
    tunnel_pair_run_to_close(call);
    assert_string_equal(pair_text(&call->body), "ok");
    assert_int_equal(agent_session_stream_count(rig->pair.agent), 0);
    rig_destroy(rig);
}

// ---- app-proxy -----------------------------------------------------------------------------------------------------

static void test_app_proxy(void **state)
{
    (void)state;
    struct rig *rig = rig_create(NULL, 0);
    struct pair_call *call = get(rig, "/app-proxy/api/readyz?x");
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_string_equal(pair_text(&call->body), "OK");

    call = get(rig, "/app-proxy/api/other");
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 404);

    call = tunnel_pair_call(&rig->pair,
                            &(struct pair_request){.method = "POST", .path = "/app-proxy/api/graphql", .body = true});
    static const char query[] = "{\"query\":\"query VersionInfo { versionInfo { version, platformHost } }\"}";
    tunnel_pair_write(call, query, sizeof(query) - 1, true);
    tunnel_pair_run_to_close(call);
    assert_string_equal(pair_text(&call->body),
                        "{\"data\":{\"versionInfo\":{\"version\":\"1.2.3\",\"platformHost\":\"wss://platform\"}}}");

    call = tunnel_pair_call(&rig->pair,
                            &(struct pair_request){.method = "POST", .path = "/app-proxy/api/graphql", .body = true});
    static const char other[] = "{\"query\":\"{ gitIntegrations { name } }\"}";
    tunnel_pair_write(call, other, sizeof(other) - 1, true);
    tunnel_pair_run_to_close(call);
    assert_non_null(strstr(pair_text(&call->body), "\"errors\""));
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_and_keep_alive),
        cmocka_unit_test(test_chunked_answer_with_trailers),
        cmocka_unit_test(test_answer_until_close),
        cmocka_unit_test(test_upload_chunked_with_continue),
        cmocka_unit_test(test_request_trailers),
        cmocka_unit_test(test_upload_with_length_and_growing_window),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_identity_is_for_one_call),
        cmocka_unit_test(test_identity_of_an_older_platform),
        cmocka_unit_test(test_webhooks_need_no_identity),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_broken_heads),
        cmocka_unit_test(test_bodies_cut_short),
        cmocka_unit_test(test_stale_connection_is_tried_again),
        cmocka_unit_test(test_answer_before_the_body_is_complete),
        cmocka_unit_test(test_reset_aborts_the_service_call),
        cmocka_unit_test(test_slow_reader_stops_the_service_not_the_others),
        cmocka_unit_test(test_websocket),
        cmocka_unit_test(test_raw_bytes),
        cmocka_unit_test(test_drain_lets_calls_finish),
        cmocka_unit_test(test_app_proxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
