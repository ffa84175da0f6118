// ingress_settings: what a client of the ingress listener may ask for. Owner: server/ingress.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_INGRESS_INGRESS_SETTINGS_H
#define CULVERT_SERVER_INGRESS_INGRESS_SETTINGS_H

#include "base/config/config.h"

struct ingress_settings {
    int64_t connections_max;
    int64_t connections_per_address_max;
    int64_t connections_per_account_max;
    char *trusted_proxies;
    bool http2;
    int64_t http2_streams_max;
    int64_t buffered_bytes_max;
    int64_t head_timeout_ms;
    int64_t idle_timeout_ms;
    int64_t stall_timeout_ms;
    int64_t body_bytes_per_second_min;
    int64_t body_rate_window_ms;
    int64_t credentials_grace_ms;
    int64_t webhooks_per_second;
};

CONFIG_SECTION(ingress_settings);

#endif
