// The agent's link against a TLS server of the test's own, on a thread: what is trusted, how an upgrade is refused, and
// the pipe behind it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <arpa/inet.h>
#include <cmocka.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/tunnel/life.h"
#include "agent/tunnel/link.h"
#include "agent/tunnel/platform_url.h"
#include "base/clock.h"
#include "base/loop/loop.h"
#include "base/mem.h"
#include "tests/support/tls_endpoint.h"
#include "tunnel/wire/handshake.h"
#include "tunnel/wire/ws_frame.h"
#include "tunnel/wire/ws_handshake.h"

enum { PIPE_BYTES = 3 * 1024 * 1024 };

// ---- the server ------------------------------------------------------------------------------------------------

struct server {
    struct tls_endpoint tls;
    pthread_t thread;
    const char *answer; // instead of 101
    const char *pins;   // that the agent asks for
    const char *token;  // that the agent seals; NULL: none
    const char *proves; // that it knows this token; NULL: nothing
    bool was_known;     // what the agent said was that token
    bool is_proxy;      // reads a CONNECT in front of TLS
    uint16_t close_code;
    bool echo;
    char request[8192];
    char connect[1024];
    size_t echoed;
    struct ws_frame_event last;
};

static void server_init(struct server *s, const char *names)
{
    memset(s, 0, sizeof(*s));
    tls_endpoint_init(&s->tls, names);
}

// Echoes what comes until CLOSE; answers a PING as it must.
static void serve_frames(struct server *s, SSL *ssl)
{
    static uint8_t buffer[65536], frame[65536 + 14];
    struct ws_frame_decoder decoder;
    ws_frame_decoder_init(&decoder, true);
    for (;;) {
        int n = SSL_read(ssl, buffer, sizeof(buffer));
        size_t at = 0;
        if (n <= 0) return;
        while (at < (size_t)n) {
            struct ws_frame_event event;
            size_t used = 0, len = 0;
            if (ws_frame_decode(&decoder, buffer + at, (size_t)n - at, &used, &event, NULL)) return;
            at += used;
            if (event.type == WS_FRAME_EVENT_PING)
                len = ws_frame_control(frame, WS_FRAME_PONG, event.at, event.len, NULL);
            if (event.type == WS_FRAME_EVENT_DATA && s->echo) {
                len = ws_frame_header(frame, WS_FRAME_BINARY, event.len, NULL);
                memcpy(frame + len, event.at, event.len);
                len += event.len;
                s->echoed += event.len;
            }
            if (len) SSL_write(ssl, frame, (int)len);
            if (event.type == WS_FRAME_EVENT_CLOSE) {
                s->last = event;
                return;
            }
        }
    }
}

// As the platform does it: by the hash of the token alone.
static void prove(struct server *s, SSL *ssl, char *out, size_t cap)
{
    struct token known, said;
    uint8_t binding[WIRE_BINDING_BYTES];
    char proof[WIRE_PROOF_BYTES];
    const char *sealed = strstr(s->request, "Authorization: Culvert ");
    if (token_parse(str_c(s->proves), &known, NULL) || !wire_proof_bind(ssl, binding)) return;
    s->was_known = sealed &&
                   wire_proof_unseal(str_of(sealed + strlen("Authorization: Culvert "), TOKEN_TEXT_BYTES - 1),
                                     known.secret_sha256, binding, &said, NULL) == ERROR_NONE &&
                   memcmp(&said, &known, sizeof(said)) == 0;
    wire_proof_make(known.secret_sha256, binding, proof);
    snprintf(out, cap, WIRE_HEADER_PROOF ": %s\r\n", proof);
}

static void serve_upgrade(struct server *s, SSL *ssl)
{
    char accept[WS_HANDSHAKE_ACCEPT_BYTES], text[512];
    uint8_t frame[140];
    size_t len = 0;
    while (!strstr(s->request, "\r\n\r\n") && len < sizeof(s->request) - 1) {
        int n = SSL_read(ssl, s->request + len, (int)(sizeof(s->request) - 1 - len));
        if (n <= 0) return;
        len += (size_t)n;
    }
    if (s->answer) {
        SSL_write(ssl, s->answer, (int)strlen(s->answer));
        return;
    }
    ws_handshake_accept(str_of(strstr(s->request, "Sec-WebSocket-Key: ") + 19, 24), accept);
    char proof[32 + WIRE_PROOF_BYTES] = "";
    if (s->proves) prove(s, ssl, proof, sizeof(proof));
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: " WIRE_TUNNEL_SUBPROTOCOL "\r\n%s\r\n",
                     accept, proof);
    SSL_write(ssl, text, n);
    if (s->close_code) SSL_write(ssl, frame, (int)ws_frame_close(frame, s->close_code, STR("bye"), NULL));
    serve_frames(s, ssl);
}

