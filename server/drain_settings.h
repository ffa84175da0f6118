// drain_settings: what happens between SIGTERM and the end. Owner: server/worker_drain.c.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_DRAIN_SETTINGS_H
#define CULVERT_SERVER_DRAIN_SETTINGS_H

#include "base/config/config.h"

struct drain_settings {
    int64_t lame_duck_ms;
    int64_t spread_ms;
    int64_t deadline_ms;
};

CONFIG_SECTION(drain_settings);

#endif
