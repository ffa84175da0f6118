// calls: every stream that the platform opens comes through here: who calls, where it goes, who takes it. Nothing is
// decided once for a whole session. Owned by the agent; one loop.
#ifndef CULVERT_AGENT_CALLS_H
#define CULVERT_AGENT_CALLS_H

#include <stdint.h>

#include "agent/calls/app_proxy.h"
#include "agent/calls/router.h"
#include "agent/calls/upstream_http2.h"
#include "agent/calls/upstream_pool.h"
#include "agent/tunnel/session.h"
#include "agent/tunnel/tunnel.h"
#include "base/id.h"

struct agent_calls;
struct reporter;

struct agent_calls_options { // everything outlives the calls
    const struct agent_router *router;
    struct upstream_pool *pool;
    struct upstream_http2 *http2;
    struct reporter *reporter; // NULL: reports are off
    const char *runtime;       // that an identity must name
    struct agent_app_proxy_options app_proxy;
};

struct agent_calls *agent_calls_create(const struct agent_calls_options *options);
void agent_calls_destroy(struct agent_calls *calls); // after its streams; NULL is fine
// A request head arrived; trust is of the tunnel that it came through, and says what its identity must be like.
void agent_calls_accept(struct agent_calls *calls, struct agent_stream *stream, struct agent_tunnel_trust *trust);
// Ends the reports stream, which would never end by itself: before draining.
void agent_calls_stop_reports(struct agent_calls *calls);

#endif
