// bus_settings: what lies between intake and event handler. Owner: server/bus.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_BUS_BUS_SETTINGS_H
#define CULVERT_SERVER_BUS_BUS_SETTINGS_H

#include "base/config/config.h"

struct bus_settings {
    char *kind;
    char *url;
    char *password_file;
    bool allow_plaintext;
    bool accept_unsigned;
    int64_t message_age_max_ms;
    char *tls_ca_file;
    char *tls_certificate_file;
    char *tls_key_file;
    char *prefix;
    int64_t shards;
    int64_t window;
    int64_t window_bytes;
    int64_t message_count;
    int64_t message_bytes;
    int64_t prefetch;
    int64_t confirm_timeout_ms;
    int64_t connect_timeout_ms;
    int64_t heartbeat_ms;
    int64_t delivery_limit;
    int64_t queue_bytes_max;
    int64_t dead_letters_max;
};

CONFIG_SECTION(bus_settings);

#endif
