// stream: one call inside a session: an HTTP/2 stream that the platform opened, its request queue, its credit and its
// time-outs. Private to tunnel/. Owned by its session, on the session's loop; the consumer (a call, a relay to a call
// on another loop, the reports) holds a pointer until on_end or on_fail, or until it cancels.
//
// Credit: bytes handed to on_data stay on the stream's account until tunnel_stream_consumed(); only that opens the
// window. The window starts at 64 KiB and doubles, to at most 4 MiB and the budgets, when a whole one was used within
// two round trips by a consumer that never held much of it back.
#ifndef CULVERT_TUNNEL_STREAM_H
#define CULVERT_TUNNEL_STREAM_H

#include "base/byte_queue.h"
#include "tunnel/header_block.h"
#include "tunnel/session.h"

enum {
    TUNNEL_STREAM_WINDOW_BYTES = 64 * 1024,
    TUNNEL_STREAM_WINDOW_BYTES_MAX = 4 * 1024 * 1024,
    TUNNEL_STREAM_QUEUE_BYTES_MAX = 8 * 1024 * 1024, // of request data; callers stop at 64 KiB
    TUNNEL_HEADERS_MAX = 128,
    TUNNEL_HEADER_BYTES_MAX = 64 * 1024, // of one head, names and values
    TUNNEL_STALL_MS = 60000,
};

// Run inside nghttp2's callbacks: they may use the stream's functions, and those of other streams, and nothing that
// feeds or frees the session.
struct tunnel_stream_events {
    void (*on_info)(void *arg, int status, const struct tunnel_header *headers, size_t count);
    void (*on_head)(void *arg, int status, const struct tunnel_header *headers, size_t count);
    void (*on_data)(void *arg, const uint8_t *at, size_t len);
    void (*on_trailers)(void *arg, const struct tunnel_header *headers, size_t count);
    void (*on_taken)(void *arg, size_t len); // so many bytes of tunnel_stream_write() have left the queue
    void (*on_end)(void *arg);               // the last one, or
    void (*on_fail)(void *arg, enum tunnel_cause cause, const char *detail);
};

struct tunnel_stream {
    struct tunnel_session *session;
    struct tunnel_stream *next, **link;
    int32_t id;
    const struct tunnel_stream_events *events; // NULL: cancelled, waits for nghttp2 to let go
    void *arg;
    bool is_reports; // the platform's own: no time-outs, not counted as a call
    bool is_long;    // CONNECT or event stream: may idle for ever
    bool head_done, remote_ended, queue_ended, deferred;
    int status;
    struct byte_queue queue;      // request data
    struct header_block trailers; // go after the last byte of it
    size_t taken;                 // reported with `turn`
    struct turn_item turn;

    uint32_t window;      // what the agent may send unconsumed
    uint64_t unconsumed;  // handed to on_data and not given back
    uint64_t round_bytes; // consumed since round_at_us
    uint64_t round_at_us;
    bool lagged; // the consumer held much back in this round
    uint64_t opened_at_us, head_by_ms;
    uint64_t consumer_at_ms; // last progress of the consumer, or nothing for it to do
    uint64_t agent_at_ms;    // last progress of our request data, or nothing to send
};

// NULL: *out_cause says why; nothing was sent. is_reports: see above; request's identity is not signed then.
struct tunnel_stream *tunnel_stream_open(struct tunnel_session *session, const struct tunnel_request *request,
                                         bool is_reports, const struct tunnel_stream_events *events, void *arg,
                                         enum tunnel_cause *out_cause, struct error *err);
void tunnel_stream_write(struct tunnel_stream *stream, const void *at, size_t len);
// The request is complete; its trailers, if there are any, are copied.
void tunnel_stream_end(struct tunnel_stream *stream, const struct tunnel_header *trailers, size_t count);
void tunnel_stream_consumed(struct tunnel_stream *stream, size_t len);
void tunnel_stream_cancel(struct tunnel_stream *stream); // RST_STREAM(CANCEL); no event follows

// For the session.
void tunnel_stream_take_head(struct tunnel_stream *stream, int status, const struct tunnel_header *headers,
                             size_t count);
void tunnel_stream_take_data(struct tunnel_stream *stream, const uint8_t *at, size_t len);
void tunnel_stream_take_end(struct tunnel_stream *stream);                  // END_STREAM of the response
void tunnel_stream_take_close(struct tunnel_stream *stream, uint32_t code); // frees
void tunnel_stream_lose(struct tunnel_stream *stream);                      // the session ends; frees
void tunnel_stream_tick(struct tunnel_stream *stream, uint64_t now_ms);

#endif
