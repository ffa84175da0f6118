// stream: what session.c and stream.c share, the inside of session.h. A stream is one call: its request head, the
// queue of its answer, its window and its urgency (RFC 9218). Private to these two.
//
//   AWAITED --head--> OPEN --end--> ENDED
//   OPEN, ENDED --agent_stream_break()--> BREAKING --what was written has left--> RESET
//   any state --agent_stream_reset(), closed--> RESET
#ifndef CULVERT_AGENT_STREAM_H
#define CULVERT_AGENT_STREAM_H

#include <nghttp2/nghttp2.h>

#include "agent/tunnel/session.h"
#include "base/arena.h"
#include "base/loop/byte_queue.h"
#include "tunnel/wire/control.h"
#include "tunnel/wire/scheduler.h"
#include "tunnel/wire/window.h"

enum {
    AGENT_STREAM_FRAME_BYTES = 16320, // of DATA: four frames, small ones and a WebSocket header make four TLS records
};

struct agent_session {
    nghttp2_session *h2;
    struct agent_session_options options;
    struct agent_session_events events;
    void *arg;
    struct agent_stream *streams;  // all, newest first
    struct agent_stream *writable; // have room again and do not know yet
    unsigned stream_count;
    size_t buffered_bytes; // in the queues of all streams
    size_t granted_bytes;  // windows beyond the first ones, all streams
    struct wire_rtt rtt;
    uint64_t carried_bytes;          // of DATA, both ways, since it was measured last
    struct wire_scheduler scheduler; // of answers
    struct agent_stream *served;     // that holds the allowance, during agent_session_take()
    uint64_t now_us;                 // of the take
    bool draining, drained, broken;
    uint8_t *out; // during agent_session_take()
    size_t out_len, out_cap;
    uint8_t control[WIRE_CONTROL_BYTES_MAX]; // the control frame that is arriving
    size_t control_len;
    uint8_t control_out[WIRE_CONTROL_BYTES_MAX];
    size_t control_out_len;
};

enum agent_stream_answer {
    AGENT_STREAM_ANSWER_AWAITED,  // interim answers may have gone
    AGENT_STREAM_ANSWER_OPEN,     // the head was submitted; takes bytes
    AGENT_STREAM_ANSWER_ENDED,    // the end waits behind the queue
    AGENT_STREAM_ANSWER_BREAKING, // reset with break_code once all that was written has left
    AGENT_STREAM_ANSWER_RESET,    // ignores its consumer
};

struct agent_stream {
    struct agent_session *session;
    struct agent_stream *next, *prev;
    struct agent_stream *next_writable;
    int32_t id;
    const struct agent_stream_events *events;
    void *arg;
    struct arena *arena; // request head, then trailers of both ways
    struct agent_stream_request request;
    struct http_header *headers;
    size_t header_count, header_bytes;
    struct http_header *request_trailers; // NULL: none came
    size_t request_trailer_count;
    bool request_ended;
    bool upgraded; // bytes both ways, each half with its own end
    enum agent_stream_answer answer;
    uint32_t break_code;
    bool head_sent;   // the answer's head is on its way
    bool deferred;    // nghttp2 waits to be woken
    bool full;        // on_writable is due once there is room
    bool in_writable; // in the session's list of those that have room again
    struct byte_queue queue;
    nghttp2_nv *trailers;
    size_t trailer_count;
    // window of the request body
    struct wire_window window;
    size_t unconsumed;
    // its turn among the answers
    struct wire_scheduler_item item;
    size_t allowance;   // bytes that may go into the next frame; 0: not its turn
    bool keeps_urgency; // an upgrade or an event stream: interactive however much it sent
};

struct agent_stream *agent_stream_create(struct agent_session *session, int32_t id);
void agent_stream_destroy(struct agent_stream *stream, uint32_t code);                        // tells on_close
bool agent_stream_add_header(struct agent_stream *stream, struct str name, struct str value); // false: over a limit
// Moves len bytes from the queue into a frame.
void agent_stream_take(struct agent_stream *stream, uint8_t *out, size_t len);
// A frame of it has left: the head (the last one), or DATA. Inside nghttp2's on_frame_send.
void agent_stream_sent(struct agent_stream *stream, bool head);
// The head is complete: how urgent its answer is.
void agent_stream_classify(struct agent_stream *stream);
bool agent_stream_add_trailer(struct agent_stream *stream, struct str name, struct str value); // of the request

void agent_session_wants_write(struct agent_session *session);

#endif
