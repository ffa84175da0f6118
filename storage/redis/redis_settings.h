// redis_settings: Redis, and the answers that are kept in it. Owner: storage/redis.
// Read-only once loaded; any thread.
#ifndef CULVERT_STORAGE_REDIS_REDIS_SETTINGS_H
#define CULVERT_STORAGE_REDIS_REDIS_SETTINGS_H

#include "base/config/config.h"

struct redis_settings {
    char *url;
    char *password_file;
    bool allow_plaintext;
    char *tls_ca_file;
    char *tls_certificate_file;
    char *tls_key_file;
    int64_t timeout_ms;
    int64_t cache_answer_bytes_max;
    int64_t cache_slower_than_ms;
    int64_t cache_ttl_ms;
    int64_t cache_patience_ms;
};

CONFIG_SECTION(redis_settings);

#endif
