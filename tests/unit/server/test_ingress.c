// The ingress listener on real sockets, with a test double in the broker's place: what a client can
// send, what comes back, and what happens to the call when either side misbehaves or leaves.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "client.h"
#include "fake_broker.h"
#include "server/ingress/ingress.h"
#include "server/ingress/ingress_transfer.h"
#include "server/tls/tls_context.h"

#define ACCOUNT "0123456789abcdef01234567"
#define FOREIGN "ffffffffffffffffffffffff"
#define HOST    ACCOUNT "-prod.tunnels.test"
#define HEAD    " HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: good\r\n"

struct listener {
    struct loop *loop;
    struct ingress *ingress;
    struct tls_context *tls;
    struct ingress_options options;
    struct error err;
    uint16_t port;
    sem_t done;
    sem_t released; // a loop that is held
    struct client_answer answer;
    // The listener on the other loop, where there is one; and may connections go there?
    struct listener *other;
    atomic_bool may_leave;
    // A question that is answered when the test says so.
    call_authenticated late;
    void *late_arg;
    sem_t asked;
};

static const struct call_principal ada = {.account_id = {ACCOUNT, sizeof ACCOUNT - 1},
                                          .user_id = {"user-1", 6},
                                          .user_name = {"Ada", 3},
                                          .token_id = {"key-1", 5}};

static void authenticate(void *ctx, unsigned loop_index, const struct call_credential *credential, struct str remote,
                         call_authenticated done, void *arg)
{
    struct str token = credential->token;
    struct listener *listener = ctx;
    struct error err;
    (void)loop_index, (void)remote;
    if (str_eq(token, STR("good"))) {
        done(arg, NULL, &ada);
    } else if (str_eq(token, STR("late"))) {
        listener->late = done;
        listener->late_arg = arg;
        sem_post(&listener->asked);
    } else if (str_eq(token, STR("weak"))) {
        (void)error_set(&err, ERROR_FORBIDDEN, "no right");
        done(arg, &err, NULL);
    } else if (str_eq(token, STR("away"))) {
        (void)error_set(&err, ERROR_UNAVAILABLE, "database is away");
        done(arg, &err, NULL);
    } else {
        (void)error_set(&err, ERROR_UNAUTHENTICATED, "unknown");
        done(arg, &err, NULL);
    }
}

static void run_create(void *arg)
{
    struct listener *listener = arg;
    listener->ingress = ingress_create(listener->loop, &listener->options, &listener->err);
    if (listener->ingress) listener->port = ingress_port(listener->ingress);
    sem_post(&listener->done);
}

static void run_closed(void *arg)
{
    struct listener *listener = arg;
    ingress_destroy(listener->ingress);
    sem_post(&listener->done);
}

static void run_close(void *arg)
{
    struct listener *listener = arg;
    ingress_close(listener->ingress, run_closed, listener);
}

static void run_stop(void *arg)
{
    struct listener *listener = arg;
    ingress_stop_accepting(listener->ingress);
    sem_post(&listener->done);
}

static void run_late(void *arg)
{
    struct listener *listener = arg;
    listener->late(listener->late_arg, NULL, &ada);
}

static void on_listener(struct listener *listener, loop_fn fn)
{
    loop_post(listener->loop, fn, listener);
    sem_wait(&listener->done);
}

static struct listener *open_listener(const struct ingress_options *options)
{
    struct listener *listener = mem_zalloc(sizeof *listener);
    sem_init(&listener->done, 0, 0);
    sem_init(&listener->asked, 0, 0);
    sem_init(&listener->released, 0, 0);
    listener->options = *options;
    listener->options.listen = "127.0.0.1:0";
    listener->options.calls.tunnel_domain = "tunnels.test";
    listener->options.calls.platform_host = "platform.test";
    listener->options.calls.authenticate = authenticate;
    listener->options.ctx = listener->options.calls.ctx = listener;
    listener->loop = loop_create("ingress-test", 0);
    fake_broker_start(listener->loop);
    assert_int_equal(loop_start(listener->loop, &listener->err), ERROR_NONE);
    on_listener(listener, run_create);
    assert_non_null(listener->ingress);
    return listener;
}

struct arrival {
    struct listener *listener;
    struct ingress_transfer *transfer;
};

static void run_arrival(void *arg)
{
    struct arrival *arrival = arg;
    ingress_take_over(arrival->listener->ingress, arrival->transfer);
    mem_free(arrival);
}

static bool may_transfer(void *ctx, unsigned index)
{
    struct listener *listener = ctx;
    assert_int_equal(index, loop_index(listener->other->loop));
    return atomic_load(&listener->may_leave);
}

static void transfer(void *ctx, unsigned index, struct ingress_transfer *transfer)
{
    const struct listener *listener = ctx;
    struct arrival *arrival = mem_alloc(sizeof *arrival);
    (void)index;
    *arrival = (struct arrival){.listener = listener->other, .transfer = transfer};
    loop_post(listener->other->loop, run_arrival, arrival);
}

// A second listener, on a loop of its own; what is counted is counted together.
static void open_other_listener(struct listener *listener)
{
    struct listener *other = mem_zalloc(sizeof *other);
    sem_init(&other->done, 0, 0);
    other->options = listener->options;
    other->options.ctx = other->options.calls.ctx = other;
    other->other = listener;
    listener->other = other;
    other->loop = loop_create("other-test", 1);
    assert_int_equal(loop_start(other->loop, &other->err), ERROR_NONE);
    on_listener(other, run_create);
    assert_non_null(other->ingress);
}

static int set_up(void **state)
{
    struct ingress_options options = {
        .head_timeout_ms = 2000, .stall_timeout_ms = 2000, .calls.webhooks_per_second = 2};
    *state = open_listener(&options);
    return 0;
}

static int set_up_impatient(void **state)
{
    struct ingress_options options = {.head_timeout_ms = 100, .idle_timeout_ms = 100, .stall_timeout_ms = 100};
    *state = open_listener(&options);
    return 0;
}

static int set_up_paced(void **state)
{
    struct ingress_options options = {.head_timeout_ms = 5000,
                                      .stall_timeout_ms = 20000,
                                      .calls.body_bytes_per_second_min = 1000,
                                      .calls.body_rate_window_ms = 150};
    *state = open_listener(&options);
    return 0;
}

static int set_up_capped(void **state)
{
    struct ingress_options options = {.head_timeout_ms = 2000,
                                      .stall_timeout_ms = 2000,
                                      .addresses = connection_limiter_create(6),
                                      .accounts = connection_limiter_create(2)};
    *state = open_listener(&options);
    return 0;
}

static int set_up_behind_proxy(void **state)
{
    struct ingress_options options = {.head_timeout_ms = 2000,
                                      .stall_timeout_ms = 2000,
                                      .addresses = connection_limiter_create(1),
                                      .calls.trusted_proxies = "127.0.0.0/8"};
    *state = open_listener(&options);
    return 0;
}