static void *serve(void *arg)
{
    struct server *s = arg;
    int fd = accept(s->tls.listener, NULL, NULL);
    if (fd < 0) return NULL;
    if (s->is_proxy) {
        static const char ok[] = "HTTP/1.1 200 Connected\r\n\r\n";
        ssize_t n = read(fd, s->connect, sizeof(s->connect) - 1);
        if (n < 0 || write(fd, ok, sizeof(ok) - 1) < 0) return NULL;
    }
    SSL *ssl = SSL_new(s->tls.ctx);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1) serve_upgrade(s, ssl);
    SSL_free(ssl);
    close(fd);
    return NULL;
}

// ---- the client ------------------------------------------------------------------------------------------------

struct client {
    struct loop *loop;
    struct agent_link *link;
    bool opened, ended;
    struct agent_link_end end;
    size_t to_send, got;
    bool mismatch;
    uint64_t rtt_us;
};

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 7 + i / 255);
}

static void on_open(void *arg)
{
    struct client *c = arg;
    c->opened = true;
}

static void on_bytes(void *arg, const uint8_t *at, size_t len)
{
    struct client *c = arg;
    for (size_t i = 0; i < len; i++)
        c->mismatch |= at[i] != byte_at(c->got + i);
    c->got += len;
    if (c->got < PIPE_BYTES) return;
    agent_link_close(c->link, WS_FRAME_CLOSE_GOING_AWAY, STR("enough"));
    c->ended = true;
    loop_stop(c->loop);
}

static size_t on_fill(void *arg, uint8_t *out, size_t cap)
{
    struct client *c = arg;
    size_t n = c->to_send < cap ? c->to_send : cap, done = PIPE_BYTES - c->to_send;
    for (size_t i = 0; i < n; i++)
        out[i] = byte_at(done + i);
    c->to_send -= n;
    return n;
}

static void on_rtt(void *arg, uint64_t rtt_us)
{
    struct client *c = arg;
    c->rtt_us = rtt_us;
}

static void on_end(void *arg, const struct agent_link_end *end)
{
    struct client *c = arg;
    c->ended = true;
    c->end = *end;
    loop_stop(c->loop);
}

// Runs one link to its end. ca_file NULL: the server's own.
static void run(struct server *s, const char *ca_file, const char *host, size_t to_send, struct client *out)
{
    static const struct agent_link_events events = {on_open, on_bytes, on_fill, on_rtt, on_end};
    struct error err = {0};
    struct agent_tls *tls = agent_tls_create(
        &(struct agent_tls_options){.ca_file = ca_file ? ca_file : s->tls.ca_file, .pins = s->pins ? s->pins : ""},
        &err);
    const struct http_header headers[] = {{STR("Authorization"), STR("Bearer secret")}};
    struct agent_link_target target = {
        .host = str_c(host), .port = s->tls.port, .path = STR("/tunnel/v1"), .headers = headers, .header_count = 1};
    if (s->token) {
        target.header_count = 0;
        target.sealed_token = str_c(s->token);
    }
    if (s->is_proxy) {
        target.proxy_host = STR("127.0.0.1");
        target.proxy_port = s->tls.port;
    }
    memset(out, 0, sizeof(*out));
    out->to_send = to_send;
    out->loop = loop_create("test", 0);
    pthread_create(&s->thread, NULL, serve, s);
    assert_int_equal(agent_link_start(loop_uv(out->loop), tls, &target, &events, out, &out->link, &err), ERROR_NONE);
    agent_tls_destroy(tls); // the connection has what it needs
    loop_run(out->loop);
    assert_true(out->ended);
    loop_destroy(out->loop);
    tls_endpoint_wake(&s->tls); // if nobody came
    pthread_join(s->thread, NULL);
}

