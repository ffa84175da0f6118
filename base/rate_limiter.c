#include "base/rate_limiter.h"

#include <assert.h>
#include <pthread.h>

#include "base/hash.h"
#include "base/id.h"
#include "base/mem.h"

// 384 KiB.
enum { BUCKETS = 16384, PLACES = 8, UNIT = 1000 };

struct bucket {
    uint64_t name;  // its hash; 0: free
    int64_t tokens; // thousandths, as of at_ms
    uint64_t at_ms;
};

struct rate_limiter {
    pthread_mutex_t mutex;
    uint64_t seed, per_second;
    unsigned burst_seconds;
    int64_t full;
    struct bucket buckets[BUCKETS];
};

struct rate_limiter *rate_limiter_create(uint64_t per_second, unsigned burst_seconds)
{
    assert(per_second > 0 && burst_seconds > 0);
    struct rate_limiter *limiter = mem_zalloc(sizeof *limiter);
    pthread_mutex_init(&limiter->mutex, NULL);
    limiter->seed = id_random_u64();
    limiter->per_second = per_second;
    limiter->burst_seconds = burst_seconds;
    limiter->full = (int64_t)(per_second * burst_seconds) * UNIT;
    return limiter;
}

void rate_limiter_destroy(struct rate_limiter *limiter)
{
    if (!limiter) return;
    pthread_mutex_destroy(&limiter->mutex);
    mem_free(limiter);
}

static void refill(const struct rate_limiter *limiter, struct bucket *bucket, uint64_t now_ms)
{
    // From the deepest debt.
    const uint64_t whole_ms = (uint64_t)2 * limiter->burst_seconds * 1000;
    uint64_t passed_ms = now_ms > bucket->at_ms ? now_ms - bucket->at_ms : 0;
    if (passed_ms > whole_ms) passed_ms = whole_ms;
    bucket->tokens += (int64_t)(passed_ms * limiter->per_second);
    if (bucket->tokens > limiter->full) bucket->tokens = limiter->full;
    if (now_ms > bucket->at_ms) bucket->at_ms = now_ms;
}

// The name's own bucket, one that is free, or else one that it shares.
static struct bucket *find_bucket(struct rate_limiter *limiter, struct str name, uint64_t now_ms)
{
    uint64_t hash = hash_end(hash_text(limiter->seed, name));
    struct bucket *free_one = NULL;
    if (!hash) hash = 1;
    for (size_t i = 0; i < PLACES; i++) {
        struct bucket *bucket = &limiter->buckets[(hash + i) % BUCKETS];
        if (bucket->name) refill(limiter, bucket, now_ms);
        if (bucket->name == hash) return bucket;
        if (!free_one && (!bucket->name || bucket->tokens == limiter->full)) free_one = bucket;
    }
    if (!free_one) return &limiter->buckets[hash % BUCKETS];
    *free_one = (struct bucket){.name = hash, .tokens = limiter->full, .at_ms = now_ms};
    return free_one;
}

uint64_t rate_limiter_take(struct rate_limiter *limiter, struct str name, uint64_t now_ms)
{
    uint64_t wait_ms = 0;
    pthread_mutex_lock(&limiter->mutex);
    struct bucket *bucket = find_bucket(limiter, name, now_ms);
    if (bucket->tokens >= UNIT)
        bucket->tokens -= UNIT;
    else
        wait_ms = (uint64_t)(UNIT - bucket->tokens + (int64_t)limiter->per_second - 1) / limiter->per_second;
    pthread_mutex_unlock(&limiter->mutex);
    return wait_ms;
}

void rate_limiter_charge(struct rate_limiter *limiter, struct str name, uint64_t amount, uint64_t now_ms)
{
    pthread_mutex_lock(&limiter->mutex);
    struct bucket *bucket = find_bucket(limiter, name, now_ms);
    int64_t most = bucket->tokens + limiter->full; // down to the deepest debt
    bucket->tokens -= amount < (uint64_t)most / UNIT ? (int64_t)amount * UNIT : most;
    pthread_mutex_unlock(&limiter->mutex);
}
