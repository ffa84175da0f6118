// browser_session_settings: sessions of people in browsers. Owner: modules/identity.
// Read-only once loaded; any thread.
#ifndef CULVERT_MODULES_IDENTITY_BROWSER_SESSION_SETTINGS_H
#define CULVERT_MODULES_IDENTITY_BROWSER_SESSION_SETTINGS_H

#include "base/config/config.h"

struct browser_session_settings {
    int64_t idle_max_ms;
    int64_t life_max_ms;
    int64_t per_user_max;
    int64_t link_life_ms;
    int64_t device_life_ms, device_code_life_ms; // of culvert login in a browser
    int64_t device_codes_max, device_codes_per_address_max;
};

CONFIG_SECTION(browser_session_settings);

#endif
