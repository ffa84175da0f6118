// app_proxy: what the agent answers itself under /app-proxy: health for those who look through the
// tunnel, its GraphQL (agent/app_proxy/), and logs of pods (agent/logs/). One loop.
#ifndef CULVERT_AGENT_APP_PROXY_H
#define CULVERT_AGENT_APP_PROXY_H

#include "agent/app_proxy/app_proxy_graphql.h"
#include "agent/logs/logs.h"
#include "agent/tunnel/session.h"
#include "base/str.h"

struct agent_app_proxy_options {
    struct app_proxy_graphql *graphql;
    struct logs *logs;
};

// Takes the stream over. path is the request's, with its query; user: who calls, or empty. options
// live as long as the stream.
void agent_app_proxy_start(const struct agent_app_proxy_options *options, struct agent_stream *stream, struct str path,
                           struct str user);

#endif
