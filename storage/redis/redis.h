// redis: one connection to Redis on one loop (hiredis, async), with a time-out a command and
// reconnection by full jitter; hiredis 0.14 has neither. Redis is a cache and a directory here:
// when it is away, commands fail at once with ERROR_UNAVAILABLE and the callers go on without. One
// loop; every call on it.
#ifndef CULVERT_STORAGE_REDIS_REDIS_H
#define CULVERT_STORAGE_REDIS_REDIS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "base/str.h"

struct redis;

struct redis_options {
    const char *url;           // see redis_address_init(); "" : none is used
    const char *password_file; // "" : none
    bool allow_plaintext;      // redis:// also to hosts other than the loopback
    // rediss://: "" or NULL: the system's CAs, no certificate of ours.
    const char *ca_file, *certificate_file, *key_file;
    uint64_t timeout_ms;
    size_t pending_max; // commands in flight, then ERROR_UNAVAILABLE
};

// reply: a string or integer as text (empty for nil); valid during the callback.
typedef void (*redis_done)(void *arg, const struct error *err, struct str reply);

struct redis *redis_create(struct loop *loop, const struct redis_options *options, struct error *err);
void redis_close(struct redis *redis, loop_fn on_closed, void *arg);
bool redis_is_ready(const struct redis *redis);
bool redis_is_configured(const struct redis *redis);
// argv form: no format strings with data. on_done may be NULL.
void redis_command(struct redis *redis, size_t count, const struct str *words, redis_done on_done, void *arg);
// Delivers messages of a channel until redis_close; resubscribes after a reconnect (on_gap says
// that some may be lost).
typedef void (*redis_message)(void *arg, struct str channel, struct str message);
void redis_subscribe(struct redis *redis, struct str channel, redis_message on_message, loop_fn on_gap, void *arg);
// The same for all channels that match, as "name:*".
void redis_subscribe_pattern(struct redis *redis, struct str pattern, redis_message on_message, loop_fn on_gap,
                             void *arg);

#endif
