// plan_cache: plans by what tells them apart (plan_make), the least recently used one leaves. One
// an api, on its loop.
#ifndef CULVERT_API_COMPILE_PLAN_CACHE_H
#define CULVERT_API_COMPILE_PLAN_CACHE_H

#include "api/compile/plan.h"

struct plan_cache;

struct plan_cache *plan_cache_create(size_t plans_max);
void plan_cache_destroy(struct plan_cache *cache); // NULL is fine
// With a reference for the caller; NULL: there is none.
struct plan *plan_cache_find(struct plan_cache *cache, struct str key);
void plan_cache_add(struct plan_cache *cache, struct plan *plan); // takes a reference of its own

#endif
