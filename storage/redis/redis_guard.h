// redis_guard: counts what was read from Redis and is not what a replica of this deployment wrote
// there: forged, altered, moved to another key, or expired. The value was not used. One a reader,
// on its loop.
#ifndef CULVERT_STORAGE_REDIS_REDIS_GUARD_H
#define CULVERT_STORAGE_REDIS_REDIS_GUARD_H

#include <stdint.h>

#include "base/str.h"

struct metric;

struct redis_guard {
    struct metric *refused;
    const char *what;
    uint64_t refusals;       // since the last log line
    uint64_t quiet_until_ms; // monotonic
};

// what: "answer", "directory", "message"; a literal.
void redis_guard_init(struct redis_guard *guard, const char *what);
// key: where it was, a key or channel. Logs at most once a minute.
void redis_guard_refuse(struct redis_guard *guard, struct str key);

#endif
