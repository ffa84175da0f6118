// stream: one call inside a session: an HTTP/2 stream that the platform opened, its request queue, its credit and its
// time-outs. Private to tunnel/. Owned by its session, on the session's loop; the consumer (a call, a relay to a call
// on another loop, the reports) holds a pointer until on_end or on_fail, or until it cancels.
//
// Credit: bytes handed to on_data stay on the stream's account until tunnel_stream_consumed(); only that opens the
// window, which grows and shrinks by the rule of tunnel/wire/window.h, within the budgets.
//
// Sending (tunnel/call/stream_send.c): bytes and the end of the request wait in the stream until the session's
// scheduler (tunnel/wire/scheduler.h) picks it.
//
//   request:  OPEN --end of the request--> ENDED --its last frame made--> SENT
//   response: AWAITED --head--> STARTED --END_STREAM--> COMPLETE
//             AWAITED --head of 2xx to CONNECT--> UPGRADED --END_STREAM--> HALF_CLOSED
//             AWAITED --the agent refuses in place of the service--> REFUSED
//
// A stream without events was cancelled or has failed: it only waits for nghttp2 to close it.
#ifndef CULVERT_TUNNEL_CALL_STREAM_H
#define CULVERT_TUNNEL_CALL_STREAM_H

#include "base/loop/byte_queue.h"
#include "tunnel/session/header_block.h"
#include "tunnel/session/session.h"
#include "tunnel/wire/window.h"

enum {
    TUNNEL_STREAM_QUEUE_BYTES_MAX = 8 * 1024 * 1024, // of request data; callers stop at 64 KiB
    TUNNEL_HEADERS_MAX = 128,
    TUNNEL_HEADER_BYTES_MAX = 64 * 1024, // of one head, names and values
    TUNNEL_INFOS_MAX = 16, // interim answers before the head: they have no credit, so their number bounds them
    TUNNEL_STALL_MS = 60000,
};

struct relay_message;

// Run inside nghttp2's callbacks: they may use the stream's functions, and those of other streams, and nothing that
// feeds or frees the session.
struct tunnel_stream_events {
    bool is_elsewhere; // who hears this is on another loop: what is on its way there is not held back by anybody
    // Lives on. Its on_taken: so many bytes of tunnel_stream_write() have left the queue.
    const struct exchange_events *exchange;
    // In place of on_fail for who gave the stream its request: nothing of it has reached the agent. `back` is all that
    // was written, and the consumer's.
    void (*on_back)(void *arg, struct relay_message *back, enum tunnel_cause cause, const char *detail);
};

enum tunnel_stream_request_state {
    TUNNEL_STREAM_REQUEST_OPEN,
    TUNNEL_STREAM_REQUEST_ENDED, // the end waits behind the queue, if there is a body at all
    TUNNEL_STREAM_REQUEST_SENT,  // the last byte, or the trailers
};

enum tunnel_stream_response_state {
    TUNNEL_STREAM_RESPONSE_AWAITED, // interim answers may have come
    TUNNEL_STREAM_RESPONSE_STARTED,
    TUNNEL_STREAM_RESPONSE_COMPLETE,
    TUNNEL_STREAM_RESPONSE_UPGRADED,    // an accepted CONNECT: each half has its own end
    TUNNEL_STREAM_RESPONSE_HALF_CLOSED, // upgraded, and the far end has ended its half
    TUNNEL_STREAM_RESPONSE_REFUSED,
};

struct tunnel_stream {
    struct tunnel_session *session;
    struct tunnel_stream *next, **link;
    int32_t id;
    const struct tunnel_stream_events *events; // NULL: cancelled, waits for nghttp2 to let go
    void *arg;
    bool is_reports; // the platform's own: no time-outs, not counted as a call
    bool is_connect;
    bool is_long;   // CONNECT or event stream: may idle for ever
    bool head_left; // its HEADERS have been made: they may be on the wire
    enum tunnel_stream_request_state request;
    enum tunnel_stream_response_state response;
    unsigned infos;
    int status;
    const char *route;            // for metrics, see stream_request_route()
    struct call_request *kept;    // tunnel/call/stream_kept.h; NULL: the agent may have begun it
    struct byte_queue queue;      // request data
    struct header_block trailers; // go after the last byte of it
    size_t taken;                 // reported with `turn`
    struct turn_item turn;
    struct wire_scheduler_item sending;
    size_t allowance; // picked: may send so much now

    struct wire_window window;
    uint64_t unconsumed; // handed to on_data and not given back
    uint64_t head_by_ms;
    uint64_t consumer_at_ms; // last progress of the consumer, or nothing for it to do
    uint64_t agent_at_ms;    // last progress of our request data, or nothing to send
};

// NULL: *out_cause says why; nothing was sent. is_reports: see above; request's identity is not signed then. on_back
// comes to those only that hand the request over, to stream_kept_take().
struct tunnel_stream *tunnel_stream_open(struct tunnel_session *session, const struct tunnel_request *request,
                                         bool is_reports, const struct tunnel_stream_events *events, void *arg,
                                         enum tunnel_cause *out_cause, struct error *err);
void tunnel_stream_write(struct tunnel_stream *stream, const void *at, size_t len);
void tunnel_stream_write_queue(struct tunnel_stream *stream,
                               struct byte_queue *queue); // empties it, may take its block
// The request is complete; its trailers, if there are any, are copied.
void tunnel_stream_end(struct tunnel_stream *stream, const struct http_header *trailers, size_t count);
void tunnel_stream_consumed(struct tunnel_stream *stream, size_t len);
void tunnel_stream_cancel(struct tunnel_stream *stream); // RST_STREAM(CANCEL); no event follows

// Between tunnel/call/stream.c and tunnel/call/stream_send.c.
void tunnel_stream_set_request(struct tunnel_stream *stream, enum tunnel_stream_request_state request);
void tunnel_stream_reset(struct tunnel_stream *stream, uint32_t code);
void tunnel_stream_begin_sending(struct tunnel_stream *stream, enum wire_urgency urgency, uint64_t now_us);
void tunnel_stream_stop_sending(struct tunnel_stream *stream);
ssize_t tunnel_stream_read(nghttp2_session *h2, int32_t id, uint8_t *out, size_t cap, uint32_t *flags,
                           nghttp2_data_source *source, void *arg); // nghttp2's data provider

// For the session.
void tunnel_stream_take_out(struct tunnel_stream *stream, uint8_t *out,
                            size_t len); // what tunnel_stream_read() promised
void tunnel_stream_take_head(struct tunnel_stream *stream, int status, const struct http_header *headers, size_t count);
void tunnel_stream_take_data(struct tunnel_stream *stream, const uint8_t *at, size_t len);
void tunnel_stream_take_end(struct tunnel_stream *stream);                  // END_STREAM of the response
void tunnel_stream_take_close(struct tunnel_stream *stream, uint32_t code); // frees
void tunnel_stream_lose(struct tunnel_stream *stream);                      // the session takes it no further; frees
void tunnel_stream_tick(struct tunnel_stream *stream, uint64_t now_ms);

#endif
