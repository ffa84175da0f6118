// peer_listener: where other replicas hand over calls for sessions that are here. One a loop; the
// hop's form is in server/peer/peer_wire.h. A call is taken only if the session of exactly this
// account, runtime and epoch is in this process, on whichever loop; it is never carried on. Who may
// call was decided where the call came in: the listener trusts the certificates that
// server/peer/peer_tls.h lets through, and nobody else. Everything on its loop.
#ifndef CULVERT_SERVER_PEER_LISTENER_H
#define CULVERT_SERVER_PEER_LISTENER_H

#include "base/loop/loop.h"
#include "server/peer/peer_pipe.h"

struct peer_listener;

struct peer_listener_options {
    const char *listen;
    struct peer_pool *pool;
    SSL_CTX *tls; // of listeners; a reference is taken
    struct tunnel_node *node;
    unsigned connections_max, streams_max; // a connection
};

struct peer_listener *peer_listener_create(struct loop *loop, const struct peer_listener_options *options,
                                           struct error *err);
void peer_listener_set_tls(struct peer_listener *listener, SSL_CTX *tls); // for connections from now on
void peer_listener_tick(struct peer_listener *listener, uint64_t now_ms); // about once a second
// Takes no more connections and says GOAWAY on those that there are: callers go elsewhere with what
// was not processed.
void peer_listener_retire(struct peer_listener *listener);
bool peer_listener_is_idle(const struct peer_listener *listener); // no call is under way
// Cuts what is left and frees; its calls are cancelled.
void peer_listener_destroy(struct peer_listener *listener);

#endif