static void server_finish(struct server *s)
{
    tls_endpoint_finish(&s->tls);
}

// ---- tests -----------------------------------------------------------------------------------------------------

static void test_pipe(void **state)
{
    (void)state;
    static struct server s;
    struct client c;
    server_init(&s, "DNS:localhost,IP:127.0.0.1");
    s.echo = true;
    uint64_t start = clock_mono_ms();
    run(&s, NULL, "localhost", PIPE_BYTES, &c);
    assert_true(c.opened);
    // Nothing waited for the liveness timer to get it going again.
    assert_true(clock_mono_ms() - start < AGENT_LIFE_DEAD_AFTER_MS - 1000);
    assert_int_equal(c.got, PIPE_BYTES);
    assert_false(c.mismatch);
    assert_true(c.rtt_us > 0);
    assert_int_equal(s.last.close_code, WS_FRAME_CLOSE_GOING_AWAY);
    assert_non_null(strstr(s.request, "GET /tunnel/v1 HTTP/1.1\r\n"));
    assert_non_null(strstr(s.request, "Authorization: Bearer secret\r\n"));
    assert_non_null(strstr(s.request, "Sec-WebSocket-Protocol: " WIRE_TUNNEL_SUBPROTOCOL "\r\n"));
    server_finish(&s);
}

// Whoever has the name and a certificate for it, but is not the platform: it proves nothing and learns nothing.
static void test_sealed_tokens(void **state)
{
    (void)state;
    static const char token[] =
        "0123456789abcdef01234567.abababababababababababababababababababababababababababababababab";
    static const char other[] =
        "0123456789abcdef01234567.cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd";
    static const char *const proves[] = {token, NULL, other};
    for (size_t i = 0; i < sizeof(proves) / sizeof(proves[0]); i++) {
        static struct server s;
        struct client c;
        server_init(&s, "DNS:localhost");
        s.echo = true;
        s.token = token;
        s.proves = proves[i];
        run(&s, NULL, "localhost", PIPE_BYTES, &c);
        assert_int_equal(c.opened, i == 0);
        assert_int_equal(s.was_known, i == 0);
        if (i == 0) assert_int_equal(c.got, PIPE_BYTES);
        if (i > 0) assert_non_null(strstr(c.end.error.text, "did not prove"));
        assert_non_null(strstr(s.request, "\r\nAuthorization: Culvert 0123456789abcdef01234567."));
        assert_null(strstr(s.request, token + TOKEN_ID_BYTES)); // the secret
        server_finish(&s);
    }
}

static void test_through_a_proxy(void **state)
{
    (void)state;
    static struct server s;
    struct client c;
    char line[64];
    server_init(&s, "DNS:platform.example");
    s.is_proxy = s.echo = true;
    run(&s, NULL, "platform.example", PIPE_BYTES, &c);
    assert_int_equal(c.got, PIPE_BYTES);
    snprintf(line, sizeof(line), "CONNECT platform.example:%u HTTP/1.1\r\n", s.tls.port);
    assert_int_equal(strncmp(s.connect, line, strlen(line)), 0);
    assert_null(strstr(s.connect, "secret"));
    server_finish(&s);
}

static void test_certificates_that_are_not_trusted(void **state)
{
    (void)state;
    static struct server s, other;
    struct client c;
    server_init(&other, "DNS:localhost,IP:127.0.0.1");
    server_init(&s, "DNS:localhost,IP:127.0.0.1");
    run(&s, other.tls.ca_file, "localhost", 0, &c);
    assert_false(c.opened);
    assert_non_null(strstr(c.end.error.text, "not trusted"));
    assert_string_equal(s.request, ""); // the token was not sent
    server_finish(&s);

    server_init(&s, "DNS:localhost,IP:127.0.0.1");
    run(&s, "", "localhost", 0, &c); // the system's CAs do not know it
    assert_non_null(strstr(c.end.error.text, "not trusted"));
    server_finish(&s);
    server_finish(&other);
}

