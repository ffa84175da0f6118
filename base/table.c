#include "base/table.h"

#include <assert.h>

#include "base/id.h"
#include "base/mem.h"

enum { BUCKETS_MIN = 16 };

void table_init(struct table *table)
{
    *table = (struct table){.seed = id_random_u64()};
}

void table_finish(struct table *table)
{
    assert(table->count == 0);
    mem_free(table->buckets);
    table->buckets = NULL;
    table->bucket_count = 0;
}

static struct table_node **bucket_of(const struct table *table, uint64_t hash)
{
    return &table->buckets[hash & (table->bucket_count - 1)];
}

struct table_node *table_find(const struct table *table, uint64_t hash, table_match match, const void *key)
{
    if (!table->count) return NULL;
    struct table_node *node = *bucket_of(table, hash);
    while (node && (node->hash != hash || !match(node, key)))
        node = node->next;
    return node;
}

static void put(struct table *table, struct table_node *node)
{
    struct table_node **bucket = bucket_of(table, node->hash);
    node->next = *bucket;
    *bucket = node;
}

static void grow(struct table *table)
{
    struct table_node **old = table->buckets;
    size_t old_count = table->bucket_count;
    table->bucket_count = old_count ? 2 * old_count : BUCKETS_MIN;
    assert((table->bucket_count & (table->bucket_count - 1)) == 0);
    table->buckets = mem_array(table->bucket_count, sizeof(struct table_node *));
    for (size_t i = 0; i < old_count; i++) {
        for (struct table_node *node = old[i], *next; node; node = next) {
            next = node->next;
            put(table, node);
        }
    }
    mem_free(old);
}

void table_add(struct table *table, struct table_node *node, uint64_t hash)
{
    if (table->count == table->bucket_count) grow(table);
    node->hash = hash;
    put(table, node);
    table->count++;
}

void table_remove(struct table *table, struct table_node *node)
{
    assert(table->count > 0);
    struct table_node **link = bucket_of(table, node->hash);
    while (*link != node) {
        assert(*link);
        link = &(*link)->next;
    }
    *link = node->next;
    node->next = NULL;
    table->count--;
}

struct table_node *table_next(const struct table *table, const struct table_node *node)
{
    if (node && node->next) return node->next;
    size_t i = node ? (size_t)(node->hash & (table->bucket_count - 1)) + 1 : 0;
    for (; i < table->bucket_count; i++)
        if (table->buckets[i]) return table->buckets[i];
    return NULL;
}
