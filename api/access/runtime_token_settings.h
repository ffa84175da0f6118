// runtime_token_settings: the tokens of runtimes. Owner: api/access/runtime_token_store.h.
// Read-only once loaded; any thread.
#ifndef CULVERT_API_ACCESS_RUNTIME_TOKEN_SETTINGS_H
#define CULVERT_API_ACCESS_RUNTIME_TOKEN_SETTINGS_H

#include "base/config/config.h"

struct runtime_token_settings {
    int64_t valid_max;
    int64_t rotation_grace_ms;
    int64_t sessions_per_minute;
    int64_t used_interval_ms;
    int64_t enrollments_per_second;
};

CONFIG_SECTION(runtime_token_settings);

#endif
