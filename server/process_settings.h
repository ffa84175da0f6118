// process_settings: the process itself. Owner: server/main.c.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_PROCESS_SETTINGS_H
#define CULVERT_SERVER_PROCESS_SETTINGS_H

#include "base/config/config.h"

struct process_settings {
    char *node_name; // replica id in leases and logs
    int64_t loops;   // 0: one a processor, at most 16
    char *log_level;
};

CONFIG_SECTION(process_settings);

#endif
