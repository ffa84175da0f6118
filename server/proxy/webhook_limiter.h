// webhook_limiter: token buckets for calls that nobody answers for (webhooks), one a runtime, in a
// table of fixed size: an attacker can neither grow it nor push a victim's bucket out. Two runtimes
// that fall on one bucket share it, which is stricter, never laxer; the random seed keeps anybody
// from choosing who that is. A value of the listener; one loop.
#ifndef CULVERT_SERVER_WEBHOOK_LIMITER_H
#define CULVERT_SERVER_WEBHOOK_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/runtime_key.h"
#include "base/str.h"

enum { WEBHOOK_LIMITER_BUCKETS = 4096 };

struct webhook_bucket {
    uint64_t tokens; // thousandths of a call
    uint64_t at_ms;
};

struct webhook_limiter {
    unsigned per_second;
    uint64_t seed;
    struct webhook_bucket *buckets;
};

void webhook_limiter_init(struct webhook_limiter *limiter, unsigned per_second);
void webhook_limiter_finish(struct webhook_limiter *limiter);
// Takes one call of this runtime; false: too many. A burst of two seconds' worth passes. now_ms:
// monotonic.
bool webhook_limiter_take(struct webhook_limiter *limiter, const struct runtime_key *key, uint64_t now_ms);

#endif
