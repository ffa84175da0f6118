// server_broker: the tunnel broker of the server, with its callbacks: each goes to the worker whose
// node asks. The main thread starts it; callbacks run on the node's loop.
#ifndef CULVERT_SERVER_SERVER_BROKER_H
#define CULVERT_SERVER_SERVER_BROKER_H

#include "server/server.h"

// After the server's tokens. The broker is in server->broker; an error leaves it NULL.
MUST_CHECK enum error_code server_broker_start(struct server *server, struct error *err);

#endif
