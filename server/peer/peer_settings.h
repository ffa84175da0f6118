// peer_settings: calls through other replicas. Owner: server/peer.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_PEER_PEER_SETTINGS_H
#define CULVERT_SERVER_PEER_PEER_SETTINGS_H

#include "base/config/config.h"

struct peer_settings {
    int64_t connections_max;
    int64_t streams_max;
    int64_t idle_timeout_ms;
    int64_t registry_entries_max;
};

CONFIG_SECTION(peer_settings);

#endif
