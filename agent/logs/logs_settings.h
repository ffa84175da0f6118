// logs_settings: limits of reading logs of pods; who may is in operations.allowed. Owner: agent/logs.
// Read-only once loaded; any thread.
#ifndef CULVERT_AGENT_LOGS_LOGS_SETTINGS_H
#define CULVERT_AGENT_LOGS_LOGS_SETTINGS_H

#include "base/config/config.h"

struct logs_settings {
    int64_t calls_max;
    int64_t containers_max;
};

CONFIG_SECTION(logs_settings);

#endif
