// peer_pipe: one HTTP/2 connection of the hop between replicas (server/peer/peer_wire.h), either end of it: libnghttp2
// over a tls_stream. The calls on it are peer_streams. Owned by a link or by the listener, on one
// loop.
//
// Nothing is freed or ended inside nghttp2's callbacks: what breaks the pipe there ends it at the end of the turn.
#ifndef CULVERT_SERVER_PEER_PIPE_H
#define CULVERT_SERVER_PEER_PIPE_H

#include "base/loop/loop.h"
#include "server/tls/tls_stream.h"
#include "tunnel/broker.h"

struct peer_pipe;
struct peer_stream;

// What the pipes of one loop share. tls comes first initialised (tls_stream_pool_init).
struct peer_pool {
    struct tls_stream_pool tls;
    unsigned pipes;   // whose memory is there
    loop_fn on_empty; // set by whoever waits for that
    void *empty_arg;
};

enum {
    PEER_GROWTH_BYTES_MAX = 32 * 1024 * 1024, // windows of a pipe above their first 64 KiB
    PEER_SILENT_MS = 5000,                    // then it is asked for a sign of life, and has as long again
};

struct peer_pipe_events {
    // Listener: a new stream, with its request. Sets the stream's events with peer_stream_bind() or
    // resets it.
    void (*on_request)(void *arg, struct peer_stream *stream, const struct http_header *fields, size_t count,
                       bool ended);
    void (*on_goaway)(void *arg);                   // link: no more streams on this one (may be NULL)
    void (*on_lost)(void *arg, const char *reason); // the last one: the pipe is going, its streams are closed
};

struct peer_pipe *peer_pipe_create(struct peer_pool *pool, bool is_listener, unsigned streams_max,
                                   const struct peer_pipe_events *events, void *arg);
// The connection is there. tcp as for tls_stream_create(). Streams may be opened before.
void peer_pipe_attach(struct peer_pipe *pipe, uv_tcp_t *tcp, SSL_CTX *ssl, uint64_t handshake_timeout_ms);
// GOAWAY; ends when the streams that there are have ended.
void peer_pipe_retire(struct peer_pipe *pipe);
// Ends it now, with on_lost, at the end of the turn.
void peer_pipe_break(struct peer_pipe *pipe, const char *reason);
// Ends it at once without on_lost; its streams are told. Not inside its callbacks.
void peer_pipe_destroy(struct peer_pipe *pipe);
void peer_pipe_tick(struct peer_pipe *pipe, uint64_t now_ms); // about once a second: liveness
unsigned peer_pipe_streams(const struct peer_pipe *pipe);
bool peer_pipe_takes_calls(const struct peer_pipe *pipe);

#endif
