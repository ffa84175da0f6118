// tunnel_settings: sessions of agents and the calls through them. Owner: tunnel/.
// Read-only once loaded; any thread.
#ifndef CULVERT_TUNNEL_TUNNEL_SETTINGS_H
#define CULVERT_TUNNEL_TUNNEL_SETTINGS_H

#include "base/config/config.h"

struct tunnel_settings {
    int64_t sessions_max;
    int64_t sessions_per_address;
    int64_t streams_max;
    int64_t ping_after_ms;
    int64_t dead_after_ms;
    int64_t head_timeout_ms;
    int64_t buffered_bytes_max;
    int64_t node_buffered_bytes_max;
    int64_t account_buffered_bytes_max;
    int64_t handshakes_per_second;
    int64_t handshakes_per_address;
    int64_t lease_ttl_ms;
};

CONFIG_SECTION(tunnel_settings);

#endif
