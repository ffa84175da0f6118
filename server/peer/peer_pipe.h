// peer_pipe: one HTTP/2 connection of the hop between replicas (server/peer/peer_wire.h), either end of it: libnghttp2
// over a tls_stream. And peer_stream, one call on it. Owned by a link or by the door, on one loop.
//
// Credit: bytes handed to on_data stay on the stream's account until peer_stream_consumed(); only that opens its
// window. The connection's window is never the limiter. A window starts at 64 KiB and doubles, to 1 MiB and within the
// pipe's budget, for a consumer that kept up for a whole window; so a slow reader stops its own stream only.
//
// Nothing is freed or ended inside nghttp2's callbacks: what breaks the pipe there ends it at the end of the turn.
#ifndef CULVERT_SERVER_PEER_PIPE_H
#define CULVERT_SERVER_PEER_PIPE_H

#include "base/loop.h"
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
    PEER_WINDOW_BYTES = 64 * 1024,
    PEER_WINDOW_BYTES_MAX = 1024 * 1024,
    PEER_GROWTH_BYTES_MAX = 32 * 1024 * 1024, // windows of a pipe above their first 64 KiB
    PEER_QUEUE_BYTES_MAX = 16 * 1024 * 1024,  // of one stream: its writers stop far earlier
    PEER_SILENT_MS = 5000,                    // then it is asked for a sign of life, and has as long again
};

// A stream's events, inside nghttp2's callbacks but for on_taken: they may use any function of streams.
struct peer_stream_events {
    void (*on_info)(void *arg, int status, const struct tunnel_header *fields, size_t count); // link
    void (*on_head)(void *arg, int status, const struct tunnel_header *fields, size_t count); // link
    void (*on_data)(void *arg, const uint8_t *at, size_t len);
    void (*on_trailers)(void *arg, const struct tunnel_header *fields, size_t count);
    void (*on_remote_end)(void *arg);
    void (*on_taken)(void *arg, size_t len); // so many written bytes have left for the peer
    void (*on_credit)(void *arg);            // the peer has consumed something
    // The last one. whole: both directions were ended properly. processed: the peer may have acted upon the stream.
    void (*on_close)(void *arg, uint32_t code, bool whole, bool processed);
};

struct peer_pipe_events {
    // Door: a new stream, with its request. Sets the stream's events with peer_stream_bind() or resets it.
    void (*on_request)(void *arg, struct peer_stream *stream, const struct tunnel_header *fields, size_t count,
                       bool ended);
    void (*on_goaway)(void *arg);                   // link: no more streams on this one (may be NULL)
    void (*on_lost)(void *arg, const char *reason); // the last one: the pipe is going, its streams are closed
};

struct peer_pipe *peer_pipe_create(struct peer_pool *pool, bool is_door, unsigned streams_max,
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

// Link: NULL when it takes no streams. ended: no body follows.
struct peer_stream *peer_stream_open(struct peer_pipe *pipe, const struct tunnel_header *fields, size_t count,
                                     bool ended, const struct peer_stream_events *events, void *arg);
// Door.
void peer_stream_bind(struct peer_stream *stream, const struct peer_stream_events *events, void *arg);
void peer_stream_info(struct peer_stream *stream, int status, const struct tunnel_header *fields, size_t count);
void peer_stream_head(struct peer_stream *stream, int status, const struct tunnel_header *fields, size_t count,
                      bool ended);

void peer_stream_write(struct peer_stream *stream, const void *at, size_t len); // copies
void peer_stream_end(struct peer_stream *stream, const struct tunnel_header *trailers, size_t count);
void peer_stream_consumed(struct peer_stream *stream, size_t len);
void peer_stream_reset(struct peer_stream *stream, uint32_t code); // no event follows; the pointer is dead

#endif
