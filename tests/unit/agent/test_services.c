// Services that are not plain HTTP/1.1: https, with the certificate checked, and raw TCP behind
// /tcp/<name>.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <arpa/inet.h>
#include <cmocka.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/tunnel/tls.h"
#include "base/mem.h"
#include "tests/support/tls_endpoint.h"
#include "tests/unit/agent/scripted_service.h"
#include "tests/unit/agent/tunnel_pair.h"

enum { BIG_BYTES = 4 * 1024 * 1024, CONNECTIONS_MAX = 4 };

// ---- a TLS service on a thread: a script of reads and writes a connection ---------------------------------------

enum behaviour {
    ANSWERS,       // keep-alive, two requests a connection
    ANSWERS_BIG,   // until the end of the connection
    CUTS,          // until the end, which comes without close_notify
    TAKES_UPLOADS, // chunked
};

struct tls_service {
    struct tls_endpoint tls;
    pthread_t thread;
    enum behaviour behaviour;
    unsigned connections;
    size_t received;
    int fds[CONNECTIONS_MAX];
};

static void read_head(SSL *ssl, char *head, size_t cap)
{
    size_t len = 0;
    head[0] = '\0';
    while (!strstr(head, "\r\n\r\n") && len < cap - 1) {
        int n = SSL_read(ssl, head + len, 1);
        if (n <= 0) return;
        len += (size_t)n;
        head[len] = '\0';
    }
}

static void write_all(SSL *ssl, const char *text)
{
    SSL_write(ssl, text, (int)strlen(text));
}

