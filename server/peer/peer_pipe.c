#include "server/peer/peer_pipe.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/peer/peer_pipe_state.h"

enum { SHUT_MS = 3000 };

void peer_pipe_wake(struct peer_pipe *pipe)
{
    if (!pipe->ended) turn_add(&pipe->pool->tls.turn, &pipe->turn);
}

void peer_pipe_break(struct peer_pipe *pipe, const char *reason)
{
    if (!pipe->broken[0]) snprintf(pipe->broken, sizeof pipe->broken, "%.*s", (int)sizeof pipe->broken - 1, reason);
    peer_pipe_wake(pipe);
}

static void pump(struct peer_pipe *pipe)
{
    while (pipe->open && !pipe->broken[0] && tls_stream_queued(pipe->tls) < TLS_STREAM_QUEUE_HIGH) {
        const uint8_t *at;
        ssize_t len = nghttp2_session_mem_send(pipe->h2, &at);
        if (len < 0) peer_pipe_break(pipe, nghttp2_strerror((int)len));
        if (len <= 0) break;
        if (!tls_stream_write(pipe->tls, at, (size_t)len)) break;
    }
}

// ---- the connection ------------------------------------------------------------------------------------------------

static void on_open(void *arg)
{
    struct peer_pipe *pipe = arg;
    pipe->open = true;
    pipe->received_at_ms = clock_mono_ms();
    tls_stream_read_start(pipe->tls);
    peer_pipe_wake(pipe);
}

static void on_data(void *arg, const char *at, size_t len)
{
    struct peer_pipe *pipe = arg;
    if (pipe->broken[0]) return;
    pipe->received_at_ms = clock_mono_ms();
    pipe->pinged_at_ms = 0;
    ssize_t n = nghttp2_session_mem_recv(pipe->h2, (const uint8_t *)at, len);
    if (n < 0) peer_pipe_break(pipe, nghttp2_strerror((int)n));
    peer_pipe_wake(pipe);
}

static void on_eof(void *arg)
{
    peer_pipe_break(arg, "the peer closed the connection");
}

static void on_drain(void *arg)
{
    peer_pipe_wake(arg);
}

static void on_fail(void *arg, const struct error *err)
{
    peer_pipe_break(arg, err->text);
}

static const struct tls_stream_events tls_events = {
    .on_open = on_open, .on_data = on_data, .on_eof = on_eof, .on_drain = on_drain, .on_fail = on_fail};

void peer_pipe_attach(struct peer_pipe *pipe, uv_tcp_t *tcp, SSL_CTX *ssl, uint64_t handshake_timeout_ms)
{
    assert(!pipe->tls);
    pipe->tls = tls_stream_create(&pipe->pool->tls, tcp, ssl, handshake_timeout_ms, &tls_events, pipe);
}

// ---- life ----------------------------------------------------------------------------------------------------------

static void free_pipe(void *arg)
{
    struct peer_pipe *pipe = arg;
    struct peer_pool *pool = pipe->pool;
    mem_free(pipe);
    if (--pool->pipes == 0 && pool->on_empty) pool->on_empty(pool->empty_arg);
}

void peer_pipe_destroy(struct peer_pipe *pipe)
{
    if (!pipe || pipe->ended) return;
    pipe->ended = true;
    turn_remove(&pipe->pool->tls.turn, &pipe->turn);
    while (pipe->streams) {
        struct peer_stream *stream = pipe->streams;
        nghttp2_session_set_stream_user_data(pipe->h2, stream->id, NULL);
        peer_stream_close(stream, NGHTTP2_INTERNAL_ERROR, stream->sent);
    }
    header_intake_destroy(pipe->head);
    nghttp2_session_del(pipe->h2);
    pipe->h2 = NULL;
    if (pipe->tls)
        tls_stream_close(pipe->tls, free_pipe, pipe);
    else
        free_pipe(pipe);
}

static void on_turn(struct turn_item *item)
{
    struct peer_pipe *pipe = (struct peer_pipe *)((char *)item - offsetof(struct peer_pipe, turn));
    pump(pipe);
    bool done = pipe->retired && pipe->stream_count == 0 && (!pipe->open || !nghttp2_session_want_write(pipe->h2));
    if (!pipe->broken[0] && done && pipe->is_listener && pipe->open) {
        // What was answered last must not be cut off by a reset: the link closes when it has read all.
        if (!pipe->shut_at_ms) pipe->shut_at_ms = clock_mono_ms();
        tls_stream_shutdown(pipe->tls);
        return;
    }
    if (!pipe->broken[0] && !done) return;
    struct peer_pipe_events events = pipe->events;
    void *arg = pipe->arg;
    char reason[sizeof pipe->broken];
    snprintf(reason, sizeof reason, "%s", pipe->broken[0] ? pipe->broken : "retired");
    peer_pipe_destroy(pipe);
    events.on_lost(arg, reason);
}

void peer_pipe_retire(struct peer_pipe *pipe)
{
    if (pipe->retired) return;
    pipe->retired = true;
    int32_t last = nghttp2_session_get_last_proc_stream_id(pipe->h2);
    nghttp2_submit_goaway(pipe->h2, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
    peer_pipe_wake(pipe);
}

void peer_pipe_tick(struct peer_pipe *pipe, uint64_t now_ms)
{
    if (!pipe->open || pipe->broken[0]) return;
    if (pipe->shut_at_ms) {
        if (now_ms >= pipe->shut_at_ms + SHUT_MS) peer_pipe_break(pipe, "retired");
    } else if (pipe->pinged_at_ms && now_ms >= pipe->pinged_at_ms + PEER_SILENT_MS) {
        peer_pipe_break(pipe, "the peer is silent");
    } else if (!pipe->pinged_at_ms && pipe->stream_count && now_ms >= pipe->received_at_ms + PEER_SILENT_MS) {
        pipe->pinged_at_ms = now_ms;
        nghttp2_submit_ping(pipe->h2, NGHTTP2_FLAG_NONE, NULL);
        peer_pipe_wake(pipe);
    }
}

unsigned peer_pipe_streams(const struct peer_pipe *pipe)
{
    return pipe->stream_count;
}

bool peer_pipe_takes_calls(const struct peer_pipe *pipe)
{
    return !pipe->broken[0] && !pipe->retired && nghttp2_session_check_request_allowed(pipe->h2);
}

struct peer_pipe *peer_pipe_create(struct peer_pool *pool, bool is_listener, unsigned streams_max,
                                   const struct peer_pipe_events *events, void *arg)
{
    struct peer_pipe *pipe = mem_zalloc(sizeof *pipe);
    pipe->pool = pool;
    pool->pipes++;
    pipe->is_listener = is_listener;
    pipe->events = *events;
    pipe->arg = arg;
    pipe->turn.run = on_turn;
    pipe->h2 = peer_frames_create(pipe, streams_max);
    return pipe;
}
