// session: one agent's tunnel: an HTTP/2 client (libnghttp2; the agent is the server) over a
// WebSocket byte pipe, its life cycle, epoch, liveness and drain. Private to tunnel/. Owned by its
// node, on the node's loop; named from outside by id. Ends once, by tunnel_session_end(); its
// memory goes when the WebSocket is gone.
//
//   OPENING --standby--> STANDBY, which asks now and then
//   OPENING, STANDBY --opened--> OPEN --drained--> CLOSING --no more calls, deadline--> ENDED
//   OPENING, STANDBY, OPEN --superseded--> CLOSING
//   any state --lost, revoked, refused, protocol error--> ENDED
//
// Control messages out of state end it: from an agent only STATS and OPERATION_STATE are allowed,
// and only while OPEN or CLOSING.
#ifndef CULVERT_TUNNEL_SESSION_SESSION_H
#define CULVERT_TUNNEL_SESSION_SESSION_H

#include <nghttp2/nghttp2.h>

#include "tunnel/node.h"
#include "tunnel/wire/control.h"
#include "tunnel/wire/scheduler.h"
#include "tunnel/wire/window.h"

enum tunnel_session_state {
    TUNNEL_SESSION_OPENING, // authenticated, waits for its epoch
    TUNNEL_SESSION_STANDBY, // another instance serves the runtime, and they keep replacing each other
    TUNNEL_SESSION_OPEN,
    TUNNEL_SESSION_CLOSING, // no new calls; ends with the last one or at close_at_ms
    TUNNEL_SESSION_ENDED,
};

struct tunnel_session {
    // What a tick looks at, side by side: of ten thousand idle sessions none is in a cache.
    struct tunnel_node *node;
    struct tunnel_ws *ws; // NULL once it is gone
    struct tunnel_stream *streams;
    struct tunnel_reports *reports;
    struct tunnel_life life;
    uint64_t drain_at_ms;       // when DRAIN is to be sent, 0: not draining
    size_t deadline_table_slot; // tunnel/listener/deadline_table.h
    enum tunnel_session_state state;
    unsigned stream_count; // of calls

    uint64_t id;
    struct tunnel_session *next, **link; // the node's list, until it ends
    nghttp2_session *h2;
    struct session_memory *memory; // of h2
    struct tunnel_entry *entry;    // NULL once it has ended
    uint8_t identity_key[ID_SHA256_BYTES];
    uint64_t calls_signed; // the number of the last identity that was bound to a call
    // The wall clock as it was sent to the agent, and when (monotonic): identities expire by that
    // one, whatever is done to ours meanwhile.
    int64_t sent_time_ms;
    uint64_t sent_time_at_ms;

    struct header_intake *head;       // a header block being received; they never interleave (RFC 9113 section 4.3)
    struct session_payload *controls; // payloads that nghttp2 still points to
    uint8_t *control;                 // a control message being received, else NULL: sessions are many and mostly idle
    size_t control_len;
    const uint8_t *unsent; // what nghttp2 serialised and the last write had no room for
    size_t unsent_len;
    struct wire_scheduler scheduler; // of request data
    struct tunnel_stream *granted;   // the stream whose turn it is, inside tunnel_session_frames_take()
    uint8_t *out;                    // and where its frames go
    size_t out_len, out_cap;
    char broken[128]; // why a callback gave up; empty: it did not

    struct tunnel_tenant *tenant; // its account's part of the node
    uint64_t buffered_bytes;      // received, not yet consumed
    uint64_t window_bytes;        // granted above the streams' first windows
    uint64_t opened_at_ms;
    uint64_t ping_sent_us; // the last one
    bool ping_quiet;       // sent while there was no stream
    struct wire_rtt rtt;
    bool asking;            // STANDBY: for an epoch, and was not answered yet
    unsigned asks_soon;     // STANDBY: the next so many questions come soon: who served seems to have gone
    uint64_t ask_at_ms;     // STANDBY: the next question
    uint64_t drained_at_ms; // when it was sent, 0: not yet
    uint64_t drain_spread_ms;
    uint64_t close_at_ms;    // CLOSING
    bool superseded;         // that is why
    struct turn_item finish; // ends a CLOSING session outside of its own callbacks
};

