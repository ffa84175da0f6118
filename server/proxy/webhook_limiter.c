#include "server/proxy/webhook_limiter.h"

#include "base/hash.h"
#include "base/id.h"
#include "base/mem.h"

enum { CALL = 1000, BURST_SECONDS = 2 };

void webhook_limiter_init(struct webhook_limiter *limiter, unsigned per_second)
{
    limiter->per_second = per_second;
    limiter->seed = id_random_u64();
    limiter->buckets = mem_array(WEBHOOK_LIMITER_BUCKETS, sizeof *limiter->buckets);
    for (size_t i = 0; i < WEBHOOK_LIMITER_BUCKETS; i++)
        limiter->buckets[i].tokens = (uint64_t)per_second * BURST_SECONDS * CALL;
}

void webhook_limiter_finish(struct webhook_limiter *limiter)
{
    mem_free(limiter->buckets);
    limiter->buckets = NULL;
}

bool webhook_limiter_take(struct webhook_limiter *limiter, const struct runtime_key *key, uint64_t now_ms)
{
    uint64_t hash = runtime_key_hash(limiter->seed, key);
    struct webhook_bucket *bucket = &limiter->buckets[hash % WEBHOOK_LIMITER_BUCKETS];
    uint64_t full = (uint64_t)limiter->per_second * BURST_SECONDS * CALL;
    uint64_t passed = now_ms > bucket->at_ms ? now_ms - bucket->at_ms : 0;
    if (passed > BURST_SECONDS * 1000) passed = BURST_SECONDS * 1000;
    bucket->tokens += passed * limiter->per_second; // thousandths a millisecond
    if (bucket->tokens > full) bucket->tokens = full;
    bucket->at_ms = now_ms;
    if (bucket->tokens < CALL) return false;
    bucket->tokens -= CALL;
    return true;
}
