// peer_stream: one call on a connection between replicas (server/peer/peer_pipe.h): an HTTP/2 stream, either end of it.
// Made by peer_stream_open() or handed over by on_request; gone with on_close or peer_stream_reset(). One loop.
//
// Credit: bytes handed to on_data stay on the stream's account until peer_stream_consumed(); only that opens its
// window. The connection's window is never the limiter. A window starts at 64 KiB and doubles, to 1 MiB and within the
// pipe's budget, for a consumer that kept up for a whole window; so a slow reader stops its own stream only.
#ifndef CULVERT_SERVER_PEER_STREAM_H
#define CULVERT_SERVER_PEER_STREAM_H

#include "tunnel/broker.h"

struct peer_pipe;
struct peer_stream;

enum {
    PEER_WINDOW_BYTES = 64 * 1024,
    PEER_WINDOW_BYTES_MAX = 1024 * 1024,
    PEER_QUEUE_BYTES_MAX = 16 * 1024 * 1024, // of one stream: its writers stop far earlier
};

// A stream's events, inside nghttp2's callbacks but for on_taken: they may use any function of streams.
struct peer_stream_events {
    void (*on_info)(void *arg, int status);                                                 // link
    void (*on_head)(void *arg, int status, const struct http_header *fields, size_t count); // link
    void (*on_data)(void *arg, const uint8_t *at, size_t len);
    void (*on_trailers)(void *arg, const struct http_header *fields, size_t count);
    void (*on_half_end)(void *arg);
    void (*on_taken)(void *arg, size_t len); // so many written bytes have left for the peer
    void (*on_credit)(void *arg);            // the peer has consumed something
    // The last one. whole: both directions were ended properly. processed: the peer may have acted upon the stream.
    void (*on_close)(void *arg, uint32_t code, bool whole, bool processed);
};

// Link: NULL when it takes no streams. ended: no body follows.
struct peer_stream *peer_stream_open(struct peer_pipe *pipe, const struct http_header *fields, size_t count, bool ended,
                                     const struct peer_stream_events *events, void *arg);
// Listener.
void peer_stream_bind(struct peer_stream *stream, const struct peer_stream_events *events, void *arg);
void peer_stream_info(struct peer_stream *stream, int status);
void peer_stream_head(struct peer_stream *stream, int status, const struct http_header *fields, size_t count,
                      bool ended);
// Listener, with the head: an accepted CONNECT, whose halves end each on its own. Otherwise a
// complete answer ends both.
void peer_stream_keep_halves(struct peer_stream *stream);

void peer_stream_write(struct peer_stream *stream, const void *at, size_t len); // copies
void peer_stream_end(struct peer_stream *stream, const struct http_header *trailers, size_t count);
void peer_stream_consumed(struct peer_stream *stream, size_t len);
// Listener, after the head: nghttp2 would drop what it has not sent of an answer that is reset.
// Here all that was written leaves first. No event follows; the pointer is dead.
void peer_stream_break(struct peer_stream *stream, uint32_t code);
void peer_stream_reset(struct peer_stream *stream, uint32_t code); // no event follows; the pointer is dead

#endif
