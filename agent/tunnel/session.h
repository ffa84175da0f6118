// session: the agent's end of one tunnel, an HTTP/2 server (libnghttp2) over a byte pipe. It does no I/O: bytes that
// arrived are fed in, frames that are due are taken out, so that it can be tested without a socket. Only the platform
// opens streams. Owned by the tunnel client; one loop; callbacks run inside agent_session_feed(), _take() and
// _destroy() and may call everything here but those three.
//
// Fairness: answers leave in the order of tunnel/wire/scheduler.h, a frame a turn, and only as fast as frames are taken
// out: a small answer waits behind one message, never behind what others have queued.
//
// Flow control: the connection's window is 2^31-1 and never the limiter; a stream's starts at 64 KiB, is given back
// only by agent_stream_consumed(), and grows by the rule of tunnel/wire/window.h within the session's budget.
#ifndef CULVERT_AGENT_SESSION_H
#define CULVERT_AGENT_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/http1/http1.h"

struct agent_session;
struct agent_stream; // one call; dies with its on_close

enum {
    AGENT_SESSION_TAKE_BYTES = 65522,       // with a WebSocket header this makes four full TLS records
    AGENT_STREAM_QUEUE_BYTES = 64 * 1024,   // agent_stream_write() says "full" from here on
    AGENT_STREAM_WRITE_BYTES_MAX = 1 << 20, // of one agent_stream_write()
};

// RST_STREAM codes the agent uses (RFC 9113 section 7).
enum agent_stream_code {
    AGENT_STREAM_NO_ERROR = 0,
    AGENT_STREAM_PROTOCOL_ERROR = 1,
    AGENT_STREAM_INTERNAL_ERROR = 2,
    AGENT_STREAM_REFUSED = 7,
    AGENT_STREAM_CANCEL = 8,
    AGENT_STREAM_CONNECT_ERROR = 10,
};

struct agent_session_options {
    unsigned streams_max;      // SETTINGS_MAX_CONCURRENT_STREAMS
    size_t buffered_bytes_max; // of all response queues together; beyond it a stream is full at 16 KiB
};

struct agent_session_events {
    // A request head is complete: attach a consumer here or the stream is refused.
    void (*on_request)(void *arg, struct agent_stream *stream);
    // Frames are due: call agent_session_take() soon (from the loop, not from here).
    void (*on_wants_write)(void *arg);
    // Payload of the control frame (type 0xE0) on stream 0. May be NULL.
    void (*on_control)(void *arg, const uint8_t *at, size_t len);
    // The platform sent GOAWAY(NO_ERROR): it opens no more streams here. May be NULL.
    void (*on_goaway)(void *arg);
    // The last stream has closed. May be NULL.
    void (*on_idle)(void *arg);
};

struct agent_session *agent_session_create(const struct agent_session_options *options,
                                           const struct agent_session_events *events, void *arg);
// Every stream gets its on_close first.
void agent_session_destroy(struct agent_session *session); // NULL is fine
// ERROR_PROTOCOL: the session is broken, take what is left (GOAWAY) and close. ERROR_CANCELLED: it is over.
MUST_CHECK enum error_code agent_session_feed(struct agent_session *session, const uint8_t *at, size_t len,
                                              struct error *err);
// Writes due frames, at most cap (>= AGENT_SESSION_TAKE_BYTES) bytes; 0: nothing is due.
size_t agent_session_take(struct agent_session *session, uint8_t *out, size_t cap);
// GOAWAY in two steps: streams in flight finish, and so do those that the platform opens before it has answered;
// on_idle comes when there are none. Later ones are refused (safe to retry).
void agent_session_drain(struct agent_session *session);
bool agent_session_is_busy(const struct agent_session *session); // has streams, or may still get some of that kind
// Queues one control frame (tunnel/wire/control.h); dropped when the last one has not left yet.
bool agent_session_send_control(struct agent_session *session, const uint8_t *at, size_t len);
unsigned agent_session_stream_count(const struct agent_session *session);
void agent_session_set_rtt(struct agent_session *session, uint64_t rtt_us); // paces the growth of windows

// ---- streams -------------------------------------------------------------------------------------------------

struct agent_stream_request {
    struct str method, path, authority, scheme;
    struct str protocol;               // extended CONNECT (RFC 8441), else empty
    const struct http_header *headers; // lower-case names, no pseudo-headers
    size_t header_count;
    bool end_stream;        // no body follows
    int64_t content_length; // -1: not said
};

struct agent_stream_events {
    // Request body; every byte is given back by agent_stream_consumed() once it is used. `at` lives for the call.
    void (*on_data)(void *arg, struct agent_stream *stream, const uint8_t *at, size_t len);
    void (*on_end)(void *arg, struct agent_stream *stream); // the request body is complete
    void (*on_room)(void *arg, struct agent_stream *stream);
    // Last event: finished both ways, reset, or the session died. The stream is freed when this returns.
    void (*on_close)(void *arg, struct agent_stream *stream, uint32_t code);
};

// events lives as long as the stream.
void agent_stream_attach(struct agent_stream *stream, const struct agent_stream_events *events, void *arg);
const struct agent_stream_request *agent_stream_request(const struct agent_stream *stream);
// The request's trailers, once on_end came; views live with the stream. Returns how many.
size_t agent_stream_request_trailers(const struct agent_stream *stream, const struct http_header **out);
int32_t agent_stream_id(const struct agent_stream *stream);
// Informational answer (100..199 but 101), any number before the head.
void agent_stream_inform(struct agent_stream *stream, int status, const struct http_header *headers, size_t count);
// The head, once. end: no body follows. Names may be of any case; values are copied.
void agent_stream_respond(struct agent_stream *stream, int status, const struct http_header *headers, size_t count,
                          bool end);
// Queues body bytes (copied). False: the queue is full, stop until on_room; the bytes were taken in either case.
bool agent_stream_write(struct agent_stream *stream, const void *at, size_t len);
// The body is complete. trailers may be NULL.
void agent_stream_end(struct agent_stream *stream, const struct http_header *trailers, size_t count);
// Gives window back for bytes of on_data.
void agent_stream_consumed(struct agent_stream *stream, size_t len);
// RST_STREAM. Only on_close follows, in a later turn.
void agent_stream_reset(struct agent_stream *stream, enum agent_stream_code code);
// The same after the head, when the answer cannot go on: what was written of it leaves first.
void agent_stream_break(struct agent_stream *stream, enum agent_stream_code code);
size_t agent_stream_queued(const struct agent_stream *stream); // bytes waiting in the queue

#endif
