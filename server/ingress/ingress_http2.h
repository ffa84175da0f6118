// ingress_http2: an HTTP/2 server (RFC 9113) on one connection, by libnghttp2: streams are ingress_http2_stream.
// Bounded against clients that cost more than they bring: streams at once, header bytes, resets a second, frames that
// ask for answers or do nothing, continuations, request bytes that wait for the tunnel. Owned by its connection.
#ifndef CULVERT_SERVER_INGRESS_HTTP2_H
#define CULVERT_SERVER_INGRESS_HTTP2_H

#include "server/ingress/ingress_connection.h"

extern const struct ingress_protocol ingress_http2_protocol;

#endif
