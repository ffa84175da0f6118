#include "server/sessions/registry_table.h"

#include <string.h>

#include "base/mem.h"

struct entry {
    struct entry *next;          // of the same bucket
    struct entry *newer, *older; // by use
    enum registry_known known;
    uint64_t good_until_ms;
    struct registry_place place; // its epoch is the highest seen
    size_t account_len, runtime_len;
    char names[]; // account, runtime
};

struct registry_table {
    struct registry_table_options options;
    struct entry **buckets;
    size_t cap; // a power of two, at least entries_max
    size_t count;
    struct entry *newest, *oldest;
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

void registry_table_destroy(struct registry_table *table)
{
    if (!table) return;
    for (struct entry *entry = table->newest, *older; entry; entry = older) {
        older = entry->older;
        mem_free(entry);
    }
    mem_free(table->buckets);
    mem_free(table);
}

static size_t bucket_of(const struct registry_table *table, struct str account_id, struct str runtime)
{
    uint64_t hash = UINT64_C(14695981039346656037); // FNV-1a
    for (size_t i = 0; i < account_id.len; i++)
        hash = (hash ^ (uint8_t)account_id.at[i]) * UINT64_C(1099511628211);
    hash = (hash ^ 0xff) * UINT64_C(1099511628211);
    for (size_t i = 0; i < runtime.len; i++)
        hash = (hash ^ (uint8_t)runtime.at[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ hash >> 32) & (table->cap - 1);
}

static bool is_of(const struct entry *entry, struct str account_id, struct str runtime)
{
    return str_eq(str_of(entry->names, entry->account_len), account_id) &&
           str_eq(str_of(entry->names + entry->account_len, entry->runtime_len), runtime);
}

static struct entry *look_up(const struct registry_table *table, struct str account_id, struct str runtime)
{
    struct entry *entry = table->buckets[bucket_of(table, account_id, runtime)];
    while (entry && !is_of(entry, account_id, runtime))
        entry = entry->next;
    return entry;
}

// ---- order of use --------------------------------------------------------------------------------------------------

static void unlink_use(struct registry_table *table, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &table->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &table->oldest) = entry->newer;
}

static void link_newest(struct registry_table *table, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = table->newest;
    *(table->newest ? &table->newest->newer : &table->oldest) = entry;
    table->newest = entry;
}

static void drop_oldest(struct registry_table *table)
{
    struct entry *entry = table->oldest;
    struct entry **link = &table->buckets[bucket_of(table, str_of(entry->names, entry->account_len),
                                                    str_of(entry->names + entry->account_len, entry->runtime_len))];
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    unlink_use(table, entry);
    table->count--;
    mem_free(entry);
}

static struct entry *make(struct registry_table *table, struct str account_id, struct str runtime)
{
    struct entry *entry = look_up(table, account_id, runtime);
    if (entry) {
        unlink_use(table, entry);
    } else {
        if (table->count >= table->options.entries_max) drop_oldest(table);
        entry = mem_zalloc(sizeof *entry + account_id.len + runtime.len);
        entry->account_len = account_id.len;
        entry->runtime_len = runtime.len;
        if (account_id.len) memcpy(entry->names, account_id.at, account_id.len);
        if (runtime.len) memcpy(entry->names + account_id.len, runtime.at, runtime.len);
        struct entry **bucket = &table->buckets[bucket_of(table, account_id, runtime)];
        entry->next = *bucket;
        *bucket = entry;
        table->count++;
    }
    link_newest(table, entry);
    return entry;
}

// ---- what is said --------------------------------------------------------------------------------------------------

enum registry_known registry_table_find(struct registry_table *table, struct str account_id, struct str runtime,
                                        uint64_t now_ms, struct registry_place *out)
{
    struct entry *entry = look_up(table, account_id, runtime);
    if (!entry || entry->known == REGISTRY_UNKNOWN || now_ms >= entry->good_until_ms) return REGISTRY_UNKNOWN;
    unlink_use(table, entry);
    link_newest(table, entry);
    if (entry->known == REGISTRY_HELD) *out = entry->place;
    return entry->known;
}

bool registry_table_held(struct registry_table *table, struct str account_id, struct str runtime,
                         const struct registry_place *place, uint64_t now_ms)
{
    struct entry *entry = make(table, account_id, runtime);
    // The same epoch may come back: a lease that ran out can be renewed while nobody took over.
    if (place->epoch < entry->place.epoch) return false;
    entry->known = REGISTRY_HELD;
    entry->place = *place;
    entry->good_until_ms = now_ms + table->options.place_ms;
    return true;
}

bool registry_table_over(struct registry_table *table, struct str account_id, struct str runtime, uint64_t epoch,
                         uint64_t now_ms)
{
    struct entry *entry = make(table, account_id, runtime);
    if (epoch && epoch < entry->place.epoch) return false;
    entry->known = REGISTRY_NOBODY;
    if (epoch) entry->place.epoch = epoch;
    entry->good_until_ms = now_ms + table->options.none_ms;
    return true;
}

void registry_table_doubt(struct registry_table *table, struct str account_id, struct str runtime, uint64_t epoch)
{
    struct entry *entry = look_up(table, account_id, runtime);
    if (entry && (!epoch || entry->place.epoch <= epoch)) entry->known = REGISTRY_UNKNOWN;
}

void registry_table_doubt_all(struct registry_table *table)
{
    for (struct entry *entry = table->newest; entry; entry = entry->older)
        entry->known = REGISTRY_UNKNOWN;
}

size_t registry_table_count(const struct registry_table *table)
{
    return table->count;
}