static struct tls_context *make_tls(void)
{
    char folder[] = "/tmp/test_ingress.XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *certificate AUTO_FREE = mem_printf("%s/certificate.pem", folder);
    char *key AUTO_FREE = mem_printf("%s/key.pem", folder);
    client_make_certificate(certificate, key);
    struct error err;
    struct tls_context *tls = tls_context_create(certificate, key, true, &err);
    assert_non_null(tls);
    assert_null(tls_context_create(key, certificate, true, &err));
    assert_null(tls_context_create("/nowhere", key, true, &err));
    unlink(certificate);
    unlink(key);
    rmdir(folder);
    return tls;
}

static int set_up_tls(void **state)
{
    struct tls_context *tls = make_tls();
    struct ingress_options options = {
        .tls = tls_context_ssl(tls), .head_timeout_ms = 300, .stall_timeout_ms = 2000, .calls.webhooks_per_second = 2};
    struct listener *listener = open_listener(&options);
    listener->tls = tls;
    *state = listener;
    return 0;
}

// tls NULL: plain.
static struct listener *open_pair(struct tls_context *tls)
{
    struct ingress_options options = {.tls = tls ? tls_context_ssl(tls) : NULL,
                                      .head_timeout_ms = 2000,
                                      .stall_timeout_ms = 2000,
                                      .calls.webhooks_per_second = 100000,
                                      .addresses = connection_limiter_create(6),
                                      .accounts = connection_limiter_create(6),
                                      .may_transfer = may_transfer,
                                      .transfer = transfer};
    struct listener *listener = open_listener(&options);
    open_other_listener(listener);
    listener->tls = tls;
    return listener;
}

static int set_up_pair(void **state)
{
    *state = open_pair(NULL);
    return 0;
}

static int set_up_tls_pair(void **state)
{
    *state = open_pair(make_tls());
    return 0;
}

static void end_loop(struct listener *listener)
{
    on_listener(listener, run_close);
    loop_stop(listener->loop);
    loop_join(listener->loop);
    loop_destroy(listener->loop);
}

static int tear_down(void **state)
{
    struct listener *listener = *state;
    if (listener->other) {
        end_loop(listener->other);
        sem_destroy(&listener->other->done);
        mem_free(listener->other);
    }
    end_loop(listener);
    fake_broker_stop();
    tls_context_destroy(listener->tls);
    connection_limiter_destroy(listener->options.addresses);
    connection_limiter_destroy(listener->options.accounts);
    sem_destroy(&listener->done);
    sem_destroy(&listener->asked);
    sem_destroy(&listener->released);
    mem_free(listener);
    return 0;
}

static struct client *dial(const struct listener *listener)
{
    struct client *client = client_connect(listener->port, listener->tls != NULL, NULL);
    assert_non_null(client);
    return client;
}

// One request on a connection of its own.
static const struct client_answer *ask(struct listener *listener, const char *text)
{
    struct client *client = dial(listener);
    client_send_text(client, text);
    listener->answer.whole =
        client_read_answer(client, strncmp(text, "HEAD", 4) == 0 ? "HEAD" : "GET", &listener->answer);
    if (listener->answer.whole && !listener->answer.keep_alive) assert_int_equal(client_read_end(client), 0);
    client_close(client);
    return &listener->answer;
}

static bool body_is(const struct client_answer *answer, const char *text)
{
    return str_eq(str_of(answer->body, answer->body_len), str_c(text));
}

static void assert_problem(const struct client_answer *answer, int status, const char *code)
{
    char cause[64];
    char member[64];
    snprintf(cause, sizeof cause, "culvert-cause: %s\r\n", code);
    snprintf(member, sizeof member, "\"code\":\"%s\"", code);
    if (answer->status != status) print_error("%s%.*s\n", answer->head, (int)answer->body_len, answer->body);
    assert_int_equal(answer->status, status);
    assert_non_null(strstr(answer->head, "application/problem+json"));
    assert_non_null(strstr(answer->head, cause));
    assert_non_null(memmem(answer->body, answer->body_len, member, strlen(member)));
}

// ---- answers -------------------------------------------------------------------------------------------------

static void test_answers_are_framed(void **state)
{
    struct listener *listener = *state;
    const struct client_answer *answer = ask(listener, "GET /hello" HEAD "\r\n");
    assert_int_equal(answer->status, 200);
    assert_true(answer->whole && answer->keep_alive && body_is(answer, "hello"));
    assert_non_null(strstr(answer->head, "content-length: 5\r\n"));
    assert_null(strstr(answer->head, "transfer-encoding"));
    answer = ask(listener, "GET /chunked" HEAD "\r\n");
    assert_true(answer->whole && answer->keep_alive && body_is(answer, "onetwo"));
    assert_non_null(strstr(answer->head, "transfer-encoding: chunked\r\n"));
    answer = ask(listener, "HEAD /hello" HEAD "\r\n");
    assert_true(answer->whole && answer->keep_alive && body_is(answer, ""));
    assert_non_null(strstr(answer->head, "content-length: 5\r\n"));
    answer = ask(listener, "GET /status/204" HEAD "\r\n");
    assert_true(answer->status == 204 && answer->keep_alive && body_is(answer, ""));
    answer = ask(listener, "GET /status/304" HEAD "\r\n");
    assert_true(answer->status == 304 && answer->keep_alive && body_is(answer, ""));
    // HTTP/1.0 knows no chunks: the end of the connection ends the body.
    answer = ask(listener, "GET /chunked HTTP/1.0\r\nHost: " HOST "\r\nAuthorization: good\r\n\r\n");
    assert_true(answer->whole && !answer->keep_alive && body_is(answer, "onetwo"));
    assert_null(strstr(answer->head, "transfer-encoding"));
    answer = ask(listener, "GET /hello" HEAD "Connection: close\r\n\r\n");
    assert_true(answer->whole && !answer->keep_alive && body_is(answer, "hello"));
}

static void test_trailers_and_interim_answers(void **state)
{
    struct listener *listener = *state;
    char raw[4096] = "";
    struct client *client = dial(listener);
    client_send_text(client, "GET /chunked" HEAD "TE: trailers\r\nConnection: close, TE\r\n\r\n");
    size_t len = 0, got;
    while ((got = client_read(client, raw + len, sizeof raw - 1 - len)) > 0)
        len += got;
    assert_non_null(strstr(raw, "\r\n0\r\ngrpc-status: 0\r\n\r\n"));
    client_close(client);
    // Who does not ask for trailers gets none.
    client = dial(listener);
    client_send_text(client, "GET /chunked" HEAD "Connection: close\r\n\r\n");
    memset(raw, 0, sizeof raw);
    for (len = 0; (got = client_read(client, raw + len, sizeof raw - 1 - len)) > 0;)
        len += got;
    assert_non_null(strstr(raw, "\r\n0\r\n\r\n"));
    client_close(client);
    client = dial(listener);
    client_send_text(client, "GET /interim" HEAD "\r\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 102);
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 103);
    assert_null(strcasestr(listener->answer.head, "link"));
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 200);
    client_close(client);
}

