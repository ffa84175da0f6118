// agent_operation_settings: what users of the platform may do in this cluster. Owner:
// agent/operations. Read-only once loaded; any thread.
#ifndef CULVERT_AGENT_OPERATIONS_AGENT_OPERATION_SETTINGS_H
#define CULVERT_AGENT_OPERATIONS_AGENT_OPERATION_SETTINGS_H

#include "base/config/config.h"

struct agent_operation_settings {
    char *allowed; // rights, comma-separated; empty: none
    int64_t held_max;
    int64_t at_once_max;
    int64_t follow_ms;
};

CONFIG_SECTION(agent_operation_settings);

#endif
