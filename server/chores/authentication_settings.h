// authentication_settings: credentials that are not valid. Owner: server/chores/failed_sign_ins.h.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_CHORES_AUTHENTICATION_SETTINGS_H
#define CULVERT_SERVER_CHORES_AUTHENTICATION_SETTINGS_H

#include "base/config/config.h"

struct authentication_settings {
    int64_t failures_per_address;
    int64_t failures_per_key;
};

CONFIG_SECTION(authentication_settings);

#endif
