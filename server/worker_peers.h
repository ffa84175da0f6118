// worker_peers: one loop's part in the hop between replicas, put together: the peer listener, the
// links, the calls that are carried elsewhere: two parts of a worker (server/worker_part.h). Without
// a peer listener in the settings there are no links either, and calls only wait for their runtime
// to come here. Everything on its loop.
#ifndef CULVERT_SERVER_WORKER_PEERS_H
#define CULVERT_SERVER_WORKER_PEERS_H

#include "server/worker.h"
#include "tunnel/broker.h"

struct worker_peers;

extern const struct tunnel_carrier worker_peers_carrier; // ctx: the server

void worker_peers_set_tls(struct worker_peers *peers, SSL_CTX *listener, SSL_CTX *link);

#endif
