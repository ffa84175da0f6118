// The ingress door on real sockets, with a test double in the broker's place: what a client can send, what comes back,
// and what happens to the call when either side misbehaves or leaves.
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

struct door {
    struct loop *loop;
    struct ingress *ingress;
    struct tls_context *tls;
    struct ingress_options options;
    struct error err;
    uint16_t port;
    sem_t done;
    sem_t released; // a loop that is held
    struct client_answer answer;
    // The door on the other loop, where there is one; and may connections go there?
    struct door *other;
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
    struct door *door = ctx;
    struct error err;
    (void)loop_index, (void)remote;
    if (str_eq(token, STR("good"))) {
        done(arg, NULL, &ada);
    } else if (str_eq(token, STR("late"))) {
        door->late = done;
        door->late_arg = arg;
        sem_post(&door->asked);
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
    struct door *door = arg;
    door->ingress = ingress_create(door->loop, &door->options, &door->err);
    if (door->ingress) door->port = ingress_port(door->ingress);
    sem_post(&door->done);
}

static void run_closed(void *arg)
{
    struct door *door = arg;
    ingress_destroy(door->ingress);
    sem_post(&door->done);
}

static void run_close(void *arg)
{
    struct door *door = arg;
    ingress_close(door->ingress, run_closed, door);
}

static void run_stop(void *arg)
{
    struct door *door = arg;
    ingress_stop_accepting(door->ingress);
    sem_post(&door->done);
}

static void run_late(void *arg)
{
    struct door *door = arg;
    door->late(door->late_arg, NULL, &ada);
}

static void on_door(struct door *door, loop_fn fn)
{
    loop_post(door->loop, fn, door);
    sem_wait(&door->done);
}

static struct door *open_door(const struct ingress_options *options)
{
    struct door *door = mem_zalloc(sizeof *door);
    sem_init(&door->done, 0, 0);
    sem_init(&door->asked, 0, 0);
    sem_init(&door->released, 0, 0);
    door->options = *options;
    door->options.listen = "127.0.0.1:0";
    door->options.calls.tunnel_domain = "tunnels.test";
    door->options.calls.platform_host = "platform.test";
    door->options.calls.authenticate = authenticate;
    door->options.ctx = door->options.calls.ctx = door;
    door->loop = loop_create("ingress-test", 0);
    fake_broker_start(door->loop);
    assert_int_equal(loop_start(door->loop, &door->err), ERROR_NONE);
    on_door(door, run_create);
    assert_non_null(door->ingress);
    return door;
}

struct arrival {
    struct door *door;
    struct ingress_transfer *transfer;
};

static void run_arrival(void *arg)
{
    struct arrival *arrival = arg;
    ingress_take_over(arrival->door->ingress, arrival->transfer);
    mem_free(arrival);
}

static bool may_transfer(void *ctx, unsigned index)
{
    struct door *door = ctx;
    assert_int_equal(index, loop_index(door->other->loop));
    return atomic_load(&door->may_leave);
}

static void transfer(void *ctx, unsigned index, struct ingress_transfer *transfer)
{
    const struct door *door = ctx;
    struct arrival *arrival = mem_alloc(sizeof *arrival);
    (void)index;
    *arrival = (struct arrival){.door = door->other, .transfer = transfer};
    loop_post(door->other->loop, run_arrival, arrival);
}

// A second door, on a loop of its own; what is counted is counted together.
static void open_other_door(struct door *door)
{
    struct door *other = mem_zalloc(sizeof *other);
    sem_init(&other->done, 0, 0);
    other->options = door->options;
    other->options.ctx = other->options.calls.ctx = other;
    other->other = door;
    door->other = other;
    other->loop = loop_create("other-test", 1);
    assert_int_equal(loop_start(other->loop, &other->err), ERROR_NONE);
    on_door(other, run_create);
    assert_non_null(other->ingress);
}

static int set_up(void **state)
{
    struct ingress_options options = {
        .head_timeout_ms = 2000, .stall_timeout_ms = 2000, .calls.webhooks_per_second = 2};
    *state = open_door(&options);
    return 0;
}

static int set_up_impatient(void **state)
{
    struct ingress_options options = {.head_timeout_ms = 100, .idle_timeout_ms = 100, .stall_timeout_ms = 100};
    *state = open_door(&options);
    return 0;
}

static int set_up_paced(void **state)
{
    struct ingress_options options = {.head_timeout_ms = 5000,
                                      .stall_timeout_ms = 20000,
                                      .calls.body_bytes_per_second_min = 1000,
                                      .calls.body_rate_window_ms = 150};
    *state = open_door(&options);
    return 0;
}

static int set_up_capped(void **state)
{
    struct ingress_options options = {
        .head_timeout_ms = 2000, .stall_timeout_ms = 2000, .addresses = census_create(6), .accounts = census_create(2)};
    *state = open_door(&options);
    return 0;
}

static int set_up_behind_proxy(void **state)
{
    struct ingress_options options = {.head_timeout_ms = 2000,
                                      .stall_timeout_ms = 2000,
                                      .addresses = census_create(1),
                                      .calls.trusted_proxies = "127.0.0.0/8"};
    *state = open_door(&options);
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
    struct door *door = open_door(&options);
    door->tls = tls;
    *state = door;
    return 0;
}

// tls NULL: plain.
static struct door *open_pair(struct tls_context *tls)
{
    struct ingress_options options = {.tls = tls ? tls_context_ssl(tls) : NULL,
                                      .head_timeout_ms = 2000,
                                      .stall_timeout_ms = 2000,
                                      .calls.webhooks_per_second = 100000,
                                      .addresses = census_create(6),
                                      .accounts = census_create(6),
                                      .may_transfer = may_transfer,
                                      .transfer = transfer};
    struct door *door = open_door(&options);
    open_other_door(door);
    door->tls = tls;
    return door;
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

static void end_loop(struct door *door)
{
    on_door(door, run_close);
    loop_stop(door->loop);
    loop_join(door->loop);
    loop_destroy(door->loop);
}

static int tear_down(void **state)
{
    struct door *door = *state;
    if (door->other) {
        end_loop(door->other);
        sem_destroy(&door->other->done);
        mem_free(door->other);
    }
    end_loop(door);
    fake_broker_stop();
    tls_context_destroy(door->tls);
    census_destroy(door->options.addresses);
    census_destroy(door->options.accounts);
    sem_destroy(&door->done);
    sem_destroy(&door->asked);
    sem_destroy(&door->released);
    mem_free(door);
    return 0;
}

static struct client *dial(const struct door *door)
{
    struct client *client = client_connect(door->port, door->tls != NULL, NULL);
    assert_non_null(client);
    return client;
}

// One request on a connection of its own.
static const struct client_answer *ask(struct door *door, const char *text)
{
    struct client *client = dial(door);
    client_send_text(client, text);
    door->answer.whole = client_read_answer(client, strncmp(text, "HEAD", 4) == 0 ? "HEAD" : "GET", &door->answer);
    if (door->answer.whole && !door->answer.keep_alive) assert_int_equal(client_read_end(client), 0);
    client_close(client);
    return &door->answer;
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
    struct door *door = *state;
    const struct client_answer *answer = ask(door, "GET /hello" HEAD "\r\n");
    assert_int_equal(answer->status, 200);
    assert_true(answer->whole && answer->keep_alive && body_is(answer, "hello"));
    assert_non_null(strstr(answer->head, "content-length: 5\r\n"));
    assert_null(strstr(answer->head, "transfer-encoding"));
    answer = ask(door, "GET /chunked" HEAD "\r\n");
    assert_true(answer->whole && answer->keep_alive && body_is(answer, "onetwo"));
    assert_non_null(strstr(answer->head, "transfer-encoding: chunked\r\n"));
    answer = ask(door, "HEAD /hello" HEAD "\r\n");
    assert_true(answer->whole && answer->keep_alive && body_is(answer, ""));
    assert_non_null(strstr(answer->head, "content-length: 5\r\n"));
    answer = ask(door, "GET /status/204" HEAD "\r\n");
    assert_true(answer->status == 204 && answer->keep_alive && body_is(answer, ""));
    answer = ask(door, "GET /status/304" HEAD "\r\n");
    assert_true(answer->status == 304 && answer->keep_alive && body_is(answer, ""));
    // HTTP/1.0 knows no chunks: the end of the connection ends the body.
    answer = ask(door, "GET /chunked HTTP/1.0\r\nHost: " HOST "\r\nAuthorization: good\r\n\r\n");
    assert_true(answer->whole && !answer->keep_alive && body_is(answer, "onetwo"));
    assert_null(strstr(answer->head, "transfer-encoding"));
    answer = ask(door, "GET /hello" HEAD "Connection: close\r\n\r\n");
    assert_true(answer->whole && !answer->keep_alive && body_is(answer, "hello"));
}

static void test_trailers_and_interim_answers(void **state)
{
    struct door *door = *state;
    char raw[4096] = "";
    struct client *client = dial(door);
    client_send_text(client, "GET /chunked" HEAD "TE: trailers\r\nConnection: close, TE\r\n\r\n");
    size_t len = 0, got;
    while ((got = client_read(client, raw + len, sizeof raw - 1 - len)) > 0)
        len += got;
    assert_non_null(strstr(raw, "\r\n0\r\ngrpc-status: 0\r\n\r\n"));
    client_close(client);
    // Who does not ask for trailers gets none.
    client = dial(door);
    client_send_text(client, "GET /chunked" HEAD "Connection: close\r\n\r\n");
    memset(raw, 0, sizeof raw);
    for (len = 0; (got = client_read(client, raw + len, sizeof raw - 1 - len)) > 0;)
        len += got;
    assert_non_null(strstr(raw, "\r\n0\r\n\r\n"));
    client_close(client);
    client = dial(door);
    client_send_text(client, "GET /interim" HEAD "\r\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 102);
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 103);
    assert_null(strcasestr(door->answer.head, "link"));
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 200);
    client_close(client);
}

static void test_hostile_headers_stay_out(void **state)
{
    struct door *door = *state;
    const struct client_answer *answer = ask(door, "GET /hostile" HEAD "X-Request-Id: mine-1\r\n\r\n");
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
    struct door *door = *state;
    assert_false(ask(door, "GET /short" HEAD "\r\n")->whole);
    assert_int_equal(door->answer.status, 200);
    assert_false(ask(door, "GET /long" HEAD "\r\n")->whole);
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
    struct door *door = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "GET /fail/%d" HEAD "\r\n", (int)cases[i].cause);
        const struct client_answer *answer = ask(door, text);
        assert_problem(answer, cases[i].status, cases[i].code);
        assert_true(answer->keep_alive);
        assert_int_equal(strstr(answer->head, "retry-after: 5\r\n") != NULL, cases[i].status == 503);
    }
}