static void serve_connection(struct tls_service *s, SSL *ssl)
{
    static char head[16384], big[BIG_BYTES];
    read_head(ssl, head, sizeof(head));
    if (!head[0]) return;
    if (s->behaviour == ANSWERS) {
        write_all(ssl, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst");
        read_head(ssl, head, sizeof(head));
        write_all(ssl, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsecond");
        SSL_shutdown(ssl);
    } else if (s->behaviour == TAKES_UPLOADS) {
        char tail[5] = "";
        while (memcmp(tail, "0\r\n\r\n", 5) != 0) {
            int n = SSL_read(ssl, big, sizeof(big));
            if (n < 5) return;
            s->received += (size_t)n;
            memcpy(tail, big + n - 5, 5);
        }
        write_all(ssl, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        SSL_shutdown(ssl);
    } else {
        memset(big, 'b', sizeof(big));
        write_all(ssl, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        SSL_write(ssl, big, sizeof(big));
        if (s->behaviour == ANSWERS_BIG) SSL_shutdown(ssl);
    }
}

static void *serve(void *arg)
{
    struct tls_service *s = arg;
    for (int fd; s->connections < CONNECTIONS_MAX && (fd = accept(s->tls.listener, NULL, NULL)) >= 0;) {
        SSL *ssl = SSL_new(s->tls.ctx);
        s->connections++;
        SSL_set_fd(ssl, fd);
        if (SSL_accept(ssl) == 1) serve_connection(s, ssl);
        SSL_free(ssl);
        close(fd);
    }
    return NULL;
}

static void service_start(struct tls_service *s, enum behaviour behaviour, const char *names)
{
    memset(s, 0, sizeof(*s));
    s->behaviour = behaviour;
    tls_endpoint_init(&s->tls, names);
    pthread_create(&s->thread, NULL, serve, s);
}

static void service_stop(struct tls_service *s)
{
    tls_endpoint_wake(&s->tls);
    pthread_join(s->thread, NULL);
    tls_endpoint_finish(&s->tls);
}

// ---- the agent ---------------------------------------------------------------------------------------------------

static struct tunnel_pair *pair_to(const struct tls_service *s)
{
    struct tunnel_pair *pair = mem_zalloc(sizeof(*pair));
    char services[64];
    struct error err = {0};
    snprintf(services, sizeof(services), "svc=https://127.0.0.1:%u", s->tls.port);
    tunnel_pair_init(pair);
    pair->tls = agent_tls_create(&(struct agent_tls_options){.ca_file = s->tls.ca_file, .pins = ""}, &err);
    if (!pair->tls) fail_msg("%s", err.text);
    tunnel_pair_open(pair, services, "");
    return pair;
}

static void pair_destroy(struct tunnel_pair *pair)
{
    struct agent_tls *tls = pair->tls;
    tunnel_pair_finish(pair);
    agent_tls_destroy(tls);
    mem_free(pair);
}

static struct pair_call *get(struct tunnel_pair *pair)
{
    return tunnel_pair_call(pair, &(struct pair_request){.method = "GET", .path = "/services/svc/x"});
}

static void test_https_keeps_its_connection(void **state)
{
    (void)state;
    static struct tls_service s;
    service_start(&s, ANSWERS, "IP:127.0.0.1");
    struct tunnel_pair *pair = pair_to(&s);
    struct pair_call *first = get(pair);
    tunnel_pair_run_to_close(first);
    assert_int_equal(first->status, 200);
    assert_string_equal(pair_text(&first->body), "first");
    struct pair_call *second = get(pair);
    tunnel_pair_run_to_close(second);
    assert_string_equal(pair_text(&second->body), "second");
    assert_int_equal(s.connections, 1);
    pair_destroy(pair);
    service_stop(&s);
}

static bool window_is_full(void *arg)
{
    const struct tunnel_pair *pair = arg;
    return pair->call[0].held == 65536;
}

static void test_https_answer_that_ends_with_the_connection(void **state)
{
    (void)state;
    static struct tls_service s;
    service_start(&s, ANSWERS_BIG, "IP:127.0.0.1");
    struct tunnel_pair *pair = pair_to(&s);
    struct pair_call *call = get(pair);
    call->hold = true; // it stands for a while: TLS holds what was read, and nothing is lost
    tunnel_pair_run(pair, window_is_full, pair);
    tunnel_pair_release(call);
    tunnel_pair_run_to_close(call);
    assert_true(call->end);
    assert_int_equal(call->body.len, BIG_BYTES);
    pair_destroy(pair);
    service_stop(&s);
}

static void test_https_answer_that_is_cut(void **state)
{
    (void)state;
    static struct tls_service s;
    service_start(&s, CUTS, "IP:127.0.0.1");
    struct tunnel_pair *pair = pair_to(&s);
    struct pair_call *call = get(pair);
    tunnel_pair_run_to_close(call);
    assert_false(call->end);
    assert_int_equal(call->code, NGHTTP2_INTERNAL_ERROR);
    pair_destroy(pair);
    service_stop(&s);
}

static void test_https_upload(void **state)
{
    (void)state;
    static struct tls_service s;
    service_start(&s, TAKES_UPLOADS, "IP:127.0.0.1");
    struct tunnel_pair *pair = pair_to(&s);
    struct pair_call *call =
        tunnel_pair_call(pair, &(struct pair_request){.method = "POST", .path = "/services/svc/x", .body = true});
    char *bytes = mem_zalloc(BIG_BYTES);
    tunnel_pair_write(call, bytes, BIG_BYTES, true);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_true(s.received > BIG_BYTES);
    mem_free(bytes);
    pair_destroy(pair);
    service_stop(&s);
}

static void test_https_to_a_stranger(void **state)
{
    (void)state;
    static struct tls_service s;
    service_start(&s, ANSWERS, "IP:127.0.0.2");
    struct tunnel_pair *pair = pair_to(&s);
    struct pair_call *call = get(pair);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 502);
    assert_non_null(strstr(pair_text(&call->heads), "dial-failed"));
    pair_destroy(pair);
    service_stop(&s);
}

// ---- raw TCP -------------------------------------------------------------------------------------------------------

struct tcp_rig {
    struct tunnel_pair pair;
    struct scripted_service *service;
};

static struct tcp_rig *tcp_create(const struct scripted_step *steps, size_t count)
{
    struct tcp_rig *rig = mem_zalloc(sizeof(*rig));
    static char allow[64];
    tunnel_pair_init(&rig->pair);
    rig->service = scripted_service_create(loop_uv(rig->pair.loop), steps, count);
    snprintf(allow, sizeof(allow), "db=127.0.0.1:%u", scripted_service_port(rig->service));
    rig->pair.tcp = allow;
    tunnel_pair_open(&rig->pair, "", "");
    return rig;
}

static void tcp_destroy(struct tcp_rig *rig)
{
    scripted_service_destroy(rig->service);
    tunnel_pair_finish(&rig->pair);
    mem_free(rig);
}

static struct pair_call *connect_tcp(struct tcp_rig *rig, const char *path)
{
    return tunnel_pair_call(
        &rig->pair, &(struct pair_request){.method = "CONNECT", .protocol = "connect-tcp", .path = path, .body = true});
}

static bool got_all(void *arg)
{
    const struct tcp_rig *rig = arg;
    return strlen(scripted_service_received(rig->service)) == BIG_BYTES + 4;
}

// The service's half ends first; what the client still has to say arrives whole, although the
// stream is over then.
static void test_tcp_halves(void **state)
{
    (void)state;
    static const struct scripted_step steps[] = {{.wait = "hello", .answer = "bye", .end = true}};
    struct tcp_rig *rig = tcp_create(steps, 1);
    struct pair_call *call = connect_tcp(rig, "/tcp/db");
    char *bytes = mem_alloc(BIG_BYTES);
    memset(bytes, 'c', BIG_BYTES);
    memcpy(bytes, "hello", 5);
    tunnel_pair_write(call, bytes, BIG_BYTES, false);
    tunnel_pair_write(call, "last", 4, true);
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 200);
    assert_int_equal(call->code, 0);
    assert_string_equal(pair_text(&call->body), "bye");
    tunnel_pair_run(&rig->pair, got_all, rig);
    assert_string_equal(scripted_service_received(rig->service) + BIG_BYTES, "last");
    mem_free(bytes);
    tcp_destroy(rig);
}

static bool closes_under_writes(void *arg)
{
    struct pair_call *call = arg;
    if (!call->closed && call->end && call->up_at == call->up.len) tunnel_pair_write(call, "more", 4, false);
    return call->closed;
}

// One that is gone altogether takes nothing more: whoever writes on is told.
static void test_tcp_service_that_is_gone(void **state)
{
    (void)state;
    static const struct scripted_step steps[] = {{.wait = "hello", .answer = "bye", .close = true}};
    struct tcp_rig *rig = tcp_create(steps, 1);
    struct pair_call *call = connect_tcp(rig, "/tcp/db");
    tunnel_pair_write(call, "hello", 5, false);
    tunnel_pair_run(&rig->pair, closes_under_writes, call);
    assert_string_equal(pair_text(&call->body), "bye");
    assert_true(call->end);
    assert_int_equal(call->code, NGHTTP2_INTERNAL_ERROR);
    tcp_destroy(rig);
}

static void test_tcp_refusals(void **state)
{
    (void)state;
    struct tcp_rig *rig = tcp_create(NULL, 0);
    static const char *const paths[] = {"/tcp/other", "/tcp", "/tcp/db/x", "/services/db"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct pair_call *call = connect_tcp(rig, paths[i]);
        tunnel_pair_run_to_close(call);
        assert_in_range(call->status, 403, 404);
    }
    // Neither HTTP nor a WebSocket gets at a raw service.
    struct pair_call *call = tunnel_pair_call(&rig->pair, &(struct pair_request){.method = "GET", .path = "/tcp/db"});
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 403);
    call = tunnel_pair_call(
        &rig->pair,
        &(struct pair_request){.method = "CONNECT", .protocol = "websocket", .path = "/tcp/db", .body = true});
    tunnel_pair_run_to_close(call);
    assert_int_equal(call->status, 403);
    assert_int_equal(scripted_service_connections(rig->service), 0);
    tcp_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_https_keeps_its_connection),
        cmocka_unit_test(test_https_answer_that_ends_with_the_connection),
        cmocka_unit_test(test_https_answer_that_is_cut),
        cmocka_unit_test(test_https_upload),
        cmocka_unit_test(test_https_to_a_stranger),
        cmocka_unit_test(test_tcp_halves),
        cmocka_unit_test(test_tcp_service_that_is_gone),
        cmocka_unit_test(test_tcp_refusals),
    };
    signal(SIGPIPE, SIG_IGN); // as the agent does: a service may be gone when it is written to
    return cmocka_run_group_tests(tests, NULL, NULL);
}
