// worker_peers: one loop's part in the hop between replicas, put together: the peer door, the links, the calls that are
// carried elsewhere. Without a peer door in the settings there are no links either, and calls only wait for their
// runtime to come here. Everything on its loop.
#ifndef CULVERT_SERVER_WORKER_PEERS_H
#define CULVERT_SERVER_WORKER_PEERS_H

#include "server/worker.h"
#include "tunnel/broker.h"

struct worker_peers;

extern const struct tunnel_carrier worker_peers_carrier; // ctx: the server

// After the worker's registry.
struct worker_peers *worker_peers_create(struct worker *worker);
// After the worker's node: opens the door.
MUST_CHECK enum error_code worker_peers_open_door(struct worker_peers *peers, struct error *err);
void worker_peers_set_tls(struct worker_peers *peers, SSL_CTX *door, SSL_CTX *link);
// No session is left here: other replicas are told to go elsewhere.
void worker_peers_retire(struct worker_peers *peers);
bool worker_peers_is_idle(const struct worker_peers *peers); // carries nothing for other replicas
void worker_peers_close_door(struct worker_peers *peers);    // before the node is destroyed
// After the node is destroyed. on_closed: all is gone.
void worker_peers_close(struct worker_peers *peers, loop_fn on_closed, void *arg);

#endif
