// table: a hash table of nodes that are members of their owners' structs: it allocates its buckets
// alone, and grows with what is in it. Hashes begin with the table's seed (base/hash.h), so that no
// peer that chooses names can fill one bucket. One thread, or its owner's mutex.
//
//     struct holder { struct table_node node; ... };
//     uint64_t hash = hash_end(hash_part(table.seed, name));
//     struct table_node *node = table_find(&table, hash, is_holder, &name);
//     struct holder *holder = node ? TABLE_OWNER(node, struct holder, node) : NULL;
#ifndef CULVERT_BASE_TABLE_H
#define CULVERT_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_node {
    struct table_node *next; // in its bucket
    uint64_t hash;
};

struct table {
    struct table_node **buckets; // NULL: finished, or nothing was ever added
    size_t bucket_count;         // a power of two
    size_t count;
    uint64_t seed;
};

#define TABLE_OWNER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

void table_init(struct table *table);
void table_finish(struct table *table); // an empty one: what is in a table belongs to others

// Whether the node has this key; its hash has been compared.
typedef bool (*table_match)(const struct table_node *node, const void *key);
struct table_node *table_find(const struct table *table, uint64_t hash, table_match match, const void *key);
void table_add(struct table *table, struct table_node *node, uint64_t hash);
void table_remove(struct table *table, struct table_node *node); // one that is in it

// All nodes, in no order: NULL begins, and NULL is behind the last one. Nothing may be added
// meanwhile; before a node is removed, the one after it is asked for.
struct table_node *table_next(const struct table *table, const struct table_node *node);

#endif
