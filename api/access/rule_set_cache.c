#include "api/access/rule_set_cache.h"

#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/table.h"

struct rule_set {
    struct table_node node;
    struct list used;
    struct access_rules *rules;
    size_t bytes; // when it was last used
    char *account_id, *name;
};

struct rule_set_cache {
    struct table sets;
    struct list used; // the least recently used first
    size_t bytes;
    struct metric *kept, *loaded;
};

struct set_key {
    struct str account_id, name;
};

struct rule_set_cache *rule_set_cache_create(void)
{
    struct rule_set_cache *cache = mem_zalloc(sizeof *cache);
    table_init(&cache->sets);
    list_init(&cache->used);
    cache->kept = metric_with(metrics_gauge("culvert_access_rule_sets", "Rule-sets of users that are kept.", NULL));
    cache->loaded = metric_with(
        metrics_counter("culvert_access_rule_sets_loaded_total", "Rule-sets that were read and compiled.", NULL));
    return cache;
}

static void evict(struct rule_set_cache *cache, struct rule_set *set)
{
    table_remove(&cache->sets, &set->node);
    list_remove(&set->used);
    cache->bytes -= set->bytes;
    metric_move(cache->kept, -1);
    access_rules_unref(set->rules);
    mem_free(set->account_id);
    mem_free(set->name);
    mem_free(set);
}

void rule_set_cache_destroy(struct rule_set_cache *cache)
{
    if (!cache) return;
    while (!list_is_empty(&cache->used))
        evict(cache, LIST_OWNER(cache->used.next, struct rule_set, used));
    table_finish(&cache->sets);
    mem_free(cache);
}

static uint64_t hash_of(const struct rule_set_cache *cache, const struct set_key *key)
{
    return hash_end(hash_part(hash_part(cache->sets.seed, key->account_id), key->name));
}

static bool is_set(const struct table_node *node, const void *wanted)
{
    const struct rule_set *set = TABLE_OWNER(node, const struct rule_set, node);
    const struct set_key *key = wanted;
    return str_eq(str_c(set->account_id), key->account_id) && str_eq(str_c(set->name), key->name);
}

static struct rule_set *find(struct rule_set_cache *cache, const struct set_key *key)
{
    struct table_node *node = table_find(&cache->sets, hash_of(cache, key), is_set, key);
    return node ? TABLE_OWNER(node, struct rule_set, node) : NULL;
}

// The newest stays, whatever its size: the one who asked needs it.
static void bound(struct rule_set_cache *cache)
{
    while ((cache->bytes > RULE_SET_CACHE_BYTES || cache->sets.count > RULE_SET_CACHE_ENTRIES) && cache->sets.count > 1)
        evict(cache, LIST_OWNER(cache->used.next, struct rule_set, used));
}

static void note_use(struct rule_set_cache *cache, struct rule_set *set)
{
    size_t bytes = access_rules_bytes(set->rules);
    cache->bytes += bytes - set->bytes;
    set->bytes = bytes;
    list_remove(&set->used);
    list_add_last(&cache->used, &set->used);
}

struct access_rules *rule_set_cache_find(struct rule_set_cache *cache, struct str account_id, struct str name)
{
    struct rule_set *set = find(cache, &(struct set_key){account_id, name});
    if (!set) return NULL;
    note_use(cache, set);
    bound(cache);
    return set->rules;
}

void rule_set_cache_put(struct rule_set_cache *cache, struct str account_id, struct str name,
                        struct access_rules *rules)
{
    const struct set_key key = {account_id, name};
    metric_add(cache->loaded, 1);
    if (find(cache, &key)) return;
    struct rule_set *set = mem_zalloc(sizeof *set);
    list_init(&set->used);
    set->rules = access_rules_ref(rules);
    set->account_id = mem_strndup(account_id.at, account_id.len);
    set->name = mem_strndup(name.at, name.len);
    table_add(&cache->sets, &set->node, hash_of(cache, &key));
    metric_move(cache->kept, 1);
    note_use(cache, set);
    bound(cache);
}
