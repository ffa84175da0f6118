// peer_links: the connections of one loop to the peer listeners of other replicas: made when a call
// needs one, one a replica, closed after a time without calls, bounded in number. Everything on its
// loop.
#ifndef CULVERT_SERVER_PEER_LINKS_H
#define CULVERT_SERVER_PEER_LINKS_H

#include "base/loop/loop.h"
#include "server/peer/peer_pipe.h"

struct peer_links;

struct peer_links_options {
    struct peer_pool *pool;
    SSL_CTX *tls;         // of links; a reference is taken
    unsigned streams_max; // calls at once on one connection
    uint64_t idle_ms;
};

struct peer_links *peer_links_create(struct loop *loop, const struct peer_links_options *options);
// Where new calls to that address go: a connection, perhaps one that is still being made (its streams fail unprocessed
// when it cannot be). NULL: there are too many, or it has as many calls as it may.
struct peer_pipe *peer_links_get(struct peer_links *links, const char *address);
void peer_links_set_tls(struct peer_links *links, SSL_CTX *tls); // for connections from now on
void peer_links_tick(struct peer_links *links, uint64_t now_ms); // about once a second
// Cuts what is left; on_closed, perhaps at once, when the memory is gone.
void peer_links_close(struct peer_links *links, loop_fn on_closed, void *arg);

#endif
