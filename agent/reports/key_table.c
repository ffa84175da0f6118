#include "agent/reports/key_table.h"

#include <assert.h>
#include <stdint.h>

#include "base/id.h"
#include "base/mem.h"

// Linear probing; a removed entry leaves a mark, so that walks may remove and probes go on behind it.
struct entry {
    char *key; // NULL: never used, or removed when `removed`
    size_t key_len;
    uint64_t hash;
    void *value;
    bool removed;
};

struct key_table {
    struct entry *entries;
    size_t capacity; // a power of two
    size_t count;
    size_t used; // with the marks
    uint64_t seed[2];
};

enum { CAPACITY_MIN = 16 };

static uint64_t rotate(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

// SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", with fewer rounds).
static uint64_t hash_key(const uint64_t seed[2], struct str key)
{
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du, seed[0] ^ 0x6c7967656e657261u,
                     seed[1] ^ 0x7465646279746573u};
    uint64_t word;
    size_t i = 0;
    for (; i + 8 <= key.len; i += 8) {
        memcpy(&word, key.at + i, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)key.len << 56;
    for (size_t shift = 0; i < key.len; i++, shift += 8)
        word |= (uint64_t)(uint8_t)key.at[i] << shift;
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int round = 0; round < 3; round++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct key_table *key_table_create(void)
{
    struct key_table *table = mem_zalloc(sizeof *table);
    table->capacity = CAPACITY_MIN;
    table->entries = mem_array(table->capacity, sizeof *table->entries);
    id_random(table->seed, sizeof table->seed);
    return table;
}

void key_table_destroy(struct key_table *table)
{
    if (!table) return;
    for (size_t i = 0; i < table->capacity; i++)
        mem_free(table->entries[i].key);
    mem_free(table->entries);
    mem_free(table);
}

static struct entry *find(const struct key_table *table, struct str key, uint64_t hash)
{
    for (size_t i = hash & (table->capacity - 1);; i = (i + 1) & (table->capacity - 1)) {
        struct entry *entry = &table->entries[i];
        if (!entry->key && !entry->removed) return NULL;
        if (entry->key && entry->hash == hash && str_eq(str_of(entry->key, entry->key_len), key)) return entry;
    }
}

static struct entry *free_entry(struct entry *entries, size_t capacity, uint64_t hash)
{
    size_t i = hash & (capacity - 1);
    while (entries[i].key)
        i = (i + 1) & (capacity - 1);
    return &entries[i];
}

// Makes room when three quarters are in use, marks included; also the moment when marks go away.
static void grow(struct key_table *table)
{
    if ((table->used + 1) * 4 <= table->capacity * 3) return;
    size_t capacity = table->count * 2 >= table->capacity ? table->capacity * 2 : table->capacity;
    struct entry *entries = mem_array(capacity, sizeof *entries);
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].key) *free_entry(entries, capacity, table->entries[i].hash) = table->entries[i];
    mem_free(table->entries);
    table->entries = entries;
    table->capacity = capacity;
    table->used = table->count;
}

void *key_table_get(const struct key_table *table, struct str key)
{
    struct entry *entry = find(table, key, hash_key(table->seed, key));
    return entry ? entry->value : NULL;
}

void *key_table_put(struct key_table *table, struct str key, void *value)
{
    assert(value);
    uint64_t hash = hash_key(table->seed, key);
    struct entry *entry = find(table, key, hash);
    if (entry) {
        void *old = entry->value;
        entry->value = value;
        return old;
    }
    grow(table);
    entry = free_entry(table->entries, table->capacity, hash);
    if (!entry->removed) table->used++;
    *entry = (struct entry){
        .key = mem_strndup(key.at ? key.at : "", key.len), .key_len = key.len, .hash = hash, .value = value};
    table->count++;
    return NULL;
}

void *key_table_remove(struct key_table *table, struct str key)
{
    struct entry *entry = find(table, key, hash_key(table->seed, key));
    if (!entry) return NULL;
    void *value = entry->value;
    mem_free(entry->key);
    *entry = (struct entry){.removed = true};
    table->count--;
    return value;
}

size_t key_table_count(const struct key_table *table)
{
    return table->count;
}

void *key_table_next(const struct key_table *table, size_t *cursor, struct str *out_key)
{
    while (*cursor < table->capacity) {
        const struct entry *entry = &table->entries[(*cursor)++];
        if (!entry->key) continue;
        if (out_key) *out_key = str_of(entry->key, entry->key_len);
        return entry->value;
    }
    return NULL;
}