static void test_certificate_for_another_name(void **state)
{
    (void)state;
    static const struct {
        const char *names, *host;
    } cases[] = {{"DNS:example.org", "localhost"},
                 {"DNS:127.0.0.1", "127.0.0.1"},
                 {"IP:127.0.0.2", "127.0.0.1"},
                 {"DNS:local*", "localhost"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static struct server s;
        struct client c;
        server_init(&s, cases[i].names);
        run(&s, NULL, cases[i].host, 0, &c);
        assert_false(c.opened);
        if (!strstr(c.end.error.text, "not trusted")) fail_msg("%s: %s", cases[i].names, c.end.error.text);
        assert_string_equal(s.request, "");
        server_finish(&s);
    }
}

static void test_refused_upgrades(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        int status;
        int64_t retry_after_ms;
    } cases[] = {
        {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", 401, -1},
        {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403, -1},
        {"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", 503, 3000},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, -1},
        {"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n", 0, -1},
        {"SSH-2.0-OpenSSH_9\r\n\r\n", 0, -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static struct server s;
        struct client c;
        server_init(&s, "DNS:localhost");
        s.answer = cases[i].answer;
        run(&s, NULL, "localhost", 0, &c);
        assert_false(c.opened);
        assert_int_equal(c.end.status, cases[i].status);
        assert_int_equal(c.end.retry_after_ms, cases[i].retry_after_ms);
        server_finish(&s);
    }
}

static void test_close_by_the_platform(void **state)
{
    (void)state;
    static struct server s;
    struct client c;
    server_init(&s, "DNS:localhost");
    s.close_code = 1008;
    run(&s, NULL, "localhost", 0, &c);
    assert_true(c.opened);
    assert_non_null(strstr(c.end.error.text, "1008 bye"));
    assert_int_equal(s.last.close_code, 1008); // echoed
    server_finish(&s);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    static struct server s;
    struct client c;
    server_init(&s, "DNS:localhost");
    close(s.tls.listener);
    s.tls.listener = -1;
    run(&s, NULL, "127.0.0.1", 0, &c);
    assert_non_null(strstr(c.end.error.text, "Connection refused"));
    server_finish(&s);
}

static void test_platform_url(void **state)
{
    (void)state;
    struct platform_url u;
    assert_int_equal(platform_url_parse(STR("wss://example.org"), STR_EMPTY, STR_EMPTY, &u, NULL), ERROR_NONE);
    assert_string_equal(u.host, "example.org");
    assert_int_equal(u.port, 443);
    assert_string_equal(u.path, "/tunnel/v1");
    assert_string_equal(u.proxy_host, "");
    assert_int_equal(platform_url_parse(STR("wss://[::1]:8443/a/"), STR("http://proxy:3128/"), STR("x,.org"), &u, NULL),
                     ERROR_NONE);
    assert_string_equal(u.host, "::1");
    assert_int_equal(u.port, 8443);
    assert_string_equal(u.path, "/a/tunnel/v1");
    assert_string_equal(u.proxy_host, "proxy");
    assert_int_equal(u.proxy_port, 3128);
    assert_int_equal(
        platform_url_parse(STR("wss://a.example.org"), STR("http://p"), STR("other, example.org"), &u, NULL),
        ERROR_NONE);
    assert_string_equal(u.proxy_host, "");
    assert_int_equal(platform_url_parse(STR("wss://notexample.org"), STR("http://p"), STR("example.org"), &u, NULL),
                     ERROR_NONE);
    assert_string_equal(u.proxy_host, "p");
    static const char *const bad[] = {"ws://x", "https://x", "wss://", "wss://x:70000", "wss://u@x", "wss://x/?a", ""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (platform_url_parse(str_c(bad[i]), STR_EMPTY, STR_EMPTY, &u, NULL) == ERROR_NONE)
            fail_msg("%s was accepted", bad[i]);
    assert_int_not_equal(platform_url_parse(STR("wss://x"), STR("socks5://p"), STR_EMPTY, &u, NULL), ERROR_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_sealed_tokens),
        cmocka_unit_test(test_through_a_proxy),
        cmocka_unit_test(test_certificates_that_are_not_trusted),
        cmocka_unit_test(test_certificate_for_another_name),
        cmocka_unit_test(test_refused_upgrades),
        cmocka_unit_test(test_close_by_the_platform),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_platform_url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
