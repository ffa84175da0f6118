#include "api/compile/plan_cache.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

struct plan_cache {
    struct table plans;
    struct list used; // the least recently used first
    size_t plans_max;
    struct metric *hits, *misses, *evictions, *kept;
};

struct plan_cache *plan_cache_create(size_t plans_max)
{
    struct plan_cache *cache = mem_zalloc(sizeof *cache);
    table_init(&cache->plans);
    list_init(&cache->used);
    cache->plans_max = plans_max;
    struct metric_family *looks =
        metrics_counter("culvert_graphql_plans_total", "Lookups of compiled GraphQL selections.", "result", NULL);
    cache->hits = metric_with(looks, "hit");
    cache->misses = metric_with(looks, "miss");
    cache->evictions = metric_with(looks, "evicted");
    cache->kept =
        metric_with(metrics_gauge("culvert_graphql_plans", "Compiled GraphQL selections that are kept.", NULL));
    return cache;
}

static void evict(struct plan_cache *cache, struct plan *plan)
{
    table_remove(&cache->plans, &plan->node);
    list_remove(&plan->used);
    metric_move(cache->kept, -1);
    plan_unref(plan);
}

void plan_cache_destroy(struct plan_cache *cache)
{
    if (!cache) return;
    while (!list_is_empty(&cache->used))
        evict(cache, LIST_OWNER(cache->used.next, struct plan, used));
    table_finish(&cache->plans);
    mem_free(cache);
}

static uint64_t hash_of(const struct plan_cache *cache, struct str key)
{
    return hash_end(hash_part(cache->plans.seed, key));
}

static bool is_plan(const struct table_node *node, const void *key)
{
    return str_eq(TABLE_OWNER(node, const struct plan, node)->key, *(const struct str *)key);
}

struct plan *plan_cache_find(struct plan_cache *cache, struct str key)
{
    struct table_node *node = table_find(&cache->plans, hash_of(cache, key), is_plan, &key);
    metric_add(node ? cache->hits : cache->misses, 1);
    if (!node) return NULL;
    struct plan *plan = TABLE_OWNER(node, struct plan, node);
    list_remove(&plan->used);
    list_add_last(&cache->used, &plan->used);
    plan->references++;
    return plan;
}

void plan_cache_add(struct plan_cache *cache, struct plan *plan)
{
    if (cache->plans.count >= cache->plans_max) {
        evict(cache, LIST_OWNER(cache->used.next, struct plan, used));
        metric_add(cache->evictions, 1);
    }
    plan->references++;
    table_add(&cache->plans, &plan->node, hash_of(cache, plan->key));
    list_add_last(&cache->used, &plan->used);
    metric_move(cache->kept, 1);
}
