#include "base/census.h"

#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/id.h"
#include "base/mem.h"

enum { FIRST_BUCKETS = 64 };

struct entry {
    struct entry *next;
    size_t count;
    size_t key_len;
    char key[];
};

struct census {
    size_t cap; // connections a key
    uint64_t seed;
    pthread_mutex_t mutex; // guards the rest
    struct entry **buckets;
    size_t bucket_count, entry_count;
};

struct census *census_create(size_t cap)
{
    if (cap == 0) return NULL;
    struct census *census = mem_zalloc(sizeof *census);
    census->cap = cap;
    census->seed = id_random_u64();
    census->bucket_count = FIRST_BUCKETS;
    census->buckets = mem_array(FIRST_BUCKETS, sizeof *census->buckets);
    pthread_mutex_init(&census->mutex, NULL);
    return census;
}

void census_destroy(struct census *census)
{
    if (!census) return;
    for (size_t i = 0; i < census->bucket_count; i++) {
        for (struct entry *entry = census->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            mem_free(entry);
        }
    }
    mem_free(census->buckets);
    pthread_mutex_destroy(&census->mutex);
    mem_free(census);
}

// From a secret start: clients choose their addresses.
static uint64_t hash(const struct census *census, struct str key)
{
    return hash_end(hash_text(census->seed, key));
}

static struct entry **find(const struct census *census, struct str key)
{
    struct entry **link = &census->buckets[hash(census, key) % census->bucket_count];
    while (*link && !str_eq(str_of((*link)->key, (*link)->key_len), key))
        link = &(*link)->next;
    return link;
}

static void grow(struct census *census)
{
    struct entry **old = census->buckets;
    size_t count = census->bucket_count;
    census->bucket_count = count * 2;
    census->buckets = mem_array(census->bucket_count, sizeof *census->buckets);
    for (size_t i = 0; i < count; i++) {
        for (struct entry *entry = old[i], *next; entry; entry = next) {
            next = entry->next;
            struct entry **link =
                &census->buckets[hash(census, str_of(entry->key, entry->key_len)) % census->bucket_count];
            entry->next = *link;
            *link = entry;
        }
    }
    mem_free(old);
}

static bool enter(struct census *census, struct str key)
{
    struct entry **link = find(census, key);
    if (*link) {
        if ((*link)->count >= census->cap) return false;
        (*link)->count++;
        return true;
    }
    struct entry *entry = mem_alloc(sizeof *entry + key.len);
    *entry = (struct entry){.count = 1, .key_len = key.len};
    if (key.len) memcpy(entry->key, key.at, key.len);
    *link = entry;
    if (++census->entry_count > census->bucket_count) grow(census);
    assert(census->entry_count <= census->bucket_count);
    return true;
}

bool census_enter(struct census *census, struct str key)
{
    if (!census) return true;
    pthread_mutex_lock(&census->mutex);
    bool entered = enter(census, key);
    pthread_mutex_unlock(&census->mutex);
    return entered;
}

void census_leave(struct census *census, struct str key)
{
    if (!census) return;
    pthread_mutex_lock(&census->mutex);
    struct entry **link = find(census, key), *entry = *link;
    assert(entry && entry->count > 0);
    if (--entry->count == 0) {
        *link = entry->next;
        mem_free(entry);
        assert(census->entry_count > 0);
        census->entry_count--;
    }
    pthread_mutex_unlock(&census->mutex);
}

size_t census_count(struct census *census, struct str key)
{
    if (!census) return 0;
    pthread_mutex_lock(&census->mutex);
    const struct entry *entry = *find(census, key);
    size_t count = entry ? entry->count : 0;
    pthread_mutex_unlock(&census->mutex);
    return count;
}

size_t census_keys(struct census *census)
{
    if (!census) return 0;
    pthread_mutex_lock(&census->mutex);
    size_t count = census->entry_count;
    pthread_mutex_unlock(&census->mutex);
    return count;
}

void census_network(const char *address, char out[INET6_ADDRSTRLEN])
{
    struct in6_addr in6;
    snprintf(out, INET6_ADDRSTRLEN, "%s", address);
    if (inet_pton(AF_INET6, address, &in6) != 1 || IN6_IS_ADDR_V4MAPPED(&in6)) return;
    memset(in6.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &in6, out, INET6_ADDRSTRLEN);
}
