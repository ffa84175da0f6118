#include "server/intake/unpack_budget.h"

#include "base/hash.h"
#include "base/id.h"
#include "base/loop/timer.h"
#include "base/mem.h"

enum { BUCKETS = 4096, REFILL_MS = 50 };

struct bucket {
    int64_t bytes; // that may be unpacked; below 0: a debt
    uint64_t at_ms;
};

struct unpack_budget {
    struct timer timer;
    uint64_t bytes_per_second, seed;
    void (*on_refill)(void *ctx);
    void *ctx;
    struct bucket buckets[BUCKETS];
};

static int64_t full(const struct unpack_budget *budget)
{
    return (int64_t)budget->bytes_per_second * UNPACK_BUDGET_BURST_SECONDS;
}

static void on_due(void *arg)
{
    struct unpack_budget *budget = arg;
    budget->on_refill(budget->ctx);
}

struct unpack_budget *unpack_budget_create(struct loop *loop, uint64_t bytes_per_second, void (*on_refill)(void *ctx),
                                           void *ctx)
{
    struct unpack_budget *budget = mem_zalloc(sizeof *budget);
    budget->bytes_per_second = bytes_per_second;
    budget->seed = id_random_u64();
    budget->on_refill = on_refill;
    budget->ctx = ctx;
    for (size_t i = 0; i < BUCKETS; i++)
        budget->buckets[i].bytes = full(budget);
    timer_init(&budget->timer, loop_uv(loop), on_due, budget);
    return budget;
}

void unpack_budget_destroy(struct unpack_budget *budget)
{
    if (!budget) return;
    timer_finish(&budget->timer);
    mem_free(budget);
}

static struct bucket *bucket_of(struct unpack_budget *budget, struct str account_id, uint64_t now_ms)
{
    struct bucket *bucket = &budget->buckets[hash_end(hash_part(budget->seed, account_id)) % BUCKETS];
    uint64_t passed = now_ms > bucket->at_ms ? now_ms - bucket->at_ms : 0;
    int64_t most = full(budget);
    // Beyond this a bucket is full, whatever its debt was: no product below overflows.
    if (passed > UINT64_C(1000) * UNPACK_BUDGET_BURST_SECONDS * 2)
        passed = UINT64_C(1000) * UNPACK_BUDGET_BURST_SECONDS * 2;
    bucket->bytes += (int64_t)(budget->bytes_per_second * passed / 1000);
    if (bucket->bytes > most) bucket->bytes = most;
    bucket->at_ms = now_ms;
    return bucket;
}

void unpack_budget_take(struct unpack_budget *budget, struct str account_id, uint64_t bytes, uint64_t now_ms)
{
    if (budget->bytes_per_second) bucket_of(budget, account_id, now_ms)->bytes -= (int64_t)bytes;
}

bool unpack_budget_has_room(struct unpack_budget *budget, struct str account_id, uint64_t now_ms)
{
    return !budget->bytes_per_second || bucket_of(budget, account_id, now_ms)->bytes > 0;
}

void unpack_budget_wait(struct unpack_budget *budget)
{
    if (!timer_is_active(&budget->timer)) timer_start(&budget->timer, REFILL_MS, 0);
}
