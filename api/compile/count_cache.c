#include "api/compile/count_cache.h"

#include <assert.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/table.h"

struct count_waiter {
    struct count_waiter *next;
    count_counted on_counted;
    void *arg;
};

// Under way while it has no value, then kept.
struct count_flight {
    struct table_node node;
    struct list kept; // in the order of their ends; in no list while under way
    struct count_cache *cache;
    struct str key;
    char *key_memory;
    json_t *value;
    uint64_t ended_ms; // monotonic
    struct count_waiter *waiters;
};

struct count_cache {
    struct table flights;
    struct list kept;
    size_t counts_max;
    uint64_t interval_ms;
    struct metric *counted, *shared;
};

struct count_cache *count_cache_create(size_t counts_max, uint64_t interval_ms)
{
    struct count_cache *cache = mem_zalloc(sizeof *cache);
    table_init(&cache->flights);
    list_init(&cache->kept);
    cache->counts_max = counts_max;
    cache->interval_ms = interval_ms;
    struct metric_family *family = metrics_counter("culvert_graphql_counts_total",
                                                   "Answers with totals, fences and facets of lists.", "result", NULL);
    cache->counted = metric_with(family, "counted");
    cache->shared = metric_with(family, "shared");
    return cache;
}

static void flight_destroy(struct count_flight *flight)
{
    table_remove(&flight->cache->flights, &flight->node);
    list_remove(&flight->kept);
    json_decref(flight->value);
    mem_free(flight->key_memory);
    mem_free(flight);
}

static void drop_old(struct count_cache *cache)
{
    uint64_t now = clock_mono_ms();
    while (!list_is_empty(&cache->kept)) {
        struct count_flight *oldest = LIST_OWNER(cache->kept.next, struct count_flight, kept);
        if (now - oldest->ended_ms < cache->interval_ms && cache->flights.count <= cache->counts_max) break;
        flight_destroy(oldest);
    }
}

void count_cache_destroy(struct count_cache *cache)
{
    if (!cache) return;
    while (!list_is_empty(&cache->kept))
        flight_destroy(LIST_OWNER(cache->kept.next, struct count_flight, kept));
    table_finish(&cache->flights);
    mem_free(cache);
}

static bool is_flight(const struct table_node *node, const void *key)
{
    return str_eq(TABLE_OWNER(node, const struct count_flight, node)->key, *(const struct str *)key);
}

static void add_waiter(struct count_flight *flight, struct arena *arena, count_counted on_counted, void *arg)
{
    struct count_waiter *waiter = arena_alloc(arena, sizeof *waiter);
    *waiter = (struct count_waiter){flight->waiters, on_counted, arg};
    flight->waiters = waiter;
}

struct count_flight *count_cache_join(struct count_cache *cache, struct str key, struct arena *arena,
                                      count_counted on_counted, void *arg)
{
    assert(on_counted);
    drop_old(cache);
    uint64_t hash = hash_end(hash_part(cache->flights.seed, key));
    struct table_node *node = table_find(&cache->flights, hash, is_flight, &key);
    struct count_flight *flight = node ? TABLE_OWNER(node, struct count_flight, node) : NULL;
    metric_add(flight ? cache->shared : cache->counted, 1);
    if (flight && flight->value) {
        on_counted(arg, NULL, flight->value);
        return NULL;
    }
    bool is_new = !flight;
    if (is_new) {
        flight = mem_zalloc(sizeof *flight);
        flight->cache = cache;
        flight->key_memory = mem_strndup(key.at, key.len);
        flight->key = str_of(flight->key_memory, key.len);
        list_init(&flight->kept);
        table_add(&cache->flights, &flight->node, hash);
    }
    add_waiter(flight, arena, on_counted, arg);
    return is_new ? flight : NULL;
}

void count_flight_end(struct count_flight *flight, const struct error *err, json_t *value)
{
    struct count_cache *cache = flight->cache;
    struct count_waiter *waiter = flight->waiters;
    assert(!flight->value && (err || value)); // it ends once
    flight->waiters = NULL;
    flight->value = value;
    flight->ended_ms = clock_mono_ms();
    if (err || !cache->counts_max || !cache->interval_ms) {
        json_incref(value);
        flight_destroy(flight);
    } else {
        list_add_last(&cache->kept, &flight->kept);
        json_incref(value);
    }
    for (struct count_waiter *next; waiter; waiter = next) {
        next = waiter->next; // its memory goes with its answer
        waiter->on_counted(waiter->arg, err, value);
    }
    json_decref(value);
}
