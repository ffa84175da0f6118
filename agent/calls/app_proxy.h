// app_proxy: what the agent answers itself under /app-proxy: health for those who look through the tunnel, and the
// one GraphQL query that clients send first. One loop.
#ifndef CULVERT_AGENT_APP_PROXY_H
#define CULVERT_AGENT_APP_PROXY_H

#include "agent/tunnel/session.h"
#include "base/str.h"

struct agent_app_proxy_options {
    const char *version;       // of the agent
    const char *platform_host; // where it is connected to
};

// Takes the stream over. path is the request's, with its query. options live as long as the stream.
void agent_app_proxy_start(const struct agent_app_proxy_options *options, struct agent_stream *stream, struct str path);

#endif
