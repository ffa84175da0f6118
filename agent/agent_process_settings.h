// agent_process_settings: the process itself. Owner: agent/main.c.
// Read-only once loaded; any thread.
#ifndef CULVERT_AGENT_AGENT_PROCESS_SETTINGS_H
#define CULVERT_AGENT_AGENT_PROCESS_SETTINGS_H

#include "base/config/config.h"

struct agent_process_settings {
    char *admin_listen; // empty: no listener
    int64_t shutdown_deadline_ms;
    char *log_level;
};

CONFIG_SECTION(agent_process_settings);

#endif
