// ingress_http1: a strict HTTP/1.1 server on one connection. It reads one request at a time, keeps the connection alive
// between them, and watches the read side while an answer runs, so that a client who leaves ends the call in the
// cluster at once. Upgrades: WebSocket (RFC 6455) and connect-tcp (a byte stream after 101). Owned by its connection.
#ifndef CULVERT_SERVER_INGRESS_HTTP1_H
#define CULVERT_SERVER_INGRESS_HTTP1_H

#include "server/ingress/ingress_connection.h"

extern const struct ingress_protocol ingress_http1_protocol;

#endif