// After the 101: lists it and asks for its epoch. info is copied.
void tunnel_session_start(struct tunnel_node *node, const struct tunnel_session_info *info, struct tunnel_ws *ws);
void tunnel_session_accept(struct tunnel_session *session, uint64_t epoch); // tunnel_session_opened()
void tunnel_session_stand_by(struct tunnel_session *session);               // tunnel_session_stands_by()
void tunnel_session_wake_standby(struct tunnel_session *session);           // if it stands by, it asks now
// WIRE_CONTROL_OPERATION, unless too many control messages wait.
void tunnel_session_operate(struct tunnel_session *session, const struct wire_control *operation);
void tunnel_session_supersede(struct tunnel_session *session, uint64_t newer_epoch);
void tunnel_session_begin_drain(struct tunnel_session *session, uint64_t after_ms, uint64_t spread_ms);
// Streams fail with TUNNEL_LOST, the owner is notified, the WebSocket is closed with ws_status (RFC
// 6455) or, when 0, cut. Not from inside an nghttp2 callback of this session: those set `broken`
// and fail.
void tunnel_session_end(struct tunnel_session *session, enum tunnel_ending ending, const char *reason);
void tunnel_session_fetch(const struct tunnel_session *session);           // into the cache, for the tick that comes
void tunnel_session_tick(struct tunnel_session *session, uint64_t now_ms); // when it is due in the deadline table
void tunnel_session_wake(struct tunnel_session *session);                  // something to do by ticks: look at it soon

// What the WebSocket calls (tunnel/listener/ws.h).
void tunnel_session_on_bytes(void *session, const uint8_t *at, size_t len);
size_t tunnel_session_on_writable(void *session, uint8_t *out, size_t cap);
void tunnel_session_on_closed(void *session);

// Between tunnel/session/session.c and the files of its parts: session_standby.c, session_life.c,
// session_end.c.
// The one place that changes the state; asserts that the transition is one of those above.
void tunnel_session_set_state(struct tunnel_session *session, enum tunnel_session_state state);
void tunnel_session_ask_epoch(struct tunnel_session *session);
void tunnel_session_ask_again(struct tunnel_session *session);
void tunnel_session_ping(struct tunnel_session *session, uint64_t now_ms);
bool tunnel_session_tick_life(struct tunnel_session *session, uint64_t now_ms); // false: it was ended
uint64_t tunnel_session_life_due_ms(const struct tunnel_session *session);
void tunnel_session_tick_drain(struct tunnel_session *session, uint64_t now_ms);
void tunnel_session_on_finish(struct turn_item *item);                              // session->finish
void tunnel_session_end_closed(struct tunnel_session *session, const char *reason); // it took no calls any more

// For tunnel/session/session_frames.c and tunnel/call/stream.c.
void tunnel_session_wants_write(struct tunnel_session *session);
void tunnel_session_send_control(struct tunnel_session *session, const struct wire_control *control);
bool tunnel_session_takes_control(const struct tunnel_session *session); // few enough of them wait
void tunnel_session_check_finish(struct tunnel_session *session);        // a stream went
void tunnel_session_take_control(struct tunnel_session *session, const struct wire_control *control);
void tunnel_session_take_pong(struct tunnel_session *session, uint64_t sent_us);
void tunnel_session_break(struct tunnel_session *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
nghttp2_session *tunnel_session_frames_create(struct tunnel_session *session); // h2 with all callbacks and SETTINGS
void tunnel_session_frames_finish(struct tunnel_session *session);             // frees what frames hold
// cap: more than an HTTP/2 frame of 16 KiB, else no DATA ever fits.
size_t tunnel_session_frames_take(struct tunnel_session *session, uint8_t *out, size_t cap);

#endif
