// upstream_http2: calls to services that speak HTTP/2 with prior knowledge (h2c), which is how gRPC is served in a
// cluster. A few connections a service, shared by its calls; bytes are credited to the service only when the tunnel
// took them, and to the tunnel when the service did, so that flow control reaches from end to end. Trailers, 1xx and
// cancel pass. Owned by the agent; one loop.
#ifndef CULVERT_AGENT_UPSTREAM_HTTP2_H
#define CULVERT_AGENT_UPSTREAM_HTTP2_H

#include "agent/calls/upstream.h"

struct upstream_http2;      // all connections
struct upstream_http2_call; // one call

enum {
    UPSTREAM_HTTP2_CONNECTIONS_MAX = 4, // a service
    UPSTREAM_HTTP2_CALLS_MAX = 1000,    // a connection, those that wait for a free stream included
    UPSTREAM_HTTP2_WINDOW_BYTES = 128 * 1024,
    UPSTREAM_HTTP2_IDLE_MS = 60000,
};

struct upstream_http2 *upstream_http2_create(struct upstream_pool *pool);
void upstream_http2_destroy(struct upstream_http2 *http2); // after its calls; NULL is fine

// As upstream_start() and its companions (agent/calls/upstream.h); only UPSTREAM_HTTP. on_head's head has status and
// headers. NULL with ERROR_UNAVAILABLE: the service has as many calls as it may.
struct upstream_http2_call *upstream_http2_start(struct upstream_http2 *http2, const struct upstream_request *request,
                                                 const struct upstream_events *events, void *arg, struct error *err);
void upstream_http2_cancel(struct upstream_http2_call *call); // RST_STREAM(CANCEL) if it is not finished; NULL is fine
bool upstream_http2_write(struct upstream_http2_call *call, const void *at, size_t len);
void upstream_http2_end(struct upstream_http2_call *call, const struct http_header *trailers, size_t count);
void upstream_http2_resume(struct upstream_http2_call *call);

#endif
