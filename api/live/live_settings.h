// live_settings: GraphQL subscriptions. Owner: api/live/live.h. Read-only once loaded; any thread.
#ifndef CULVERT_API_LIVE_LIVE_SETTINGS_H
#define CULVERT_API_LIVE_LIVE_SETTINGS_H

#include "base/config/config.h"

struct live_settings {
    int64_t streams_max;
    int64_t streams_per_account_max;
    int64_t streams_per_user_max;
    int64_t reads_max;
    int64_t delay_ms;
    int64_t refresh_ms;
    int64_t heartbeat_ms;
    int64_t stall_ms;
};

CONFIG_SECTION(live_settings);

#endif
