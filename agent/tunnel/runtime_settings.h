// runtime_settings: which runtime this is, and its token. Owner: agent/tunnel.
// Read-only once loaded; any thread.
#ifndef CULVERT_AGENT_TUNNEL_RUNTIME_SETTINGS_H
#define CULVERT_AGENT_TUNNEL_RUNTIME_SETTINGS_H

#include "base/config/config.h"

struct runtime_settings {
    char *name;
    char *token_file;
    char *enrollment_token_file; // empty: the runtime exists
    char *instance_id;           // empty: the host's name
};

CONFIG_SECTION(runtime_settings);

#endif
