// peer_calls: calls that arrived on this loop for runtimes whose session another replica holds: found in the registry,
// carried over a peer link, once more when that is safe, and held for a few seconds when the runtime is between two
// sessions. The broker's carrier (struct tunnel_carrier in tunnel/broker.h). Everything on its loop.
//
//   LOOKING --held there--> SENDING --421, not processed--> LOOKING (from PostgreSQL) ... WAITING, until the time is up
//   LOOKING, WAITING --the runtime came here--> given back to the broker
//
// Safe means: the owner said that it did nothing (421, REFUSED_STREAM), or the stream never left. What was written is
// kept for that until the owner has answered, or has taken something of a body that must go on. A call that may have
// been processed is lost (502).
#ifndef CULVERT_SERVER_PEER_CALLS_H
#define CULVERT_SERVER_PEER_CALLS_H

#include "server/peer/peer_links.h"
#include "server/sessions/registry.h"
#include "tunnel/broker.h"

struct peer_calls;

struct peer_calls_options {
    struct registry *registry;
    struct peer_links *links; // NULL: there is no way to other replicas; calls wait for their runtime to come here
    const char *replica;      // ours
};

struct peer_calls *peer_calls_create(struct loop *loop, const struct peer_calls_options *options);
// The broker's carrier calls these with the peer_calls of the node's loop.
struct tunnel_carried *peer_calls_open(struct peer_calls *calls, struct tunnel_node *node,
                                       const struct tunnel_request *request, const struct tunnel_carrier_events *events,
                                       void *arg);
void peer_calls_write(struct tunnel_carried *call, const void *at, size_t len);
void peer_calls_end(struct tunnel_carried *call, const struct http_header *trailers, size_t count);
void peer_calls_consumed(struct tunnel_carried *call, size_t len);
void peer_calls_cancel(struct tunnel_carried *call);
// All calls are over (their node is gone). on_closed once its handles are closed.
void peer_calls_close(struct peer_calls *calls, loop_fn on_closed, void *arg);

#endif
