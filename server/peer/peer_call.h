// peer_call: one call that has no session in this process: what the caller has told of it, and the stream to the
// replica that owns the session, if there is one. peer_calls.c decides where it goes. Private to the two.
//
// Lives from peer_calls_open() to its last event or peer_calls_cancel(); what the caller writes is kept until the owner
// is known to have the call, so that it can be sent again. One loop.
#ifndef CULVERT_SERVER_PEER_CALL_H
#define CULVERT_SERVER_PEER_CALL_H

#include "base/loop/byte_queue.h"
#include "base/loop/timer.h"
#include "base/loop/turn.h"
#include "base/metrics/metrics.h"
#include "server/peer/peer_calls.h"
#include "server/peer/peer_stream.h"
#include "server/peer/peer_wire.h"
#include "tunnel/call/call_request.h"
#include "tunnel/session/header_block.h"

enum peer_call_state { PEER_CALL_LOOKING, PEER_CALL_WAITING, PEER_CALL_SENDING, PEER_CALL_FAILED };

struct tunnel_carried {
    struct peer_calls *calls;
    struct tunnel_carried *next, **link;
    struct tunnel_node *node;
    struct tunnel_carrier_events events;
    void *arg;
    enum peer_call_state state;
    struct call_request copy;
    const struct tunnel_request *request; // in `copy`
    struct registry_query *query;         // under way
    struct peer_stream *stream;           // PEER_CALL_SENDING
    uint64_t wait_until_ms, ask_at_ms, opened_at_us;
    uint64_t epoch; // asked of the owner
    uint64_t refused_epoch, refused_at_ms;
    unsigned hops, same_epoch_hops;
    unsigned depth; // events being told
    bool over;      // unlisted; freed when those have returned
    bool ask_fresh;
    struct byte_queue kept; // written and not yet safe with the owner
    size_t taken;           // of it, that the stream has sent
    struct header_block trailers;
    bool ended, committed, answered;
    bool upgraded;         // an accepted CONNECT
    bool credited;         // the owner has passed something of it on
    struct turn_item turn; // looks up, or fails, outside of open()
    enum tunnel_cause cause;
    char detail[PEER_WIRE_DETAIL_BYTES];
};

struct peer_calls {
    struct loop *loop;
    struct peer_calls_options options;
    struct tunnel_carried *first;
    struct tunnel_carried *cursor; // of the tick: what it looks at next
    struct timer timer;            // runs while a call waits
    struct turn turn;
    loop_fn on_closed;
    void *closed_arg;
    struct metric *ok, *failed, *refused, *retried, *lost, *seconds;
};

struct tunnel_carried *peer_call_create(struct peer_calls *calls, struct tunnel_node *node,
                                        const struct tunnel_request *request,
                                        const struct tunnel_carrier_events *events, void *arg);
// Around events: a call that is over is freed when the outermost of them has returned.
void peer_call_enter(struct tunnel_carried *call);
void peer_call_leave(struct tunnel_carried *call);
// Nothing reaches the call from here on; freed by the peer_call_leave() that follows.
void peer_call_unlist(struct tunnel_carried *call);
// Tells the caller, and that is the end of it.
void peer_call_fail(struct tunnel_carried *call, enum tunnel_cause cause, const char *detail);
// The same, at the end of the turn.
void peer_call_fail_later(struct tunnel_carried *call, enum tunnel_cause cause, const char *detail);
// Hands it to the session's owner. It may be over afterwards.
void peer_call_send(struct tunnel_carried *call, const struct registry_place *place);
// Keeps no longer what must make room for more. The call may be over afterwards.
void peer_call_let_go(struct tunnel_carried *call);
// The runtime has a session on this replica: the broker takes the call. False: it has none.
bool peer_call_give_back(struct tunnel_carried *call);

// For peer_call.c: the call waits, for whoever takes over its runtime, for 3 s in all.
void peer_calls_wait(struct tunnel_carried *call);

#endif
