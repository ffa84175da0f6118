// HTTP/2 clients of the ingress listener: whatever frames come, in whatever order and pieces,
// nothing that they took is left behind, what waits is bounded, and a client that only makes work
// is cut. The listener's own code runs; the socket with its TLS is this file's, and calls go to
// tests/unit/server/fake_broker.c.
//
// An input is a sequence of steps: a byte for what to do, its arguments behind it.
//   0x00-0x7f  type flags stream length payload...    a frame
//   0x80-0xbf  type flags stream length times payload...   that frame so many times eight
//   0xc0-0xdf  length bytes...    as they are
//   0xe0-0xef  the client takes what there is, or nothing from now on (odd)
//   0xf0-0xff  the loop turns
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "server/ingress/ingress.h"
#include "server/ingress/ingress_connection.h"
#include "server/ingress/ingress_http2_state.h"
#include "tests/unit/server/fake_broker.h"

enum {
    STREAMS_MAX = 8,
    BUFFERED_MAX = 256 * 1024,
    FRAME_MAX = 16 * 1024 + 9,
    TURNS_MAX = 200,
    SLACK_BYTES = 64 * 1024, // above a bound: what one turn may add
};

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

// ---- the socket ------------------------------------------------------------------------------------------------

struct tls_stream {
    struct tls_stream_events events;
    void *arg;
    uv_tcp_t *tcp;
    size_t queued;
    uint64_t sent;
    bool takes_nothing, full, reading, shut, closed;
    void (*on_closed)(void *arg);
    void *closed_arg;
};

static struct tls_stream *stream; // the one of this input
static bool framed;               // it sent whole frames only, so far

void tls_stream_pool_init(struct tls_stream_pool *pool, uv_loop_t *loop)
{
    turn_init(&pool->turn, loop);
}

void tls_stream_pool_close(struct tls_stream_pool *pool, void (*on_closed)(void *arg), void *arg)
{
    turn_close(&pool->turn, on_closed, arg);
}

struct tls_stream *tls_stream_create(struct tls_stream_pool *pool, uv_tcp_t *tcp, SSL_CTX *ssl,
                                     uint64_t handshake_timeout_ms, const struct tls_stream_events *events, void *arg)
{
    (void)pool;
    (void)ssl;
    (void)handshake_timeout_ms;
    stream = mem_zalloc(sizeof *stream);
    *stream = (struct tls_stream){.events = *events, .arg = arg, .tcp = tcp};
    tcp->data = stream;
    return stream;
}

void tls_stream_read_start(struct tls_stream *s)
{
    s->reading = true;
}

void tls_stream_read_stop(struct tls_stream *s)
{
    s->reading = false;
}

bool tls_stream_write(struct tls_stream *s, const void *at, size_t len)
{
    assert(!s->closed && !s->shut && at && len > 0);
    *(s->takes_nothing ? &s->queued : &s->sent) += len;
    assert(s->queued <= TLS_STREAM_QUEUE_HIGH + SLACK_BYTES);
    s->full = s->queued >= TLS_STREAM_QUEUE_HIGH;
    return !s->full;
}

void tls_stream_shutdown(struct tls_stream *s)
{
    s->shut = true;
}

static void on_tcp_closed(uv_handle_t *handle)
{
    struct tls_stream *s = handle->data;
    if (s->on_closed) s->on_closed(s->closed_arg);
    mem_free(s->tcp);
    mem_free(s);
    stream = NULL;
}

void tls_stream_close(struct tls_stream *s, void (*on_closed)(void *arg), void *arg)
{
    assert(!s->closed);
    s->closed = true;
    s->on_closed = on_closed;
    s->closed_arg = arg;
    uv_close((uv_handle_t *)s->tcp, on_tcp_closed);
}

void tls_stream_be_patient(struct tls_stream *s)
{
    (void)s;
}

size_t tls_stream_queued(const struct tls_stream *s)
{
    return s->queued;
}

uint64_t tls_stream_sent_bytes(const struct tls_stream *s)
{
    return s->sent;
}

// HTTP/2 connections stay where they are.
bool tls_stream_take_apart(struct tls_stream *of, struct tls_stream_rest *out)
{
    (void)of;
    (void)out;
    return false;
}

struct tls_stream *tls_stream_resume(struct tls_stream_pool *pool, uv_tcp_t *tcp, SSL *ssl,
                                     const struct tls_stream_events *events, void *arg)
{
    (void)pool;
    (void)tcp;
    (void)ssl;
    (void)events;
    (void)arg;
    abort();
}

bool tls_stream_is_shut(const struct tls_stream *s)
{
    return s->shut && s->queued == 0;
}

struct str tls_stream_protocol(const struct tls_stream *s)
{
    (void)s;
    return STR("h2");
}

void tls_stream_peer(const struct tls_stream *s, char *out)
{
    (void)s;
    snprintf(out, INET6_ADDRSTRLEN, "192.0.2.1");
}

// ---- the listener -----------------------------------------------------------------------------

static struct loop *loop;
static struct ingress *ingress;

