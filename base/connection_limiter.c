#include "base/connection_limiter.h"

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

struct connection_limiter {
    size_t cap; // connections a key
    uint64_t seed;
    pthread_mutex_t mutex; // guards the rest
    struct entry **buckets;
    size_t bucket_count, entry_count;
};

struct connection_limiter *connection_limiter_create(size_t cap)
{
    if (cap == 0) return NULL;
    struct connection_limiter *limiter = mem_zalloc(sizeof *limiter);
    limiter->cap = cap;
    limiter->seed = id_random_u64();
    limiter->bucket_count = FIRST_BUCKETS;
    limiter->buckets = mem_array(FIRST_BUCKETS, sizeof *limiter->buckets);
    pthread_mutex_init(&limiter->mutex, NULL);
    return limiter;
}

void connection_limiter_destroy(struct connection_limiter *limiter)
{
    if (!limiter) return;
    for (size_t i = 0; i < limiter->bucket_count; i++) {
        for (struct entry *entry = limiter->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            mem_free(entry);
        }
    }
    mem_free(limiter->buckets);
    pthread_mutex_destroy(&limiter->mutex);
    mem_free(limiter);
}

// From a secret start: clients choose their addresses.
static uint64_t hash(const struct connection_limiter *limiter, struct str key)
{
    return hash_end(hash_text(limiter->seed, key));
}

static struct entry **find(const struct connection_limiter *limiter, struct str key)
{
    struct entry **link = &limiter->buckets[hash(limiter, key) % limiter->bucket_count];
    while (*link && !str_eq(str_of((*link)->key, (*link)->key_len), key))
        link = &(*link)->next;
    return link;
}

static void grow(struct connection_limiter *limiter)
{
    struct entry **old = limiter->buckets;
    size_t count = limiter->bucket_count;
    limiter->bucket_count = count * 2;
    limiter->buckets = mem_array(limiter->bucket_count, sizeof *limiter->buckets);
    for (size_t i = 0; i < count; i++) {
        for (struct entry *entry = old[i], *next; entry; entry = next) {
            next = entry->next;
            struct entry **link =
                &limiter->buckets[hash(limiter, str_of(entry->key, entry->key_len)) % limiter->bucket_count];
            entry->next = *link;
            *link = entry;
        }
    }
    mem_free(old);
}

static bool enter(struct connection_limiter *limiter, struct str key)
{
    struct entry **link = find(limiter, key);
    if (*link) {
        if ((*link)->count >= limiter->cap) return false;
        (*link)->count++;
        return true;
    }
    struct entry *entry = mem_alloc(sizeof *entry + key.len);
    *entry = (struct entry){.count = 1, .key_len = key.len};
    if (key.len) memcpy(entry->key, key.at, key.len);
    *link = entry;
    if (++limiter->entry_count > limiter->bucket_count) grow(limiter);
    assert(limiter->entry_count <= limiter->bucket_count);
    return true;
}

bool connection_limiter_enter(struct connection_limiter *limiter, struct str key)
{
    if (!limiter) return true;
    pthread_mutex_lock(&limiter->mutex);
    bool entered = enter(limiter, key);
    pthread_mutex_unlock(&limiter->mutex);
    return entered;
}

void connection_limiter_leave(struct connection_limiter *limiter, struct str key)
{
    if (!limiter) return;
    pthread_mutex_lock(&limiter->mutex);
    struct entry **link = find(limiter, key), *entry = *link;
    assert(entry && entry->count > 0);
    if (--entry->count == 0) {
        *link = entry->next;
        mem_free(entry);
        assert(limiter->entry_count > 0);
        limiter->entry_count--;
    }
    pthread_mutex_unlock(&limiter->mutex);
}

size_t connection_limiter_count(struct connection_limiter *limiter, struct str key)
{
    if (!limiter) return 0;
    pthread_mutex_lock(&limiter->mutex);
    const struct entry *entry = *find(limiter, key);
    size_t count = entry ? entry->count : 0;
    pthread_mutex_unlock(&limiter->mutex);
    return count;
}

size_t connection_limiter_keys(struct connection_limiter *limiter)
{
    if (!limiter) return 0;
    pthread_mutex_lock(&limiter->mutex);
    size_t count = limiter->entry_count;
    pthread_mutex_unlock(&limiter->mutex);
    return count;
}

void connection_limiter_network(const char *address, char out[INET6_ADDRSTRLEN])
{
    struct in6_addr in6;
    snprintf(out, INET6_ADDRSTRLEN, "%s", address);
    if (inet_pton(AF_INET6, address, &in6) != 1 || IN6_IS_ADDR_V4MAPPED(&in6)) return;
    memset(in6.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &in6, out, INET6_ADDRSTRLEN);
}
