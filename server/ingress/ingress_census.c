#include "server/ingress/ingress_census.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"

enum { FIRST_BUCKETS = 64 };

struct ingress_census_entry {
    struct ingress_census_entry *next;
    size_t count;
    size_t key_len;
    char key[];
};

void ingress_census_init(struct ingress_census *census, size_t cap)
{
    *census = (struct ingress_census){.cap = cap};
    if (cap == 0) return;
    census->seed = id_random_u64();
    census->bucket_count = FIRST_BUCKETS;
    census->buckets = mem_zalloc(FIRST_BUCKETS * sizeof(struct ingress_census_entry *));
}

void ingress_census_finish(struct ingress_census *census)
{
    for (size_t i = 0; i < census->bucket_count; i++) {
        for (struct ingress_census_entry *entry = census->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            mem_free(entry);
        }
    }
    mem_free(census->buckets);
    *census = (struct ingress_census){0};
}

// FNV-1a with a secret start and a mix at the end (splitmix64): clients choose their addresses.
static uint64_t hash(const struct ingress_census *census, struct str key)
{
    uint64_t x = census->seed;
    for (size_t i = 0; i < key.len; i++)
        x = (x ^ (uint8_t)key.at[i]) * 0x100000001b3ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static struct ingress_census_entry **find(const struct ingress_census *census, struct str key)
{
    struct ingress_census_entry **link = &census->buckets[hash(census, key) % census->bucket_count];
    while (*link && !str_eq(str_of((*link)->key, (*link)->key_len), key))
        link = &(*link)->next;
    return link;
}

static void grow(struct ingress_census *census)
{
    struct ingress_census_entry **old = census->buckets;
    size_t count = census->bucket_count;
    census->bucket_count = count * 2;
    census->buckets = mem_zalloc(census->bucket_count * sizeof(struct ingress_census_entry *));
    for (size_t i = 0; i < count; i++) {
        for (struct ingress_census_entry *entry = old[i], *next; entry; entry = next) {
            next = entry->next;
            struct ingress_census_entry **link =
                &census->buckets[hash(census, str_of(entry->key, entry->key_len)) % census->bucket_count];
            entry->next = *link;
            *link = entry;
        }
    }
    mem_free(old);
}

bool ingress_census_enter(struct ingress_census *census, struct str key)
{
    if (census->cap == 0) return true;
    struct ingress_census_entry **link = find(census, key);
    if (*link) {
        if ((*link)->count >= census->cap) return false;
        (*link)->count++;
        return true;
    }
    struct ingress_census_entry *entry = mem_alloc(sizeof *entry + key.len);
    *entry = (struct ingress_census_entry){.count = 1, .key_len = key.len};
    if (key.len) memcpy(entry->key, key.at, key.len);
    *link = entry;
    if (++census->entry_count > census->bucket_count) grow(census);
    return true;
}

void ingress_census_leave(struct ingress_census *census, struct str key)
{
    if (census->cap == 0) return;
    struct ingress_census_entry **link = find(census, key), *entry = *link;
    assert(entry && entry->count > 0);
    if (--entry->count > 0) return;
    *link = entry->next;
    mem_free(entry);
    census->entry_count--;
}

size_t ingress_census_count(const struct ingress_census *census, struct str key)
{
    if (census->cap == 0) return 0;
    const struct ingress_census_entry *entry = *find(census, key);
    return entry ? entry->count : 0;
}

void ingress_census_network(const char *address, char out[INET6_ADDRSTRLEN])
{
    struct in6_addr in6;
    snprintf(out, INET6_ADDRSTRLEN, "%s", address);
    if (inet_pton(AF_INET6, address, &in6) != 1 || IN6_IS_ADDR_V4MAPPED(&in6)) return;
    memset(in6.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &in6, out, INET6_ADDRSTRLEN);
}