static void test_hostile_headers_stay_out(void **state)
{
    struct listener *listener = *state;
    const struct client_answer *answer = ask(listener, "GET /hostile" HEAD "X-Request-Id: mine-1\r\n\r\n");
    static const char *const unwanted[] = {"cookie",          "nel",        "link",   "refresh",
                                           "security-policy", "clear-site", "strict", "alt-svc",
                                           "keep-alive",      "theirs",     "x-bad",  "evil"};
    assert_int_equal(answer->status, 200);
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        assert_null(strcasestr(answer->head, unwanted[i]));
    assert_non_null(strstr(answer->head, "x-content-type-options: nosniff\r\n"));
    assert_non_null(strstr(answer->head, "x-request-id: mine-1\r\n"));
    assert_true(answer->keep_alive);
}

static void test_broken_answers_are_seen_as_broken(void **state)
{
    struct listener *listener = *state;
    assert_false(ask(listener, "GET /short" HEAD "\r\n")->whole);
    assert_int_equal(listener->answer.status, 200);
    assert_false(ask(listener, "GET /long" HEAD "\r\n")->whole);
}

static void test_failures_have_their_status(void **state)
{
    static const struct {
        enum tunnel_cause cause;
        int status;
        const char *code;
    } cases[] = {
        {TUNNEL_CAUSE_NO_TUNNEL, 503, "no-tunnel"},       {TUNNEL_CAUSE_OVERLOADED, 503, "overloaded"},
        {TUNNEL_CAUSE_TUNNEL_LOST, 502, "tunnel-lost"},   {TUNNEL_CAUSE_DIAL_FAILED, 502, "dial-failed"},
        {TUNNEL_CAUSE_NOT_ALLOWED, 403, "not-allowed"},   {TUNNEL_CAUSE_NO_ROUTE, 404, "no-route"},
        {TUNNEL_CAUSE_HEAD_TIMEOUT, 504, "head-timeout"}, {TUNNEL_CAUSE_UPSTREAM_FAILED, 502, "upstream-failed"},
    };
    struct listener *listener = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "GET /fail/%d" HEAD "\r\n", (int)cases[i].cause);
        const struct client_answer *answer = ask(listener, text);
        assert_problem(answer, cases[i].status, cases[i].code);
        assert_true(answer->keep_alive);
        assert_int_equal(strstr(answer->head, "retry-after: 5\r\n") != NULL, cases[i].status == 503);
    }
}

// ---- requests ------------------------------------------------------------------------------------------------

static void test_keep_alive_and_pipelining(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    for (int i = 0; i < 5; i++) {
        client_send_text(client, "GET /hello" HEAD "\r\n");
        assert_true(client_read_answer(client, "GET", &listener->answer));
        assert_true(body_is(&listener->answer, "hello"));
    }
    client_send_text(client, "GET /hello" HEAD "\r\nPOST /sink" HEAD "Content-Length: 3\r\n\r\nabcGET /chunked" HEAD
                             "\r\nGET /fail/3" HEAD "\r\nPOST /echo" HEAD
                             "Transfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\nGET /hello" HEAD "\r\n");
    static const char *const bodies[] = {"hello", "3", "onetwo", NULL, "xyz", "hello"};
    for (size_t i = 0; i < 6; i++) {
        assert_true(client_read_answer(client, "GET", &listener->answer));
        if (bodies[i]) assert_true(body_is(&listener->answer, bodies[i]));
    }
    assert_int_equal(fake_broker_seen().opened, 11);
    assert_int_equal(fake_broker_seen().cancelled, 0);
    client_close(client);
}

static void test_request_trailers(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "POST /sink" HEAD "Transfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n"
                             "3\r\nabc\r\n0\r\nDigest: sha-256=x\r\nAuthorization: bad\r\nX-Remote-User: root\r\n"
                             "Content-Length: 9\r\n\r\nGET /hello" HEAD "\r\n");
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_true(body_is(&listener->answer, "3"));
    assert_string_equal(fake_broker_seen().trailers, "digest: sha-256=x\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_true(body_is(&listener->answer, "hello"));
    client_close(client);
}

static void test_bodies_in_drops(void **state)
{
    struct listener *listener = *state;
    static const char text[] = "POST /echo" HEAD "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n \r\n"
                               "5\r\nworld\r\n0\r\nTrailer: x\r\n\r\n";
    struct client *client = dial(listener);
    for (size_t i = 0; i < sizeof text - 1; i++)
        client_send(client, str_of(text + i, 1));
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_true(body_is(&listener->answer, "hello world"));
    client_close(client);
}

static bool three_bytes(const struct fake_broker_seen *seen)
{
    return seen->body_bytes == 3;
}

// Both directions at once: the first part of the answer comes before the body is complete.
static void test_both_directions_stream(void **state)
{
    struct listener *listener = *state;
    char got[4096] = "";
    size_t len = 0;
    struct client *client = dial(listener);
    client_send_text(client, "POST /echo" HEAD "Content-Length: 6\r\n\r\nabc");
    while (!strstr(got, "abc\r\n"))
        len += client_read(client, got + len, sizeof got - 1 - len);
    fake_broker_wait(three_bytes);
    client_send_text(client, "def");
    while (!strstr(got, "def\r\n0\r\n\r\n"))
        len += client_read(client, got + len, sizeof got - 1 - len);
    client_close(client);
}

