#include "base/backoff.h"

#include "base/id.h"

void backoff_init(struct backoff *b, uint64_t base_ms, uint64_t cap_ms)
{
    *b = (struct backoff){.base_ms = base_ms, .cap_ms = cap_ms};
}

uint64_t backoff_next_ms(struct backoff *b)
{
    uint64_t span = b->cap_ms;
    if (b->failures < 32 && b->base_ms << b->failures < b->cap_ms) span = b->base_ms << b->failures;
    if (b->failures < 1000) b->failures++;
    return id_random_below(span + 1);
}

void backoff_reset(struct backoff *b)
{
    b->failures = 0;
}