static void authenticate(void *ctx, unsigned loop_index, const struct call_credential *credential, struct str remote,
                         call_authenticated done, void *arg)
{
    (void)remote;
    (void)ctx;
    (void)loop_index;
    struct error err;
    if (str_eq(credential->token, STR("good"))) {
        done(arg, NULL,
             &(struct call_principal){
                 .account_id = STR("0123456789abcdef01234567"), .user_id = STR("u"), .user_name = STR("user")});
    } else {
        (void)error_set(&err, ERROR_UNAUTHENTICATED, "no");
        done(arg, &err, NULL);
    }
}

static void open_listener(void)
{
    struct error err;
    log_set_level(LOG_ERROR);
    loop = loop_create("fuzz", 0);
    ingress = ingress_create(loop,
                             &(struct ingress_options){
                                 .listen = "127.0.0.1:0",
                                 .calls.tunnel_domain = "tunnels.test",
                                 .http2_streams_max = STREAMS_MAX,
                                 .buffered_bytes_max = BUFFERED_MAX,
                                 .calls.authenticate = authenticate,
                             },
                             &err);
    assert(ingress);
}

static void turn_over(void)
{
    uv_run(loop_uv(loop), UV_RUN_NOWAIT);
}

// ---- the client ------------------------------------------------------------------------------------------------

struct steps {
    const uint8_t *at;
    size_t len;
};

static unsigned take(struct steps *steps)
{
    if (steps->len == 0) return 0;
    steps->len--;
    return *steps->at++;
}

static const uint8_t *take_bytes(struct steps *steps, size_t *len)
{
    const uint8_t *at = steps->at;
    if (*len > steps->len) *len = steps->len;
    steps->at += *len;
    steps->len -= *len;
    return at;
}

static void send_bytes(const uint8_t *at, size_t len)
{
    // A copy of the exact size, so that a sanitizer sees a read past its end.
    uint8_t *exact = mem_dup(at, len);
    if (stream && !stream->closed && len > 0) stream->events.on_data(stream->arg, (const char *)exact, len);
    mem_free(exact);
    const struct ingress_connection *connection = ingress->first;
    if (connection && connection->state == INGRESS_SERVING)
        assert(((const struct ingress_http2 *)connection->front)->streams <= STREAMS_MAX);
    assert(ingress->buffered_bytes <= 2 * BUFFERED_MAX + SLACK_BYTES);
}

static bool is_given_up(void)
{
    const struct ingress_connection *connection = ingress->first;
    if (!connection || connection->state != INGRESS_SERVING || connection->cut_reason) return true;
    return !nghttp2_session_want_read(((const struct ingress_http2 *)connection->front)->session);
}

static void send_frame(struct steps *steps, bool repeated)
{
    uint8_t frame[9 + UINT8_MAX] = {0};
    frame[3] = (uint8_t)take(steps);
    frame[4] = (uint8_t)take(steps);
    frame[8] = (uint8_t)take(steps);
    size_t len = take(steps);
    unsigned times = repeated ? 8 * take(steps) : 1;
    const uint8_t *payload = take_bytes(steps, &len);
    frame[2] = (uint8_t)len;
    if (len) memcpy(frame + 9, payload, len);
    for (unsigned i = 0; i < times; i++)
        send_bytes(frame, 9 + len);
    bool is_noise = frame[3] != NGHTTP2_DATA && frame[3] != NGHTTP2_HEADERS && frame[3] != NGHTTP2_CONTINUATION;
    if (!is_noise || !framed || times <= INGRESS_HTTP2_ABUSE_MAX) return;
    turn_over(); // a last word may have to leave
    assert(is_given_up());
}

static void take_nothing(bool nothing)
{
    if (!stream || stream->closed) return;
    stream->takes_nothing = nothing;
    if (nothing) return;
    bool was_full = stream->full;
    stream->sent += stream->queued;
    stream->queued = 0;
    stream->full = false;
    if (was_full) stream->events.on_drain(stream->arg);
}

static void run_step(struct steps *steps)
{
    unsigned what = take(steps);
    if (what < 0xc0) {
        send_frame(steps, what >= 0x80);
    } else if (what < 0xe0) {
        size_t len = take(steps);
        const uint8_t *at = take_bytes(steps, &len);
        framed = false;
        send_bytes(at, len);
    } else if (what < 0xf0) {
        take_nothing(what & 1);
    } else {
        turn_over();
    }
}

static void leave(void)
{
    take_nothing(false);
    turn_over();
    if (stream && !stream->closed) stream->events.on_eof(stream->arg);
    turn_over();
    if (ingress->first) ingress_connection_close(ingress->first);
    for (int i = 0; i < TURNS_MAX && ingress->connections > 0; i++)
        turn_over();
    assert(ingress->connections == 0 && ingress->calls.exchanges == 0 && ingress->buffered_bytes == 0 && !stream);
    fake_broker_stop(); // fails when a call is left open
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static const uint8_t settings[9] = {0, 0, 0, 4};
    struct steps steps = {at, len};
    if (!loop) open_listener();
    fake_broker_start(loop);
    uv_tcp_t *tcp = mem_zalloc(sizeof *tcp);
    uv_tcp_init(loop_uv(loop), tcp);
    quota_add(&ingress->no_cap); // as its listener does
    ingress_connection_create(ingress, tcp);
    framed = true;
    stream->events.on_open(stream->arg);
    send_bytes((const uint8_t *)preface, sizeof preface - 1);
    send_bytes(settings, sizeof settings);
    while (steps.len > 0)
        run_step(&steps);
    leave();
    return 0;
}