static void test_expect_continue(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "POST /sink" HEAD "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_int_equal(listener->answer.status, 100);
    assert_non_null(strstr(fake_broker_seen().headers, "expect: 100-continue\n"));
    client_send_text(client, "12345");
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_true(body_is(&listener->answer, "5"));
    // The service says nothing: after a while we do.
    client_send_text(client, "POST /hang" HEAD "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_int_equal(listener->answer.status, 100);
    client_close(client);
    // Nobody expects it: 100 from the service goes no further (the next thing is the answer).
    client = dial(listener);
    client_send_text(client, "POST /sink" HEAD "Content-Length: 5\r\n\r\n12345");
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_int_equal(listener->answer.status, 200);
    client_close(client);
    // Without a credential nobody is asked for a body.
    assert_problem(
        ask(listener, "POST /sink HTTP/1.1\r\nHost: " HOST "\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"),
        401, "unauthenticated");
    assert_false(listener->answer.keep_alive);
    assert_problem(ask(listener, "GET /hello" HEAD "Expect: something\r\n\r\n"), 417, "expectation-failed");
}

static void test_request_headers_are_rebuilt(void **state)
{
    struct listener *listener = *state;
    ask(listener, "GET /hello?q=%2f..//" HEAD "Connection: x-hop, keep-alive\r\nX-Hop: 1\r\nCookie: a=b\r\n"
                  "Impersonate-User: root\r\nX-Remote-User: root\r\nX_Remote_User: root\r\nCulvert-Identity: x\r\n"
                  "X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Kept: yes\r\nTraceparent: 00-1-2-01\r\n"
                  "X-Request-Id: not/valid\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nTE: trailers\r\n\r\n");
    struct fake_broker_seen seen = fake_broker_seen();
    static const char *const unwanted[] = {"authorization", "x-hop",   "cookie", "impersonate", "remote",    "culvert",
                                           "1.2.3.4",       "upgrade", "http2",  "connection",  "not/valid", "host: 0"};
    static const char *const wanted[] = {"x-kept: yes\n",
                                         "traceparent: 00-1-2-01\n",
                                         "te: trailers\n",
                                         "x-forwarded-for: 127.0.0.1\n",
                                         "x-forwarded-proto: http\n",
                                         "x-forwarded-host: " HOST "\n",
                                         "forwarded: for=\"127.0.0.1\";host=\"" HOST "\";proto=http\n",
                                         "x-request-id: "};
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++) {
        if (strstr(seen.headers, unwanted[i]) && strcmp(unwanted[i], "host: 0") != 0) print_error("%s", seen.headers);
        if (strcmp(unwanted[i], "host: 0") != 0) assert_null(strstr(seen.headers, unwanted[i]));
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_non_null(strstr(seen.headers, wanted[i]));
    assert_string_equal(seen.path, "/hello?q=%2f..//");
    assert_string_equal(seen.account, ACCOUNT);
    assert_string_equal(seen.runtime, "prod");
    assert_string_equal(seen.user, "user-1");
}

static void test_credentials(void **state)
{
    struct listener *listener = *state;
    assert_problem(ask(listener, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\n\r\n"), 401, "unauthenticated");
    assert_non_null(strstr(listener->answer.head, "www-authenticate: Bearer"));
    assert_true(listener->answer.keep_alive);
    assert_problem(ask(listener, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: bad\r\n\r\n"), 401,
                   "unauthenticated");
    assert_problem(ask(listener, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: weak\r\n\r\n"), 403,
                   "forbidden");
    assert_problem(ask(listener, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: away\r\n\r\n"), 503,
                   "unavailable");
    assert_problem(
        ask(listener, "GET /hello HTTP/1.1\r\nHost: " FOREIGN "-prod.tunnels.test\r\nAuthorization: good\r\n\r\n"), 404,
        "not-found");
    assert_problem(ask(listener, "GET /hello HTTP/1.1\r\nHost: elsewhere.test\r\nAuthorization: good\r\n\r\n"), 404,
                   "not-found");
    assert_int_equal(fake_broker_seen().opened, 0);
    assert_int_equal(
        ask(listener, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: Bearer good\r\n\r\n")->status, 200);
    assert_int_equal(ask(listener, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nX-Access-Token: good\r\n\r\n")->status,
                     200);
    // Each request is authorised anew, whatever its connection carried before.
    struct client *client = dial(listener);
    client_send_text(client, "GET /hello" HEAD "\r\nGET /hello HTTP/1.1\r\nHost: " HOST "\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 200);
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 401);
    client_close(client);
}

static void test_late_authentication(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client,
                     "POST /sink HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: late\r\nContent-Length: 3\r\n\r\nabc");
    sem_wait(&listener->asked);
    loop_post(listener->loop, run_late, listener);
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_true(body_is(&listener->answer, "3"));
    // The client leaves before the answer: nothing is opened, nothing is touched that is gone.
    unsigned opened = fake_broker_seen().opened;
    client_send_text(client, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: late\r\n\r\n");
    sem_wait(&listener->asked);
    client_close(client);
    assert_int_equal(ask(listener, "GET /status/204" HEAD "\r\n")->status, 204);
    loop_post(listener->loop, run_late, listener);
    assert_int_equal(ask(listener, "GET /status/204" HEAD "\r\n")->status, 204);
    assert_true(fake_broker_seen().opened >= opened + 2);
}

static void test_webhooks(void **state)
{
    struct listener *listener = *state;
    const char *text = "POST /webhooks/argo/github HTTP/1.1\r\nHost: " HOST
                       "\r\nX-Hub-Signature-256: sha256=00\r\nContent-Length: 2\r\n\r\n{}";
    assert_int_equal(ask(listener, text)->status, 200);
    struct fake_broker_seen seen = fake_broker_seen();
    assert_string_equal(seen.user, "(nobody)");
    assert_non_null(strstr(seen.headers, "x-hub-signature-256: sha256=00\n"));
    int limited = 0;
    for (int i = 0; i < 6; i++)
        limited += ask(listener, text)->status == 429;
    assert_true(limited > 0);
    // Another runtime has a bucket of its own; everything else still needs a credential.
    assert_int_equal(
        ask(listener, "GET /webhooks/a/b HTTP/1.1\r\nHost: " ACCOUNT "-other.tunnels.test\r\n\r\n")->status, 200);
    assert_int_equal(ask(listener, "GET /webhooks HTTP/1.1\r\nHost: " HOST "\r\n\r\n")->status, 401);
    assert_int_equal(ask(listener, "GET /webhooks/../x HTTP/1.1\r\nHost: " HOST "\r\n\r\n")->status, 400);
}

// Whatever the cause, an anonymous caller sees the same; where the service has answered, it sees that.
static void test_webhooks_that_reach_nothing(void **state)
{
    struct listener *listener = *state;
    char text[256];
    for (int cause = TUNNEL_CAUSE_NO_TUNNEL; cause <= TUNNEL_CAUSE_UPSTREAM_FAILED; cause++) {
        snprintf(text, sizeof text,
                 "POST /webhooks/fail/%d HTTP/1.1\r\nHost: " ACCOUNT "-r%d.tunnels.test\r\nContent-Length: 2\r\n\r\n{}",
                 cause, cause);
        const struct client_answer *answer = ask(listener, text);
        assert_int_equal(answer->status, 503);
        assert_non_null(strstr(answer->head, "culvert-cause: unavailable\r\n"));
    }
}

static void test_platform_host(void **state)
{
    struct listener *listener = *state;
    const struct client_answer *answer =
        ask(listener,
            "GET /runtimes/prod/proxy/hello?x=1 HTTP/1.1\r\nHost: platform.test:8443\r\nAuthorization: good\r\n\r\n");
    assert_int_equal(answer->status, 200);
    assert_non_null(strstr(answer->head, "content-security-policy: default-src 'none'; sandbox\r\n"));
    struct fake_broker_seen seen = fake_broker_seen();
    assert_string_equal(seen.path, "/hello?x=1");
    assert_string_equal(seen.account, ACCOUNT);
    assert_string_equal(seen.runtime, "prod");
    assert_non_null(strstr(seen.headers, "x-forwarded-prefix: /runtimes/prod/proxy\n"));
    assert_int_equal(
        ask(listener, "GET /runtimes/prod/proxy/webhooks/a/b HTTP/1.1\r\nHost: platform.test\r\n\r\n")->status, 401);
    assert_int_equal(ask(listener, "GET /api HTTP/1.1\r\nHost: platform.test\r\nAuthorization: good\r\n\r\n")->status,
                     404);
}

static void test_malformed_requests(void **state)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"GET /hello HTTP/1.1\r\n\r\n", 400},
        {"GET /hello" HEAD "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"GET /hello" HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
        {"GET /hello" HEAD "X : y\r\n\r\n", 400},
        {"GET /hello" HEAD "Host: " HOST "\r\n\r\n", 400},
        {"GET http://" HOST "/hello" HEAD "\r\n", 400},
        {"GET /a%2fb" HEAD "\r\n", 400},
        {"GET /a/../b" HEAD "\r\n", 400},
        {"GET /a//b" HEAD "\r\n", 400},
        {"GET /a%5cb" HEAD "\r\n", 400},
        {"GET /a%00b" HEAD "\r\n", 400},
        {"GET /%2e%2e/b" HEAD "\r\n", 400},
        {"TRACE /hello" HEAD "\r\n", 405},
        {"POST /sink" HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
        {"POST /hang" HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400},
        {"\x16\x03\x01\x02", 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
    };
    struct listener *listener = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        // What follows must never be taken for a request.
        char text[1024];
        snprintf(text, sizeof text, "%sGET /hello" HEAD "\r\n", cases[i].text);
        struct client *client = dial(listener);
        unsigned opened = fake_broker_seen().opened;
        client_send_text(client, text);
        bool whole = client_read_answer(client, "GET", &listener->answer);
        if (!whole || listener->answer.status != cases[i].status)
            print_error("case %zu: %d\n", i, listener->answer.status);
        assert_true(whole);
        assert_int_equal(listener->answer.status, cases[i].status);
        if (cases[i].status == 400) {
            assert_false(listener->answer.keep_alive);
            assert_int_equal(client_read_end(client), 0);
            assert_true(fake_broker_seen().opened <= opened + 1);
        }
        client_close(client);
    }
}

static void test_large_heads(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /hello" HEAD "X: ");
    for (int i = 0; i < 40; i++) {
        char filler[1024];
        memset(filler, 'x', sizeof filler);
        client_send(client, str_of(filler, sizeof filler));
    }
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 431);
    client_close(client);
}

// ---- those who leave and those who stall ---------------------------------------------------------------------

static bool one_opened(const struct fake_broker_seen *seen)
{
    return seen->opened == 1;
}
static bool one_cancelled(const struct fake_broker_seen *seen)
{
    return seen->cancelled == 1;
}

static void test_client_leaves_while_waiting(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /hang" HEAD "\r\n");
    fake_broker_wait(one_opened);
    client_close(client);
    fake_broker_wait(one_cancelled);
}

static void test_client_leaves_in_the_middle(void **state)
{
    static const char *const texts[] = {"GET /events" HEAD "\r\n", "POST /echo" HEAD "Content-Length: 9\r\n\r\nabc"};
    struct listener *listener = *state;
    for (size_t i = 0; i < 2; i++) {
        struct client *client = dial(listener);
        char byte;
        client_send_text(client, texts[i]);
        client_read_exactly(client, &byte, 1);
        client_close(client);
        while (fake_broker_seen().cancelled < i + 1)
            fake_broker_wait(i == 0 ? one_cancelled : three_bytes);
    }
}

static bool window_is_out(const struct fake_broker_seen *seen)
{
    return seen->unconsumed_bytes >= 64 * 1024;
}

// A client that takes nothing: the tunnel gets no credit back, and nothing piles up.
static void test_slow_reader_holds_the_credit(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /big/100000000" HEAD "Connection: close\r\n\r\n");
    fake_broker_wait(window_is_out);
    assert_true(fake_broker_seen().sent_bytes < 16 * 1024 * 1024);
    // And once it reads, everything comes.
    size_t got = client_read_end(client);
    if (got <= 100000000) print_error("%zu bytes\n", got);
    assert_true(got > 100000000);
    client_close(client);
}

static void test_stalled_reader_is_cut(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /big/100000000" HEAD "\r\n");
    fake_broker_wait(one_cancelled);
    client_close(client);
}

static bool flood_waits(const struct fake_broker_seen *seen)
{
    return seen->unconsumed_bytes >= 64 * 1024;
}

static void test_event_streams_may_stall(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /sse-flood" HEAD "\r\n");
    fake_broker_wait(flood_waits);
    // Longer than the limits: another connection is timed out in the meantime.
    struct client *idle = dial(listener);
    assert_int_equal(client_read_end(idle), 0);
    client_close(idle);
    idle = dial(listener);
    assert_int_equal(client_read_end(idle), 0);
    client_close(idle);
    assert_int_equal(fake_broker_seen().cancelled, 0);
    client_close(client);
}

static void test_timeouts(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /hello HTTP/1.1\r\nHost");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 408);
    client_close(client);
    client = dial(listener); // nothing at all
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    client = dial(listener); // nothing after an answer
    client_send_text(client, "GET /hello" HEAD "\r\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    client = dial(listener); // a body that stops
    client_send_text(client, "POST /sink" HEAD "Content-Length: 10\r\n\r\nabc");
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    fake_broker_wait(one_cancelled);
}

// Reading is paused because the tunnel is full; the client's leaving is noticed all the same.
static void test_client_leaves_while_paused(void **state)
{
    // More than the listener reads ahead, less than the kernel holds: otherwise no end could arrive
    // at all.
    struct listener *listener = *state;
    struct client *client = dial(listener);
    char *data = mem_zalloc(150 * 1000);
    fake_broker_toggle_sink();
    client_send_text(client, "POST /sink" HEAD "Content-Length: 100000000\r\n\r\nabc");
    fake_broker_wait(three_bytes);
    client_send(client, str_of(data, 150 * 1000));
    client_close(client);
    fake_broker_wait(one_cancelled);
    mem_free(data);
}

static bool a_megabyte(const struct fake_broker_seen *seen)
{
    return seen->body_bytes >= 1000 * 1000;
}

static void test_full_tunnel_pauses_the_upload(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    char *data = mem_zalloc(1000 * 1000);
    int small = 64 * 1024;
    setsockopt(client->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    fake_broker_toggle_sink();
    client_send_text(client, "POST /sink" HEAD "Content-Length: 3\r\n\r\nabc");
    fake_broker_wait(three_bytes);
    fake_broker_toggle_sink();
    assert_true(client_read_answer(client, "POST", &listener->answer));
    client_send_text(client, "POST /sink" HEAD "Content-Length: 1000000\r\n\r\n");
    client_send(client, str_of(data, 1000 * 1000));
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_true(body_is(&listener->answer, "1000000"));
    fake_broker_wait(a_megabyte);
    mem_free(data);
    client_close(client);
}

static void test_early_answer(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "POST /early" HEAD "Content-Length: 10\r\n\r\nabc");
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_true(body_is(&listener->answer, "hello"));
    client_send_text(client, "defghijGET /hello" HEAD "\r\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_true(body_is(&listener->answer, "hello"));
    assert_int_equal(fake_broker_seen().body_bytes, 10);
    client_close(client);
}

// ---- WebSocket -----------------------------------------------------------------------------------------------

#define UPGRADE                                                                                                        \
    "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                           \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static bool one_ended(const struct fake_broker_seen *seen)
{
    return seen->ended == 1;
}

static void test_websocket(void **state)
{
    struct listener *listener = *state;
    char bytes[5];
    struct client *client = dial(listener);
    // The first bytes may come right behind the head.
    client_send(client, STR("GET /socket" HEAD UPGRADE "Sec-WebSocket-Protocol: chat, x\r\n\r\n\x81\x00"));
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 101);
    assert_non_null(strstr(listener->answer.head, "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    assert_non_null(strstr(listener->answer.head, "sec-websocket-protocol: chat\r\n"));
    assert_non_null(strstr(listener->answer.head, "connection: Upgrade\r\nupgrade: websocket\r\n"));
    struct fake_broker_seen seen = fake_broker_seen();
    assert_string_equal(seen.method, "CONNECT");
    assert_string_equal(seen.protocol, "websocket");
    assert_non_null(strstr(seen.headers, "sec-websocket-protocol: chat, x\n"));
    assert_null(strstr(seen.headers, "sec-websocket-key"));
    client_read_exactly(client, bytes, 2);
    assert_memory_equal(bytes, "\x81\x00", 2);
    client_send(client, STR("\x00\x01\xff"));
    client_read_exactly(client, bytes, 3);
    assert_memory_equal(bytes, "\x00\x01\xff", 3);
    // Half-close reaches the far end, whose answer to it still arrives.
    client_send(client, STR("bye"));
    client_half_close(client);
    client_read_exactly(client, bytes, 3);
    assert_memory_equal(bytes, "bye", 3);
    fake_broker_wait(one_ended);
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    assert_int_equal(fake_broker_seen().cancelled, 0);
}

static void test_websocket_refusals(void **state)
{
    struct listener *listener = *state;
    const struct client_answer *answer = ask(listener, "GET /refuse" HEAD UPGRADE "\r\n");
    assert_int_equal(answer->status, 403);
    answer =
        ask(listener, "GET /socket" HEAD "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
                      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    assert_problem(answer, 426, "websocket-version");
    assert_non_null(strstr(answer->head, "sec-websocket-version: 13\r\n"));
    answer =
        ask(listener, "GET /socket" HEAD "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                      "Sec-WebSocket-Key: short\r\n\r\n");
    assert_problem(answer, 400, "bad-request");
    answer = ask(listener, "POST /socket" HEAD UPGRADE "Content-Length: 3\r\n\r\nabc");
    assert_problem(answer, 400, "bad-request");
    answer = ask(listener, "GET /socket HTTP/1.1\r\nHost: " HOST "\r\n" UPGRADE "\r\n");
    assert_problem(answer, 401, "unauthenticated");
    // Another protocol is not taken up: the request is an ordinary one.
    answer = ask(listener,
                 "GET /hello" HEAD "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n");
    assert_int_equal(answer->status, 200);
}

// A service that answers the upgrade with an ordinary success has not switched: the answer is framed, and what follows
// is the next request.
static void test_websocket_that_is_not_switched(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send(client, STR("GET /declined/200" HEAD UPGRADE "\r\nGET /hello" HEAD "\r\n"));
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 200);
    assert_true(listener->answer.keep_alive && body_is(&listener->answer, "plain"));
    assert_null(strstr(listener->answer.head, "upgrade"));
    assert_null(strstr(listener->answer.head, "culvert-status"));
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_true(listener->answer.status == 200 && body_is(&listener->answer, "hello"));
    client_close(client);
    assert_int_equal(fake_broker_seen().body_bytes, 0);
    // Only a success is told in this way.
    static const char *const others[] = {"GET /declined/101" HEAD UPGRADE "\r\n",
                                         "GET /declined/2000" HEAD UPGRADE "\r\n",
                                         "GET /declined/404" HEAD UPGRADE "\r\n"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(ask(listener, others[i])->status, 502);
}

static void test_connect_tcp(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    char raw[64] = "";
    client_send_text(client, "GET /tcp/db" HEAD "Connection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 101);
    assert_non_null(strstr(listener->answer.head, "upgrade: connect-tcp\r\n"));
    assert_string_equal(fake_broker_seen().protocol, "connect-tcp");
    assert_string_equal(fake_broker_seen().path, "/tcp/db");
    client_send_text(client, "bytes");
    client_read_exactly(client, raw, 5);
    assert_string_equal(raw, "bytes");
    client_half_close(client);
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    static const char *const elsewhere[] = {"GET /tcp/" HEAD, "GET /tcp/a/b" HEAD, "GET /hello" HEAD,
                                            "GET /tcp/A" HEAD};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        char request[512];
        snprintf(request, sizeof request, "%sConnection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n", elsewhere[i]);
        assert_problem(ask(listener, request), 404, "no-route");
    }
}

// The service's end reaches the client, who may go on all the same.
static void test_service_ends_first(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /tcp/ends-first" HEAD "Connection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 101);
    char bytes[3];
    client_read_exactly(client, bytes, 3);
    assert_memory_equal(bytes, "bye", 3);
    assert_int_equal(recv(client->fd, bytes, 1, 0), 0); // its end, and not only a time-out
    client_send_text(client, "more");
    client_half_close(client);
    fake_broker_wait(one_ended);
    client_close(client);
    assert_int_equal(fake_broker_seen().body_bytes, 4);
    assert_int_equal(fake_broker_seen().cancelled, 0);
}

// A client that takes the service's end and says nothing more is not waited for without end.
static void test_service_ends_first_and_the_client_is_silent(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /tcp/ends-first" HEAD "Connection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 101);
    assert_int_equal(client_read_end(client), 3);
    fake_broker_wait(one_cancelled);
    client_close(client);
}

// Its end was taken for a half-close; nobody reads or writes any more, and the reset is seen all the same.
static void test_client_ends_its_half_and_is_reset(void **state)
{
    const struct linger at_once = {.l_onoff = 1};
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /tcp/silent" HEAD "Connection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.status, 101);
    client_half_close(client);
    fake_broker_wait(one_ended);
    assert_int_equal(fake_broker_seen().cancelled, 0);
    assert_int_equal(setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    client_close(client);
    fake_broker_wait(one_cancelled);
}

// ---- caps ----------------------------------------------------------------------------------------------------

static void test_connections_of_an_account_are_capped(void **state)
{
    struct listener *listener = *state;
    struct client *clients[2];
    for (size_t i = 0; i < 2; i++) {
        clients[i] = dial(listener);
        for (int round = 0; round < 2; round++) { // a connection counts once
            client_send_text(clients[i], "GET /hello" HEAD "\r\n");
            assert_true(client_read_answer(clients[i], "GET", &listener->answer));
            assert_int_equal(listener->answer.status, 200);
        }
    }
    assert_problem(ask(listener, "GET /hello" HEAD "\r\n"), 503, "too-many-connections");
    assert_false(listener->answer.keep_alive);
    client_close(clients[0]);
    do // its end is noticed in its own time
        ask(listener, "GET /hello" HEAD "\r\n");
    while (listener->answer.status == 503);
    assert_int_equal(listener->answer.status, 200);
    client_close(clients[1]);
}

static void test_connections_of_an_address_are_capped(void **state)
{
    struct listener *listener = *state;
    struct client *clients[6];
    for (size_t i = 0; i < 6; i++) {
        clients[i] = dial(listener);
        client_send_text(clients[i], "GET /hello HTTP/1.1\r\nHost: " HOST "\r\n\r\n");
        assert_true(client_read_answer(clients[i], "GET", &listener->answer));
        assert_int_equal(listener->answer.status, 401);
    }
    struct client *seventh = dial(listener);
    assert_int_equal(client_read_end(seventh), 0);
    client_close(seventh);
    for (size_t i = 0; i < 6; i++)
        client_close(clients[i]);
}

static void run_hold(void *arg)
{
    struct listener *listener = arg;
    sem_post(&listener->done);
    sem_wait(&listener->released);
}

static void run_nothing(void *arg)
{
    struct listener *listener = arg;
    sem_post(&listener->done);
}

// They end the connection before they are refused: the answer meets a reset, and there is no end left to be seen.
static void test_who_left_before_the_refusal_holds_no_place(void **state)
{
    struct listener *listener = *state;
    uint64_t until = clock_mono_ms() + 10000;
    on_listener(listener, run_hold);
    for (int i = 0; i < 6; i++) {
        struct client *client = dial(listener);
        client_send_text(client, "GET /a//b" HEAD "\r\n");
        client_close(client);
    }
    sem_post(&listener->released);
    on_listener(listener, run_nothing);
    do
        (void)ask(listener, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\n\r\n");
    while (!listener->answer.whole && clock_mono_ms() < until);
    assert_int_equal(listener->answer.status, 401);
    while (connection_limiter_count(listener->options.addresses, STR("127.0.0.1")) > 0 && clock_mono_ms() < until)
        on_listener(listener, run_nothing);
    assert_int_equal(connection_limiter_count(listener->options.addresses, STR("127.0.0.1")), 0);
}

static void test_a_trusted_proxy_has_no_cap_of_an_address(void **state)
{
    struct listener *listener = *state;
    struct client *clients[3];
    for (size_t i = 0; i < 3; i++) {
        clients[i] = dial(listener);
        client_send_text(clients[i], "GET /hello" HEAD "X-Forwarded-For: 1.2.3.4\r\n\r\n");
        assert_true(client_read_answer(clients[i], "GET", &listener->answer));
        assert_int_equal(listener->answer.status, 200);
        assert_non_null(strstr(fake_broker_seen().headers, "x-forwarded-for: 1.2.3.4, 127.0.0.1\n"));
    }
    for (size_t i = 0; i < 3; i++)
        client_close(clients[i]);
}

// ---- listeners of two loops -------------------------------------------------------------------

static void ask_on(struct listener *listener, struct client *client, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        client_send_text(client, "GET /hello" HEAD "\r\n");
        assert_true(client_read_answer(client, "GET", &listener->answer));
        assert_int_equal(listener->answer.status, 200);
        assert_true(body_is(&listener->answer, "hello"));
    }
}

// Asks until a call was made on that loop.
static void ask_until_on(struct listener *listener, struct client *client, unsigned loop)
{
    uint64_t until = clock_mono_ms() + 10000;
    do
        ask_on(listener, client, 1);
    while (fake_broker_seen().loop != loop && clock_mono_ms() < until);
    assert_int_equal(fake_broker_seen().loop, loop);
}

static void assert_counted(const struct listener *listener, size_t count)
{
    assert_int_equal(connection_limiter_count(listener->options.addresses, STR("127.0.0.1")), count);
    assert_int_equal(connection_limiter_count(listener->options.accounts, STR(ACCOUNT)), count);
}

static void test_connections_go_to_the_loop_of_their_session(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener), *idle = dial(listener);
    ask_on(listener, idle, 1);
    fake_broker_set_node(1);
    ask_on(listener, client, 50);
    assert_int_equal(fake_broker_seen().loop, 0); // it may not
    atomic_store(&listener->may_leave, true);
    ask_until_on(listener, client, 1);
    assert_counted(listener, 2);
    ask_on(listener, client, 50);
    assert_int_equal(fake_broker_seen().loop, 1);
    fake_broker_set_node(0);
    atomic_store(&listener->other->may_leave, true);
    ask_until_on(listener, client, 0);
    client_send_text(client, "POST /sink" HEAD "Content-Length: 6\r\n\r\nabcdef");
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_true(body_is(&listener->answer, "6"));
    assert_counted(listener, 2);
    client_close(client);
    client_close(idle);
}

// Pipelined requests are answered in their order, whatever loop takes which.
static void test_nothing_is_lost_on_the_way(void **state)
{
    enum { BURST = 12, ROUNDS = 20 };
    struct listener *listener = *state;
    struct client *client = dial(listener);
    atomic_store(&listener->may_leave, true);
    atomic_store(&listener->other->may_leave, true);
    for (unsigned round = 0; round < ROUNDS; round++) {
        fake_broker_set_node(round % 2);
        for (unsigned i = 0; i < BURST; i++)
            client_send_text(client, "GET /hello" HEAD "\r\n");
        for (unsigned i = 0; i < BURST; i++) {
            assert_true(client_read_answer(client, "GET", &listener->answer));
            assert_true(body_is(&listener->answer, "hello"));
        }
    }
    assert_counted(listener, 1);
    client_close(client);
}

static void test_a_listener_that_has_stopped_ends_whom_it_takes_over(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    uint64_t until = clock_mono_ms() + 10000;
    on_listener(listener->other, run_stop);
    fake_broker_set_node(1);
    atomic_store(&listener->may_leave, true);
    do
        client_send_text(client, "GET /hello" HEAD "\r\n");
    while (client_read_answer(client, "GET", &listener->answer) && clock_mono_ms() < until);
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    while (connection_limiter_count(listener->options.addresses, STR("127.0.0.1")) > 0 && clock_mono_ms() < until)
        on_listener(listener->other, run_nothing);
    assert_counted(listener, 0);
}

// Their allowance is a loop's.
static void test_who_sends_webhooks_stays(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    fake_broker_set_node(1);
    atomic_store(&listener->may_leave, true);
    for (int i = 0; i < 1000; i++) {
        client_send_text(client, "POST /webhooks/ns/hello HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 0\r\n\r\n");
        assert_true(client_read_answer(client, "POST", &listener->answer));
        assert_int_equal(listener->answer.status, 200);
        assert_int_equal(fake_broker_seen().loop, 0);
    }
    client_close(client);
}

// ---- the listener -----------------------------------------------------------------------------

static void test_stop_accepting(void **state)
{
    struct listener *listener = *state;
    struct client *idle = dial(listener);
    struct client *busy = dial(listener);
    client_send_text(idle, "GET /hello" HEAD "\r\n");
    assert_true(client_read_answer(idle, "GET", &listener->answer));
    client_send_text(busy, "POST /sink" HEAD "Content-Length: 6\r\n\r\nabc");
    fake_broker_wait(three_bytes);
    on_listener(listener, run_stop);
    assert_int_equal(client_read_end(idle), 0);
    client_send_text(busy, "def");
    assert_true(client_read_answer(busy, "POST", &listener->answer));
    assert_true(body_is(&listener->answer, "6"));
    assert_false(listener->answer.keep_alive);
    assert_int_equal(client_read_end(busy), 0);
    client_close(idle);
    client_close(busy);
}

static void test_close_cuts_what_is_left(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    client_send_text(client, "GET /hang" HEAD "\r\n");
    fake_broker_wait(one_opened);
    client_close(client); // tear_down closes the listener with whatever is left
    client = dial(listener);
    client_send_text(client, "GET /events" HEAD "\r\n");
    char byte;
    client_read_exactly(client, &byte, 1);
    on_listener(listener, run_close);
    client_read_end(client);
    client_close(client);
    on_listener(listener, run_create);
}

static void test_tls(void **state)
{
    struct listener *listener = *state;
    assert_int_equal(ask(listener, "GET /hello" HEAD "\r\n")->status, 200);
    assert_non_null(strstr(fake_broker_seen().headers, "x-forwarded-proto: https\n"));
    assert_null(client_connect(listener->port, true, "\x02h3"));
    struct client *client = client_connect(listener->port, true, "\x08http/1.1");
    assert_non_null(client);
    client_send_text(client, "GET /big/200000" HEAD "Connection: close\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &listener->answer));
    assert_int_equal(listener->answer.body_len, 200000);
    assert_int_equal(SSL_get_shutdown(client->ssl) & SSL_RECEIVED_SHUTDOWN, 0);
    assert_int_equal(client_read_end(client), 0);
    assert_int_equal(SSL_get_shutdown(client->ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
    client_close(client);
    // Plain text on a TLS port, and a handshake that never comes.
    client = client_connect(listener->port, false, NULL);
    client_send_text(client, "GET / HTTP/1.1\r\n\r\n");
    client_read_end(client);
    client_close(client);
    client = client_connect(listener->port, false, NULL);
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
}

static void test_tls_streams(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    char *data = mem_zalloc(200 * 1000);
    client_send_text(client, "POST /sink" HEAD "Content-Length: 200000\r\n\r\n");
    client_send(client, str_of(data, 200 * 1000));
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_true(body_is(&listener->answer, "200000"));
    mem_free(data);
    client_close(client);
    client = dial(listener);
    client_send_text(client, "GET /big/50000000" HEAD "Connection: close\r\n\r\n");
    assert_true(client_read_end(client) > 50000000);
    client_close(client);
    client = dial(listener);
    client_send_text(client, "GET /hang" HEAD "\r\n");
    client_close(client);
    fake_broker_wait(one_cancelled);
}

#define WITH(test, how) cmocka_unit_test_setup_teardown(test, how, tear_down)

// A client that sends its body in drops is told 408, and its call is given up.
static void send_too_slowly(struct listener *listener)
{
    struct client *client = dial(listener);
    unsigned cancelled = fake_broker_seen().cancelled;
    client_send_text(client, "POST /sink" HEAD "Content-Length: 100000\r\n\r\nx");
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_problem(&listener->answer, 408, "body-too-slow");
    assert_false(listener->answer.keep_alive);
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    assert_true(fake_broker_seen().cancelled > cancelled);
}

static void test_bodies_in_drops_are_given_up(void **state)
{
    send_too_slowly(*state);
}

// While the tunnel takes nothing it is not the client that is slow. Each slow one beside them takes a window's time.
static void test_a_body_that_waits_for_the_tunnel_has_its_time(void **state)
{
    struct listener *listener = *state;
    struct client *client = dial(listener);
    fake_broker_toggle_sink();
    client_send_text(client, "POST /sink" HEAD "Content-Length: 3\r\n\r\nx");
    for (int i = 0; i < 3; i++)
        (void)ask(listener, "GET /hello" HEAD "\r\n");
    struct client *drops = dial(listener);
    client_send_text(drops, "POST /echo" HEAD "Content-Length: 9\r\n\r\n");
    assert_false(client_read_answer(drops, "POST", &listener->answer)); // its answer has begun, and is cut short
    client_close(drops);
    fake_broker_toggle_sink();
    client_send_text(client, "yz");
    assert_true(client_read_answer(client, "POST", &listener->answer));
    assert_int_equal(listener->answer.status, 200);
    client_close(client);
}

static void test_what_may_be_slow(void **state)
{
    struct listener *listener = *state;
    struct client *grpc = dial(listener), *socket = dial(listener);
    client_send_text(grpc, "POST /sink" HEAD "Content-Type: application/grpc\r\nContent-Length: 1\r\n\r\n");
    client_send_text(socket, "GET /socket" HEAD UPGRADE "\r\n");
    for (int i = 0; i < 3; i++)
        send_too_slowly(listener);
    client_send_text(grpc, "x");
    assert_true(client_read_answer(grpc, "POST", &listener->answer));
    assert_int_equal(listener->answer.status, 200);
    client_close(grpc);
    client_close(socket);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        WITH(test_answers_are_framed, set_up),
        WITH(test_trailers_and_interim_answers, set_up),
        WITH(test_hostile_headers_stay_out, set_up),
        WITH(test_broken_answers_are_seen_as_broken, set_up),
        WITH(test_failures_have_their_status, set_up),
        WITH(test_keep_alive_and_pipelining, set_up),
        WITH(test_request_trailers, set_up),
        WITH(test_bodies_in_drops, set_up),
        WITH(test_both_directions_stream, set_up),
        WITH(test_expect_continue, set_up),
        WITH(test_request_headers_are_rebuilt, set_up),
        WITH(test_credentials, set_up),
        WITH(test_late_authentication, set_up),
        WITH(test_webhooks, set_up),
        WITH(test_webhooks_that_reach_nothing, set_up),
        WITH(test_platform_host, set_up),
        WITH(test_malformed_requests, set_up),
        WITH(test_large_heads, set_up),
        WITH(test_client_leaves_while_waiting, set_up),
        WITH(test_client_leaves_in_the_middle, set_up),
        WITH(test_slow_reader_holds_the_credit, set_up),
        WITH(test_stalled_reader_is_cut, set_up_impatient),
        WITH(test_event_streams_may_stall, set_up_impatient),
        WITH(test_timeouts, set_up_impatient),
        WITH(test_bodies_in_drops_are_given_up, set_up_paced),
        WITH(test_a_body_that_waits_for_the_tunnel_has_its_time, set_up_paced),
        WITH(test_what_may_be_slow, set_up_paced),
        WITH(test_client_leaves_while_paused, set_up),
        WITH(test_full_tunnel_pauses_the_upload, set_up),
        WITH(test_early_answer, set_up),
        WITH(test_websocket, set_up),
        WITH(test_websocket_refusals, set_up),
        WITH(test_websocket_that_is_not_switched, set_up),
        WITH(test_connect_tcp, set_up),
        WITH(test_service_ends_first, set_up),
        WITH(test_service_ends_first_and_the_client_is_silent, set_up_impatient),
        WITH(test_client_ends_its_half_and_is_reset, set_up),
        WITH(test_connections_of_an_account_are_capped, set_up_capped),
        WITH(test_connections_of_an_address_are_capped, set_up_capped),
        WITH(test_who_left_before_the_refusal_holds_no_place, set_up_capped),
        WITH(test_a_trusted_proxy_has_no_cap_of_an_address, set_up_behind_proxy),
        WITH(test_connections_go_to_the_loop_of_their_session, set_up_pair),
        WITH(test_connections_go_to_the_loop_of_their_session, set_up_tls_pair),
        WITH(test_nothing_is_lost_on_the_way, set_up_pair),
        WITH(test_nothing_is_lost_on_the_way, set_up_tls_pair),
        WITH(test_a_listener_that_has_stopped_ends_whom_it_takes_over, set_up_pair),
        WITH(test_who_sends_webhooks_stays, set_up_pair),
        WITH(test_stop_accepting, set_up),
        WITH(test_close_cuts_what_is_left, set_up),
        WITH(test_tls, set_up_tls),
        WITH(test_tls_streams, set_up_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
