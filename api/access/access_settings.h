// access_settings: the limits of rules. Read-only once loaded; any thread.
#ifndef CULVERT_API_ACCESS_ACCESS_SETTINGS_H
#define CULVERT_API_ACCESS_ACCESS_SETTINGS_H

#include "base/config/config.h"

struct access_settings {
    int64_t rules_max;
    int64_t rule_values_max;
    int64_t simulated_applications_max;
};

CONFIG_SECTION(access_settings);

#endif
