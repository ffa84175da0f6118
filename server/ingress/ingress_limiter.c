#include "server/ingress/ingress_limiter.h"

#include "base/id.h"
#include "base/mem.h"

enum { CALL = 1000, BURST_SECONDS = 2 };

void ingress_limiter_init(struct ingress_limiter *limiter, unsigned per_second)
{
    limiter->per_second = per_second;
    limiter->seed = id_random_u64();
    limiter->buckets = mem_array(INGRESS_LIMITER_BUCKETS, sizeof *limiter->buckets);
    for (size_t i = 0; i < INGRESS_LIMITER_BUCKETS; i++)
        limiter->buckets[i].tokens = (uint64_t)per_second * BURST_SECONDS * CALL;
}

void ingress_limiter_finish(struct ingress_limiter *limiter)
{
    mem_free(limiter->buckets);
    limiter->buckets = NULL;
}

// FNV-1a with a secret start and a final mix (splitmix64).
static uint64_t hash_more(uint64_t hash, struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        hash = (hash ^ (uint8_t)s.at[i]) * 0x100000001b3ull;
    return (hash ^ 0xff) * 0x100000001b3ull;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

bool ingress_limiter_take(struct ingress_limiter *limiter, struct str account_id, struct str runtime, uint64_t now_ms)
{
    uint64_t hash = mix(hash_more(hash_more(limiter->seed, account_id), runtime));
    struct ingress_bucket *bucket = &limiter->buckets[hash % INGRESS_LIMITER_BUCKETS];
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
