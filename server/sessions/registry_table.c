#include "server/sessions/registry_table.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

struct entry {
    struct entry *next;          // of the same bucket
    struct entry *newer, *older; // by use, in its order
    bool is_place;               // in which order: it is, or was when it came to be doubted, with a replica
    enum registry_known known;
    uint64_t good_until_ms;
    struct registry_place place; // its epoch is the highest seen
    size_t account_len, runtime_len;
    char names[]; // account, runtime
};

// Entries by use.
struct order {
    struct entry *newest, *oldest;
};

struct registry_table {
    struct registry_table_options options;
    struct entry **buckets;
    size_t cap; // a power of two, at least entries_max
    size_t count;
    struct order places, others;
};

struct registry_table *registry_table_create(const struct registry_table_options *options)
{
    struct registry_table *table = mem_zalloc(sizeof *table);
    table->options = *options;
    table->cap = 16;
    while (table->cap < options->entries_max)
        table->cap *= 2;
    table->buckets = mem_array(table->cap, sizeof *table->buckets);
    return table;
}

static void free_all(const struct order *order)
{
    for (struct entry *entry = order->newest, *older; entry; entry = older) {
        older = entry->older;
        mem_free(entry);
    }
}

void registry_table_destroy(struct registry_table *table)
{
    if (!table) return;
    free_all(&table->places);
    free_all(&table->others);
    mem_free(table->buckets);
    mem_free(table);
}

static struct runtime_key key_of(const struct entry *entry)
{
    return (struct runtime_key){str_of(entry->names, entry->account_len),
                                str_of(entry->names + entry->account_len, entry->runtime_len)};
}

static size_t bucket_of(const struct registry_table *table, const struct runtime_key *key)
{
    return (size_t)runtime_key_hash(HASH_BEGIN, key) & (table->cap - 1);
}

static bool is_of(const struct entry *entry, const struct runtime_key *key)
{
    struct runtime_key own = key_of(entry);
    return runtime_key_eq(&own, key);
}

static struct entry *look_up(const struct registry_table *table, const struct runtime_key *key)
{
    struct entry *entry = table->buckets[bucket_of(table, key)];
    while (entry && !is_of(entry, key))
        entry = entry->next;
    return entry;
}

// ---- order of use --------------------------------------------------------------------------------------------------

static struct order *order_of(struct registry_table *table, const struct entry *entry)
{
    return entry->is_place ? &table->places : &table->others;
}

static void unlink_use(struct registry_table *table, struct entry *entry)
{
    struct order *order = order_of(table, entry);
    *(entry->newer ? &entry->newer->older : &order->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &order->oldest) = entry->newer;
}

static void link_newest(struct registry_table *table, struct entry *entry)
{
    struct order *order = order_of(table, entry);
    entry->newer = NULL;
    entry->older = order->newest;
    *(order->newest ? &order->newest->newer : &order->oldest) = entry;
    order->newest = entry;
}

static void drop(struct registry_table *table, struct entry *entry)
{
    struct runtime_key key = key_of(entry);
    struct entry **link = &table->buckets[bucket_of(table, &key)];
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    unlink_use(table, entry);
    table->count--;
    mem_free(entry);
}

// The entry of the runtime, as the newest of its order. NULL: there is no room for one without a
// replica.
static struct entry *make(struct registry_table *table, const struct runtime_key *key, bool is_place)
{
    struct entry *entry = look_up(table, key);
    if (entry) {
        unlink_use(table, entry);
    } else {
        if (table->count >= table->options.entries_max) {
            struct entry *oldest = table->others.oldest ? table->others.oldest : table->places.oldest;
            if (!is_place && oldest->is_place) return NULL;
            drop(table, oldest);
        }
        entry = mem_zalloc(sizeof *entry + key->account_id.len + key->runtime.len);
        entry->is_place = is_place;
        entry->account_len = key->account_id.len;
        entry->runtime_len = key->runtime.len;
        if (key->account_id.len) memcpy(entry->names, key->account_id.at, key->account_id.len);
        if (key->runtime.len) memcpy(entry->names + key->account_id.len, key->runtime.at, key->runtime.len);
        struct entry **bucket = &table->buckets[bucket_of(table, key)];
        entry->next = *bucket;
        *bucket = entry;
        table->count++;
    }
    link_newest(table, entry);
    return entry;
}

static void set_known(struct registry_table *table, struct entry *entry, enum registry_known known)
{
    unlink_use(table, entry);
    entry->known = known;
    entry->is_place = known == REGISTRY_HELD;
    link_newest(table, entry);
}

// ---- updates ------------------------------------------------------------------------------------

enum registry_known registry_table_find(struct registry_table *table, const struct runtime_key *key, uint64_t now_ms,
                                        struct registry_place *out)
{
    struct entry *entry = look_up(table, key);
    if (!entry || entry->known == REGISTRY_UNKNOWN || now_ms >= entry->good_until_ms) return REGISTRY_UNKNOWN;
    unlink_use(table, entry);
    link_newest(table, entry);
    if (entry->known == REGISTRY_HELD) *out = entry->place;
    return entry->known;
}

bool registry_table_held(struct registry_table *table, const struct runtime_key *key,
                         const struct registry_place *place, uint64_t now_ms)
{
    struct entry *entry = make(table, key, true);
    // The same epoch may come back: a lease that ran out can be renewed while no replica took over.
    if (place->epoch < entry->place.epoch) return false;
    set_known(table, entry, REGISTRY_HELD);
    entry->place = *place;
    entry->good_until_ms = now_ms + table->options.place_ms;
    return true;
}

bool registry_table_over(struct registry_table *table, const struct runtime_key *key, uint64_t epoch, uint64_t now_ms)
{
    struct entry *entry = make(table, key, false);
    if (!entry) return true;
    if (epoch && epoch < entry->place.epoch) return false;
    set_known(table, entry, REGISTRY_NOBODY);
    if (epoch) entry->place.epoch = epoch;
    entry->good_until_ms = now_ms + table->options.none_ms;
    return true;
}

void registry_table_doubt(struct registry_table *table, const struct runtime_key *key, uint64_t epoch)
{
    struct entry *entry = look_up(table, key);
    if (entry && (!epoch || entry->place.epoch <= epoch)) entry->known = REGISTRY_UNKNOWN;
}

void registry_table_doubt_all(struct registry_table *table)
{
    for (struct entry *entry = table->places.newest; entry; entry = entry->older)
        entry->known = REGISTRY_UNKNOWN;
    for (struct entry *entry = table->others.newest; entry; entry = entry->older)
        entry->known = REGISTRY_UNKNOWN;
}

size_t registry_table_count(const struct registry_table *table)
{
    return table->count;
}
