// rate_limiter: token buckets by name (an account, a user), in memory that never grows. A bucket is
// given to another name only when it is full again, when it says nothing more; where all places of
// a name are taken it shares one, which is stricter, never laxer, so that a count cannot be flushed
// by many names. The seed of its hash is random. Amounts are whole units. Thread-safe.
#ifndef CULVERT_BASE_RATE_LIMITER_H
#define CULVERT_BASE_RATE_LIMITER_H

#include <stdint.h>

#include "base/str.h"

struct rate_limiter;

// per_second: what a name may take on the average; burst_seconds' worth of it at once. Not 0.
struct rate_limiter *rate_limiter_create(uint64_t per_second, unsigned burst_seconds);
void rate_limiter_destroy(struct rate_limiter *limiter); // NULL is fine

// now_ms: monotonic. Takes one; 0: taken, else in how many milliseconds there will be one.
uint64_t rate_limiter_take(struct rate_limiter *limiter, struct str name, uint64_t now_ms);
// What was taken besides, as it turned out. May leave a debt, at most as large as the burst.
void rate_limiter_charge(struct rate_limiter *limiter, struct str name, uint64_t amount, uint64_t now_ms);

#endif
