// proxy: carries one call between its stream in the tunnel and a service in the cluster, in both directions, at the
// pace of the slower side. The call frees itself when its stream closes. One loop.
#ifndef CULVERT_AGENT_PROXY_H
#define CULVERT_AGENT_PROXY_H

#include "agent/calls/router.h"
#include "agent/calls/upstream_http2.h"
#include "agent/calls/upstream_pool.h"
#include "agent/tunnel/session.h"

// Takes the stream over. route is one of kind AGENT_ROUTE_SERVICE. What goes wrong becomes an answer with culvert-cause
// (dial-failed, upstream-failed, not-allowed) or, behind the head, a reset.
void agent_proxy_start(struct upstream_pool *pool, struct upstream_http2 *http2, struct agent_stream *stream,
                       const struct agent_route *route);

#endif