// ---- requests ------------------------------------------------------------------------------------------------

static void test_keep_alive_and_pipelining(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    for (int i = 0; i < 5; i++) {
        client_send_text(client, "GET /hello" HEAD "\r\n");
        assert_true(client_read_answer(client, "GET", &door->answer));
        assert_true(body_is(&door->answer, "hello"));
    }
    client_send_text(client, "GET /hello" HEAD "\r\nPOST /sink" HEAD "Content-Length: 3\r\n\r\nabcGET /chunked" HEAD
                             "\r\nGET /fail/3" HEAD "\r\nPOST /echo" HEAD
                             "Transfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\nGET /hello" HEAD "\r\n");
    static const char *const bodies[] = {"hello", "3", "onetwo", NULL, "xyz", "hello"};
    for (size_t i = 0; i < 6; i++) {
        assert_true(client_read_answer(client, "GET", &door->answer));
        if (bodies[i]) assert_true(body_is(&door->answer, bodies[i]));
    }
    assert_int_equal(fake_broker_seen().opened, 11);
    assert_int_equal(fake_broker_seen().cancelled, 0);
    client_close(client);
}

static void test_request_trailers(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "POST /sink" HEAD "Transfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n"
                             "3\r\nabc\r\n0\r\nDigest: sha-256=x\r\nAuthorization: bad\r\nX-Remote-User: root\r\n"
                             "Content-Length: 9\r\n\r\nGET /hello" HEAD "\r\n");
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_true(body_is(&door->answer, "3"));
    assert_string_equal(fake_broker_seen().trailers, "digest: sha-256=x\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_true(body_is(&door->answer, "hello"));
    client_close(client);
}

