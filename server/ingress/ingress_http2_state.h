// ingress_http2_state: what the HTTP/2 front's files share: ingress_http2.c has the connection,
// ingress_http2_callbacks.c what nghttp2 tells, ingress_http2_stream.c the streams. Private to them.
#ifndef CULVERT_SERVER_INGRESS_HTTP2_STATE_H
#define CULVERT_SERVER_INGRESS_HTTP2_STATE_H

#include <nghttp2/nghttp2.h>

#include "base/loop/byte_queue.h"
#include "server/ingress/ingress_connection.h"
#include "server/proxy/call_exchange.h"

enum {
    INGRESS_HTTP2_STREAM_WINDOW = 64 * 1024,       // at first
    INGRESS_HTTP2_STREAM_WINDOW_MAX = 1024 * 1024, // of a stream that the tunnel keeps up with
    INGRESS_HTTP2_WINDOW = 4 * 1024 * 1024,        // of the connection: never the limiter of one stream
    INGRESS_HTTP2_TRAILERS_MAX = 32,
    INGRESS_HTTP2_ABUSE_MAX = 2000,       // frames in a row that ask for work and bring none
    INGRESS_HTTP2_ABUSE_PER_SECOND = 200, // that are forgiven
    INGRESS_HTTP2_ABUSE_LARGE = 20,       // what a head that is answered 431 counts as
    INGRESS_HTTP2_ABUSE_HEAD = 600, // and one over twice the limit, which is reset: the fourth ends the connection
};

struct ingress_http2 {
    struct ingress_connection *connection;
    nghttp2_session *session;
    struct ingress_http2_stream *first;
    size_t streams;
    size_t leaving;         // of them, that nghttp2 has closed
    uint64_t idle_since_ms; // without streams
    uint64_t head_since_ms; // a header block is incomplete since then; 0: none
    uint64_t last_said_ms;  // when the client was told that the end comes; 0: not
    bool said_end;          // and that no stream is taken any more
    bool pump_wanted;       // a stream's body can go on
    size_t withheld;        // credit of the connection that is not given back yet
    bool held;              // because the listener's buffers are full
    uint64_t abuse, abuse_at_ms;
    bool flooded; // the client is told with a GOAWAY before the connection ends
};

struct ingress_http2_stream {
    struct ingress_http2 *http2;
    struct ingress_http2_stream *next, **link;
    int32_t id;
    struct arena *arena;
    struct call_exchange *exchange; // NULL until the head is whole

    // The request. Its head is collected field by field.
    struct http_header *headers;
    size_t header_count, head_bytes;
    bool too_large;
    struct str method, authority, path, protocol;
    struct http_header trailers[INGRESS_HTTP2_TRAILERS_MAX];
    size_t trailer_count;
    struct byte_queue in; // of the body, not taken by the exchange
    bool ended;           // the client has ended its direction
    bool pump;
    uint32_t window, window_taken; // grows when a whole one was taken without waiting
    bool window_waited;
    uint64_t read_at_ms; // when something of the body came

    // The answer.
    nghttp2_nv *head; // not submitted yet
    size_t head_count;
    bool head_waits;       // for the first byte or the end, to make one frame of it
    struct byte_queue out; // of the body, not sent
    const struct http_header *answer_trailers;
    size_t answer_trailer_count;
    bool out_ended, deferred, end_sent;
    bool leaving; // both halves have ended here, and what the client said last is still on its way to the service
    uint64_t sent_at_ms; // when something of the answer left, or began to wait
};

// ---- streams -------------------------------------------------------------------------------------------------

extern const struct call_front ingress_http2_stream_front;

struct ingress_http2_stream *ingress_http2_stream_create(struct ingress_http2 *http2, int32_t id);
void ingress_http2_stream_destroy(struct ingress_http2_stream *stream); // cancels what runs
// A head over the limit is answered 431, and its fields are dropped. False: it is over twice the limit, and nothing
// more of it is to be read.
bool ingress_http2_stream_add_field(struct ingress_http2_stream *stream, struct str name, struct str value,
                                    bool is_trailer);
// Its head is whole: the exchange begins.
void ingress_http2_stream_start(struct ingress_http2_stream *stream);
void ingress_http2_stream_take_data(struct ingress_http2_stream *stream, const uint8_t *at, size_t len);
void ingress_http2_stream_take_end(struct ingress_http2_stream *stream);
// Feeds what waits, and gives credit for it.
void ingress_http2_stream_pump(struct ingress_http2_stream *stream);
// A head that waited for company goes.
void ingress_http2_stream_submit_head(struct ingress_http2_stream *stream);
// Writes the payload of a DATA frame and tells the exchange that it was taken.
void ingress_http2_stream_send(struct ingress_http2_stream *stream, const uint8_t *frame_head, size_t len);
// Has it been waiting for the client for too long? Resets it then. Returns when to look again, 0: not by itself.
uint64_t ingress_http2_stream_on_time(struct ingress_http2_stream *stream, uint64_t now_ms);
void ingress_http2_stream_reset(struct ingress_http2_stream *stream, uint32_t code, const char *reason);

// ---- the connection ------------------------------------------------------------------------------------------

// NULL, never: nghttp2's session with our callbacks and options.
nghttp2_session *ingress_http2_session_create(struct ingress_http2 *http2);
// Destroys a stream that is over.
void ingress_http2_forget(struct ingress_http2 *http2, struct ingress_http2_stream *stream);
// Counts what asks for work and brings none, in frames; too much ends the connection with ENHANCE_YOUR_CALM.
void ingress_http2_count_abuse(struct ingress_http2 *http2, unsigned frames);
// Gives credit of the connection back as far as the budget of the listener allows.
void ingress_http2_credit(struct ingress_http2 *http2, size_t len);

#endif
