// router_settings: services that calls may reach. Owner: agent/calls/router.h.
// Read-only once loaded; any thread.
#ifndef CULVERT_AGENT_CALLS_ROUTER_SETTINGS_H
#define CULVERT_AGENT_CALLS_ROUTER_SETTINGS_H

#include "base/config/config.h"

struct router_settings {
    char *services;
    char *webhooks;
    char *workflows;
    char *ca_file; // empty: the system's CAs
    char *tcp_allow;
    int64_t streams_max;
    int64_t connect_timeout_ms;
};

CONFIG_SECTION(router_settings);

#endif
