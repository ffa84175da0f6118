// peer_door: where other replicas hand over calls for sessions that are here. One a loop; the hop's form is in
// server/peer/peer_wire.h. A call is taken only if the session of exactly this account, runtime and epoch is in this
// process, on whichever loop; it is never carried on. Who may call was decided where the call came in: the door trusts
// the certificates that server/peer/peer_tls.h lets through, and nobody else. Everything on its loop.
#ifndef CULVERT_SERVER_PEER_DOOR_H
#define CULVERT_SERVER_PEER_DOOR_H

#include "base/loop/loop.h"
#include "server/peer/peer_pipe.h"

struct peer_door;

struct peer_door_options {
    const char *listen;
    struct peer_pool *pool;
    SSL_CTX *tls; // of doors; a reference is taken
    struct tunnel_node *node;
    unsigned connections_max, streams_max; // a connection
};

struct peer_door *peer_door_create(struct loop *loop, const struct peer_door_options *options, struct error *err);
void peer_door_set_tls(struct peer_door *door, SSL_CTX *tls); // for connections from now on
void peer_door_tick(struct peer_door *door, uint64_t now_ms); // about once a second
// Takes no more connections and says GOAWAY on those that there are: callers go elsewhere with what was not processed.
void peer_door_retire(struct peer_door *door);
bool peer_door_is_idle(const struct peer_door *door); // no call is under way
// Cuts what is left and frees; its calls are cancelled.
void peer_door_destroy(struct peer_door *door);

#endif