static void test_bodies_in_drops(void **state)
{
    struct door *door = *state;
    static const char text[] = "POST /echo" HEAD "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n \r\n"
                               "5\r\nworld\r\n0\r\nTrailer: x\r\n\r\n";
    struct client *client = dial(door);
    for (size_t i = 0; i < sizeof text - 1; i++)
        client_send(client, str_of(text + i, 1));
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_true(body_is(&door->answer, "hello world"));
    client_close(client);
}

static bool three_bytes(const struct fake_broker_seen *seen)
{
    return seen->body_bytes == 3;
}

// Both directions at once: the first part of the answer comes before the body is complete.
static void test_both_directions_stream(void **state)
{
    struct door *door = *state;
    char got[4096] = "";
    size_t len = 0;
    struct client *client = dial(door);
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
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "POST /sink" HEAD "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_int_equal(door->answer.status, 100);
    assert_non_null(strstr(fake_broker_seen().headers, "expect: 100-continue\n"));
    client_send_text(client, "12345");
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_true(body_is(&door->answer, "5"));
    // The service says nothing: after a while we do.
    client_send_text(client, "POST /hang" HEAD "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_int_equal(door->answer.status, 100);
    client_close(client);
    // Nobody expects it: 100 from the service goes no further (the next thing is the answer).
    client = dial(door);
    client_send_text(client, "POST /sink" HEAD "Content-Length: 5\r\n\r\n12345");
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_int_equal(door->answer.status, 200);
    client_close(client);
    // Without a credential nobody is asked for a body.
    assert_problem(
        ask(door, "POST /sink HTTP/1.1\r\nHost: " HOST "\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"), 401,
        "unauthenticated");
    assert_false(door->answer.keep_alive);
    assert_problem(ask(door, "GET /hello" HEAD "Expect: something\r\n\r\n"), 417, "expectation-failed");
}

static void test_request_headers_are_rebuilt(void **state)
{
    struct door *door = *state;
    ask(door, "GET /hello?q=%2f..//" HEAD "Connection: x-hop, keep-alive\r\nX-Hop: 1\r\nCookie: a=b\r\n"
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
    struct door *door = *state;
    assert_problem(ask(door, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\n\r\n"), 401, "unauthenticated");
    assert_non_null(strstr(door->answer.head, "www-authenticate: Bearer"));
    assert_true(door->answer.keep_alive);
    assert_problem(ask(door, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: bad\r\n\r\n"), 401,
                   "unauthenticated");
    assert_problem(ask(door, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: weak\r\n\r\n"), 403, "forbidden");
    assert_problem(ask(door, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: away\r\n\r\n"), 503,
                   "unavailable");
    assert_problem(
        ask(door, "GET /hello HTTP/1.1\r\nHost: " FOREIGN "-prod.tunnels.test\r\nAuthorization: good\r\n\r\n"), 404,
        "not-found");
    assert_problem(ask(door, "GET /hello HTTP/1.1\r\nHost: elsewhere.test\r\nAuthorization: good\r\n\r\n"), 404,
                   "not-found");
    assert_int_equal(fake_broker_seen().opened, 0);
    assert_int_equal(ask(door, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: Bearer good\r\n\r\n")->status,
                     200);
    assert_int_equal(ask(door, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nX-Access-Token: good\r\n\r\n")->status, 200);
    // Each request is authorised anew, whatever its connection carried before.
    struct client *client = dial(door);
    client_send_text(client, "GET /hello" HEAD "\r\nGET /hello HTTP/1.1\r\nHost: " HOST "\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 200);
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 401);
    client_close(client);
}

static void test_late_authentication(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client,
                     "POST /sink HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: late\r\nContent-Length: 3\r\n\r\nabc");
    sem_wait(&door->asked);
    loop_post(door->loop, run_late, door);
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_true(body_is(&door->answer, "3"));
    // The client leaves before the answer: nothing is opened, nothing is touched that is gone.
    unsigned opened = fake_broker_seen().opened;
    client_send_text(client, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\nAuthorization: late\r\n\r\n");
    sem_wait(&door->asked);
    client_close(client);
    assert_int_equal(ask(door, "GET /status/204" HEAD "\r\n")->status, 204);
    loop_post(door->loop, run_late, door);
    assert_int_equal(ask(door, "GET /status/204" HEAD "\r\n")->status, 204);
    assert_true(fake_broker_seen().opened >= opened + 2);
}

static void test_webhooks(void **state)
{
    struct door *door = *state;
    const char *text = "POST /webhooks/argo/github HTTP/1.1\r\nHost: " HOST
                       "\r\nX-Hub-Signature-256: sha256=00\r\nContent-Length: 2\r\n\r\n{}";
    assert_int_equal(ask(door, text)->status, 200);
    struct fake_broker_seen seen = fake_broker_seen();
    assert_string_equal(seen.user, "(nobody)");
    assert_non_null(strstr(seen.headers, "x-hub-signature-256: sha256=00\n"));
    int limited = 0;
    for (int i = 0; i < 6; i++)
        limited += ask(door, text)->status == 429;
    assert_true(limited > 0);
    // Another runtime has a bucket of its own; everything else still needs a credential.
    assert_int_equal(ask(door, "GET /webhooks/a/b HTTP/1.1\r\nHost: " ACCOUNT "-other.tunnels.test\r\n\r\n")->status,
                     200);
    assert_int_equal(ask(door, "GET /webhooks HTTP/1.1\r\nHost: " HOST "\r\n\r\n")->status, 401);
    assert_int_equal(ask(door, "GET /webhooks/../x HTTP/1.1\r\nHost: " HOST "\r\n\r\n")->status, 400);
}

// Whatever the cause, an anonymous caller sees the same; where the service has answered, it sees that.
static void test_webhooks_that_reach_nothing(void **state)
{
    struct door *door = *state;
    char text[256];
    for (int cause = TUNNEL_CAUSE_NO_TUNNEL; cause <= TUNNEL_CAUSE_UPSTREAM_FAILED; cause++) {
        snprintf(text, sizeof text,
                 "POST /webhooks/fail/%d HTTP/1.1\r\nHost: " ACCOUNT "-r%d.tunnels.test\r\nContent-Length: 2\r\n\r\n{}",
                 cause, cause);
        const struct client_answer *answer = ask(door, text);
        assert_int_equal(answer->status, 503);
        assert_non_null(strstr(answer->head, "culvert-cause: unavailable\r\n"));
    }
}

static void test_platform_host(void **state)
{
    struct door *door = *state;
    const struct client_answer *answer = ask(
        door, "GET /runtimes/prod/proxy/hello?x=1 HTTP/1.1\r\nHost: platform.test:8443\r\nAuthorization: good\r\n\r\n");
    assert_int_equal(answer->status, 200);
    assert_non_null(strstr(answer->head, "content-security-policy: default-src 'none'; sandbox\r\n"));
    struct fake_broker_seen seen = fake_broker_seen();
    assert_string_equal(seen.path, "/hello?x=1");
    assert_string_equal(seen.account, ACCOUNT);
    assert_string_equal(seen.runtime, "prod");
    assert_non_null(strstr(seen.headers, "x-forwarded-prefix: /runtimes/prod/proxy\n"));
    assert_int_equal(ask(door, "GET /runtimes/prod/proxy/webhooks/a/b HTTP/1.1\r\nHost: platform.test\r\n\r\n")->status,
                     401);
    assert_int_equal(ask(door, "GET /api HTTP/1.1\r\nHost: platform.test\r\nAuthorization: good\r\n\r\n")->status, 404);
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
    struct door *door = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        // What follows must never be taken for a request.
        char text[1024];
        snprintf(text, sizeof text, "%sGET /hello" HEAD "\r\n", cases[i].text);
        struct client *client = dial(door);
        unsigned opened = fake_broker_seen().opened;
        client_send_text(client, text);
        bool whole = client_read_answer(client, "GET", &door->answer);
        if (!whole || door->answer.status != cases[i].status) print_error("case %zu: %d\n", i, door->answer.status);
        assert_true(whole);
        assert_int_equal(door->answer.status, cases[i].status);
        if (cases[i].status == 400) {
            assert_false(door->answer.keep_alive);
            assert_int_equal(client_read_end(client), 0);
            assert_true(fake_broker_seen().opened <= opened + 1);
        }
        client_close(client);
    }
}

static void test_large_heads(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "GET /hello" HEAD "X: ");
    for (int i = 0; i < 40; i++) {
        char filler[1024];
        memset(filler, 'x', sizeof filler);
        client_send(client, str_of(filler, sizeof filler));
    }
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 431);
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
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "GET /hang" HEAD "\r\n");
    fake_broker_wait(one_opened);
    client_close(client);
    fake_broker_wait(one_cancelled);
}

static void test_client_leaves_in_the_middle(void **state)
{
    static const char *const texts[] = {"GET /events" HEAD "\r\n", "POST /echo" HEAD "Content-Length: 9\r\n\r\nabc"};
    struct door *door = *state;
    for (size_t i = 0; i < 2; i++) {
        struct client *client = dial(door);
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
    struct door *door = *state;
    struct client *client = dial(door);
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
    struct door *door = *state;
    struct client *client = dial(door);
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
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "GET /sse-flood" HEAD "\r\n");
    fake_broker_wait(flood_waits);
    // Longer than the limits: another connection is timed out in the meantime.
    struct client *idle = dial(door);
    assert_int_equal(client_read_end(idle), 0);
    client_close(idle);
    idle = dial(door);
    assert_int_equal(client_read_end(idle), 0);
    client_close(idle);
    assert_int_equal(fake_broker_seen().cancelled, 0);
    client_close(client);
}

static void test_timeouts(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "GET /hello HTTP/1.1\r\nHost");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 408);
    client_close(client);
    client = dial(door); // nothing at all
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    client = dial(door); // nothing after an answer
    client_send_text(client, "GET /hello" HEAD "\r\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    client = dial(door); // a body that stops
    client_send_text(client, "POST /sink" HEAD "Content-Length: 10\r\n\r\nabc");
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    fake_broker_wait(one_cancelled);
}

// Reading is paused because the tunnel is full; the client's leaving is noticed all the same.
static void test_client_leaves_while_paused(void **state)
{
    // More than the door reads ahead, less than the kernel holds: otherwise no end could arrive at all.
    struct door *door = *state;
    struct client *client = dial(door);
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
    struct door *door = *state;
    struct client *client = dial(door);
    char *data = mem_zalloc(1000 * 1000);
    int small = 64 * 1024;
    setsockopt(client->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    fake_broker_toggle_sink();
    client_send_text(client, "POST /sink" HEAD "Content-Length: 3\r\n\r\nabc");
    fake_broker_wait(three_bytes);
    fake_broker_toggle_sink();
    assert_true(client_read_answer(client, "POST", &door->answer));
    client_send_text(client, "POST /sink" HEAD "Content-Length: 1000000\r\n\r\n");
    client_send(client, str_of(data, 1000 * 1000));
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_true(body_is(&door->answer, "1000000"));
    fake_broker_wait(a_megabyte);
    mem_free(data);
    client_close(client);
}

static void test_early_answer(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "POST /early" HEAD "Content-Length: 10\r\n\r\nabc");
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_true(body_is(&door->answer, "hello"));
    client_send_text(client, "defghijGET /hello" HEAD "\r\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_true(body_is(&door->answer, "hello"));
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
    struct door *door = *state;
    char bytes[5];
    struct client *client = dial(door);
    // The first bytes may come right behind the head.
    client_send(client, STR("GET /socket" HEAD UPGRADE "Sec-WebSocket-Protocol: chat, x\r\n\r\n\x81\x00"));
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 101);
    assert_non_null(strstr(door->answer.head, "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    assert_non_null(strstr(door->answer.head, "sec-websocket-protocol: chat\r\n"));
    assert_non_null(strstr(door->answer.head, "connection: Upgrade\r\nupgrade: websocket\r\n"));
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
    struct door *door = *state;
    const struct client_answer *answer = ask(door, "GET /refuse" HEAD UPGRADE "\r\n");
    assert_int_equal(answer->status, 403);
    answer = ask(door, "GET /socket" HEAD "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    assert_problem(answer, 426, "websocket-version");
    assert_non_null(strstr(answer->head, "sec-websocket-version: 13\r\n"));
    answer = ask(door, "GET /socket" HEAD "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: short\r\n\r\n");
    assert_problem(answer, 400, "bad-request");
    answer = ask(door, "POST /socket" HEAD UPGRADE "Content-Length: 3\r\n\r\nabc");
    assert_problem(answer, 400, "bad-request");
    answer = ask(door, "GET /socket HTTP/1.1\r\nHost: " HOST "\r\n" UPGRADE "\r\n");
    assert_problem(answer, 401, "unauthenticated");
    // Another protocol is not taken up: the request is an ordinary one.
    answer =
        ask(door, "GET /hello" HEAD "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n");
    assert_int_equal(answer->status, 200);
}

// A service that answers the upgrade with an ordinary success has not switched: the answer is framed, and what follows
// is the next request.
static void test_websocket_that_is_not_switched(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    client_send(client, STR("GET /declined/200" HEAD UPGRADE "\r\nGET /hello" HEAD "\r\n"));
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 200);
    assert_true(door->answer.keep_alive && body_is(&door->answer, "plain"));
    assert_null(strstr(door->answer.head, "upgrade"));
    assert_null(strstr(door->answer.head, "culvert-status"));
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_true(door->answer.status == 200 && body_is(&door->answer, "hello"));
    client_close(client);
    assert_int_equal(fake_broker_seen().body_bytes, 0);
    // Only a success is told in this way.
    static const char *const others[] = {"GET /declined/101" HEAD UPGRADE "\r\n",
                                         "GET /declined/2000" HEAD UPGRADE "\r\n",
                                         "GET /declined/404" HEAD UPGRADE "\r\n"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(ask(door, others[i])->status, 502);
}

static void test_connect_tcp(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    char raw[64] = "";
    client_send_text(client, "GET /tcp/db" HEAD "Connection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 101);
    assert_non_null(strstr(door->answer.head, "upgrade: connect-tcp\r\n"));
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
        assert_problem(ask(door, request), 404, "no-route");
    }
}

// The service's end reaches the client, who may go on all the same.
static void test_service_ends_first(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "GET /tcp/ends-first" HEAD "Connection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 101);
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
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "GET /tcp/ends-first" HEAD "Connection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 101);
    assert_int_equal(client_read_end(client), 3);
    fake_broker_wait(one_cancelled);
    client_close(client);
}

// Its end was taken for a half-close; nobody reads or writes any more, and the reset is seen all the same.
static void test_client_ends_its_half_and_is_reset(void **state)
{
    const struct linger at_once = {.l_onoff = 1};
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "GET /tcp/silent" HEAD "Connection: Upgrade\r\nUpgrade: connect-tcp\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.status, 101);
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
    struct door *door = *state;
    struct client *clients[2];
    for (size_t i = 0; i < 2; i++) {
        clients[i] = dial(door);
        for (int round = 0; round < 2; round++) { // a connection counts once
            client_send_text(clients[i], "GET /hello" HEAD "\r\n");
            assert_true(client_read_answer(clients[i], "GET", &door->answer));
            assert_int_equal(door->answer.status, 200);
        }
    }
    assert_problem(ask(door, "GET /hello" HEAD "\r\n"), 503, "too-many-connections");
    assert_false(door->answer.keep_alive);
    client_close(clients[0]);
    do // its end is noticed in its own time
        ask(door, "GET /hello" HEAD "\r\n");
    while (door->answer.status == 503);
    assert_int_equal(door->answer.status, 200);
    client_close(clients[1]);
}

static void test_connections_of_an_address_are_capped(void **state)
{
    struct door *door = *state;
    struct client *clients[6];
    for (size_t i = 0; i < 6; i++) {
        clients[i] = dial(door);
        client_send_text(clients[i], "GET /hello HTTP/1.1\r\nHost: " HOST "\r\n\r\n");
        assert_true(client_read_answer(clients[i], "GET", &door->answer));
        assert_int_equal(door->answer.status, 401);
    }
    struct client *seventh = dial(door);
    assert_int_equal(client_read_end(seventh), 0);
    client_close(seventh);
    for (size_t i = 0; i < 6; i++)
        client_close(clients[i]);
}

static void run_hold(void *arg)
{
    struct door *door = arg;
    sem_post(&door->done);
    sem_wait(&door->released);
}

static void run_nothing(void *arg)
{
    struct door *door = arg;
    sem_post(&door->done);
}

// They end the connection before they are refused: the answer meets a reset, and there is no end left to be seen.
static void test_who_left_before_the_refusal_holds_no_place(void **state)
{
    struct door *door = *state;
    uint64_t until = clock_mono_ms() + 10000;
    on_door(door, run_hold);
    for (int i = 0; i < 6; i++) {
        struct client *client = dial(door);
        client_send_text(client, "GET /a//b" HEAD "\r\n");
        client_close(client);
    }
    sem_post(&door->released);
    on_door(door, run_nothing);
    do
        (void)ask(door, "GET /hello HTTP/1.1\r\nHost: " HOST "\r\n\r\n");
    while (!door->answer.whole && clock_mono_ms() < until);
    assert_int_equal(door->answer.status, 401);
    while (census_count(door->options.addresses, STR("127.0.0.1")) > 0 && clock_mono_ms() < until)
        on_door(door, run_nothing);
    assert_int_equal(census_count(door->options.addresses, STR("127.0.0.1")), 0);
}

static void test_a_trusted_proxy_has_no_cap_of_an_address(void **state)
{
    struct door *door = *state;
    struct client *clients[3];
    for (size_t i = 0; i < 3; i++) {
        clients[i] = dial(door);
        client_send_text(clients[i], "GET /hello" HEAD "X-Forwarded-For: 1.2.3.4\r\n\r\n");
        assert_true(client_read_answer(clients[i], "GET", &door->answer));
        assert_int_equal(door->answer.status, 200);
        assert_non_null(strstr(fake_broker_seen().headers, "x-forwarded-for: 1.2.3.4, 127.0.0.1\n"));
    }
    for (size_t i = 0; i < 3; i++)
        client_close(clients[i]);
}

// ---- doors of two loops --------------------------------------------------------------------------------------

static void ask_on(struct door *door, struct client *client, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        client_send_text(client, "GET /hello" HEAD "\r\n");
        assert_true(client_read_answer(client, "GET", &door->answer));
        assert_int_equal(door->answer.status, 200);
        assert_true(body_is(&door->answer, "hello"));
    }
}

// Asks until a call was made on that loop.
static void ask_until_on(struct door *door, struct client *client, unsigned loop)
{
    uint64_t until = clock_mono_ms() + 10000;
    do
        ask_on(door, client, 1);
    while (fake_broker_seen().loop != loop && clock_mono_ms() < until);
    assert_int_equal(fake_broker_seen().loop, loop);
}

static void assert_counted(const struct door *door, size_t count)
{
    assert_int_equal(census_count(door->options.addresses, STR("127.0.0.1")), count);
    assert_int_equal(census_count(door->options.accounts, STR(ACCOUNT)), count);
}

static void test_connections_go_to_the_loop_of_their_session(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door), *idle = dial(door);
    ask_on(door, idle, 1);
    fake_broker_set_node(1);
    ask_on(door, client, 50);
    assert_int_equal(fake_broker_seen().loop, 0); // it may not
    atomic_store(&door->may_leave, true);
    ask_until_on(door, client, 1);
    assert_counted(door, 2);
    ask_on(door, client, 50);
    assert_int_equal(fake_broker_seen().loop, 1);
    fake_broker_set_node(0);
    atomic_store(&door->other->may_leave, true);
    ask_until_on(door, client, 0);
    client_send_text(client, "POST /sink" HEAD "Content-Length: 6\r\n\r\nabcdef");
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_true(body_is(&door->answer, "6"));
    assert_counted(door, 2);
    client_close(client);
    client_close(idle);
}

// Pipelined requests are answered in their order, whatever loop takes which.
static void test_nothing_is_lost_on_the_way(void **state)
{
    enum { BURST = 12, ROUNDS = 20 };
    struct door *door = *state;
    struct client *client = dial(door);
    atomic_store(&door->may_leave, true);
    atomic_store(&door->other->may_leave, true);
    for (unsigned round = 0; round < ROUNDS; round++) {
        fake_broker_set_node(round % 2);
        for (unsigned i = 0; i < BURST; i++)
            client_send_text(client, "GET /hello" HEAD "\r\n");
        for (unsigned i = 0; i < BURST; i++) {
            assert_true(client_read_answer(client, "GET", &door->answer));
            assert_true(body_is(&door->answer, "hello"));
        }
    }
    assert_counted(door, 1);
    client_close(client);
}

static void test_a_door_that_has_stopped_ends_whom_it_takes_over(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    uint64_t until = clock_mono_ms() + 10000;
    on_door(door->other, run_stop);
    fake_broker_set_node(1);
    atomic_store(&door->may_leave, true);
    do
        client_send_text(client, "GET /hello" HEAD "\r\n");
    while (client_read_answer(client, "GET", &door->answer) && clock_mono_ms() < until);
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
    while (census_count(door->options.addresses, STR("127.0.0.1")) > 0 && clock_mono_ms() < until)
        on_door(door->other, run_nothing);
    assert_counted(door, 0);
}

// Their allowance is a loop's.
static void test_who_sends_webhooks_stays(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    fake_broker_set_node(1);
    atomic_store(&door->may_leave, true);
    for (int i = 0; i < 1000; i++) {
        client_send_text(client, "POST /webhooks/ns/hello HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 0\r\n\r\n");
        assert_true(client_read_answer(client, "POST", &door->answer));
        assert_int_equal(door->answer.status, 200);
        assert_int_equal(fake_broker_seen().loop, 0);
    }
    client_close(client);
}

// ---- the door ------------------------------------------------------------------------------------------------

static void test_stop_accepting(void **state)
{
    struct door *door = *state;
    struct client *idle = dial(door);
    struct client *busy = dial(door);
    client_send_text(idle, "GET /hello" HEAD "\r\n");
    assert_true(client_read_answer(idle, "GET", &door->answer));
    client_send_text(busy, "POST /sink" HEAD "Content-Length: 6\r\n\r\nabc");
    fake_broker_wait(three_bytes);
    on_door(door, run_stop);
    assert_int_equal(client_read_end(idle), 0);
    client_send_text(busy, "def");
    assert_true(client_read_answer(busy, "POST", &door->answer));
    assert_true(body_is(&door->answer, "6"));
    assert_false(door->answer.keep_alive);
    assert_int_equal(client_read_end(busy), 0);
    client_close(idle);
    client_close(busy);
}

static void test_close_cuts_what_is_left(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    client_send_text(client, "GET /hang" HEAD "\r\n");
    fake_broker_wait(one_opened);
    client_close(client); // tear_down closes the door with whatever is left
    client = dial(door);
    client_send_text(client, "GET /events" HEAD "\r\n");
    char byte;
    client_read_exactly(client, &byte, 1);
    on_door(door, run_close);
    client_read_end(client);
    client_close(client);
    on_door(door, run_create);
}

static void test_tls(void **state)
{
    struct door *door = *state;
    assert_int_equal(ask(door, "GET /hello" HEAD "\r\n")->status, 200);
    assert_non_null(strstr(fake_broker_seen().headers, "x-forwarded-proto: https\n"));
    assert_null(client_connect(door->port, true, "\x02h3"));
    struct client *client = client_connect(door->port, true, "\x08http/1.1");
    assert_non_null(client);
    client_send_text(client, "GET /big/200000" HEAD "Connection: close\r\n\r\n");
    assert_true(client_read_answer(client, "GET", &door->answer));
    assert_int_equal(door->answer.body_len, 200000);
    assert_int_equal(SSL_get_shutdown(client->ssl) & SSL_RECEIVED_SHUTDOWN, 0);
    assert_int_equal(client_read_end(client), 0);
    assert_int_equal(SSL_get_shutdown(client->ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
    client_close(client);
    // Plain text on a TLS port, and a handshake that never comes.
    client = client_connect(door->port, false, NULL);
    client_send_text(client, "GET / HTTP/1.1\r\n\r\n");
    client_read_end(client);
    client_close(client);
    client = client_connect(door->port, false, NULL);
    assert_int_equal(client_read_end(client), 0);
    client_close(client);
}

static void test_tls_streams(void **state)
{
    struct door *door = *state;
    struct client *client = dial(door);
    char *data = mem_zalloc(200 * 1000);
    client_send_text(client, "POST /sink" HEAD "Content-Length: 200000\r\n\r\n");
    client_send(client, str_of(data, 200 * 1000));
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_true(body_is(&door->answer, "200000"));
    mem_free(data);
    client_close(client);
    client = dial(door);
    client_send_text(client, "GET /big/50000000" HEAD "Connection: close\r\n\r\n");
    assert_true(client_read_end(client) > 50000000);
    client_close(client);
    client = dial(door);
    client_send_text(client, "GET /hang" HEAD "\r\n");
    client_close(client);
    fake_broker_wait(one_cancelled);
}

#define WITH(test, how) cmocka_unit_test_setup_teardown(test, how, tear_down)

// A client that sends its body in drops is told 408, and its call is given up.
static void send_too_slowly(struct door *door)
{
    struct client *client = dial(door);
    unsigned cancelled = fake_broker_seen().cancelled;
    client_send_text(client, "POST /sink" HEAD "Content-Length: 100000\r\n\r\nx");
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_problem(&door->answer, 408, "body-too-slow");
    assert_false(door->answer.keep_alive);
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
    struct door *door = *state;
    struct client *client = dial(door);
    fake_broker_toggle_sink();
    client_send_text(client, "POST /sink" HEAD "Content-Length: 3\r\n\r\nx");
    for (int i = 0; i < 3; i++)
        (void)ask(door, "GET /hello" HEAD "\r\n");
    struct client *drops = dial(door);
    client_send_text(drops, "POST /echo" HEAD "Content-Length: 9\r\n\r\n");
    assert_false(client_read_answer(drops, "POST", &door->answer)); // its answer has begun, and is cut short
    client_close(drops);
    fake_broker_toggle_sink();
    client_send_text(client, "yz");
    assert_true(client_read_answer(client, "POST", &door->answer));
    assert_int_equal(door->answer.status, 200);
    client_close(client);
}

static void test_what_may_be_slow(void **state)
{
    struct door *door = *state;
    struct client *grpc = dial(door), *socket = dial(door);
    client_send_text(grpc, "POST /sink" HEAD "Content-Type: application/grpc\r\nContent-Length: 1\r\n\r\n");
    client_send_text(socket, "GET /socket" HEAD UPGRADE "\r\n");
    for (int i = 0; i < 3; i++)
        send_too_slowly(door);
    client_send_text(grpc, "x");
    assert_true(client_read_answer(grpc, "POST", &door->answer));
    assert_int_equal(door->answer.status, 200);
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
        WITH(test_a_door_that_has_stopped_ends_whom_it_takes_over, set_up_pair),
        WITH(test_who_sends_webhooks_stays, set_up_pair),
        WITH(test_stop_accepting, set_up),
        WITH(test_close_cuts_what_is_left, set_up),
        WITH(test_tls, set_up_tls),
        WITH(test_tls_streams, set_up_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
