// sign_in_settings: sign-in at identity providers. Owner: api/oidc/oidc.h. Read-only once loaded;
// any thread.
#ifndef CULVERT_API_OIDC_SIGN_IN_SETTINGS_H
#define CULVERT_API_OIDC_SIGN_IN_SETTINGS_H

#include "base/config/config.h"

struct sign_in_settings {
    char *providers_file, *ca_file;
    int64_t attempt_life_ms, clock_skew_ms;
    int64_t timeout_ms, answer_bytes_max, requests_max;
    int64_t keys_life_ms, keys_interval_ms;
};

CONFIG_SECTION(sign_in_settings);

#endif
