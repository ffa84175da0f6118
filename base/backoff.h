// backoff: full jitter, rand(0, min(cap, base * 2^n)). A value owned by whoever retries; one thread.
#ifndef CULVERT_BASE_BACKOFF_H
#define CULVERT_BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    uint64_t base_ms;
    uint64_t cap_ms;
    unsigned failures;
};

void backoff_init(struct backoff *b, uint64_t base_ms, uint64_t cap_ms);
uint64_t backoff_next_ms(struct backoff *b); // counts a failure, gives the wait before the next try
void backoff_reset(struct backoff *b);

#endif
