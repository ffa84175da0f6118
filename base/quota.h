// quota: how many of something the loops of a process may have together. A value that all of them point to;
// thread-safe.
#ifndef CULVERT_BASE_QUOTA_H
#define CULVERT_BASE_QUOTA_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct quota {
    size_t max; // 0: no end
    atomic_size_t used;
};

static inline bool quota_has_room(const struct quota *quota)
{
    return quota->max == 0 || atomic_load_explicit(&quota->used, memory_order_relaxed) < quota->max;
}

// For who looked a moment ago: loops that look at once may go over the end by one each.
static inline void quota_add(struct quota *quota)
{
    atomic_fetch_add_explicit(&quota->used, 1, memory_order_relaxed);
}

// Takes one. False: there is none left.
static inline bool quota_take(struct quota *quota)
{
    size_t used = atomic_fetch_add_explicit(&quota->used, 1, memory_order_relaxed);
    if (quota->max == 0 || used < quota->max) return true;
    atomic_fetch_sub_explicit(&quota->used, 1, memory_order_relaxed);
    return false;
}

static inline void quota_give(struct quota *quota)
{
    size_t used = atomic_fetch_sub_explicit(&quota->used, 1, memory_order_relaxed);
    assert(used > 0);
    (void)used;
}

#endif
