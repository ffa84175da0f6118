#include "tunnel/directory.h"

#include <assert.h>
#include <pthread.h>

#include "base/hash.h"
#include "base/mem.h"

enum { DIRECTORY_FIRST_CAP = 64, DIRECTORY_FORGET_MS = 60000 };

// One a runtime that is or lately was here; it stays for a while after its last session went.
struct directory_route {
    struct directory_route *next; // of the same bucket
    struct tunnel_entry *entries; // all sessions of the runtime
    struct tunnel_entry *entry;   // the one that gets the calls; NULL: none
    uint64_t gone_at_ms;
    char account_id[64];
    char runtime[128];
};

struct tunnel_directory {
    pthread_mutex_t mutex; // guards all of it
    uint64_t (*now_ms)(void);
    struct directory_route **buckets;
    size_t cap;   // a power of two
    size_t count; // of routes
    size_t entry_count;
    uint64_t route_until_ms;
};

// Both names come from storage, not from peers.
static size_t directory_hash(const struct runtime_key *key)
{
    return (size_t)runtime_key_hash(HASH_BEGIN, key);
}

static struct runtime_key directory_key(const struct directory_route *route)
{
    return (struct runtime_key){str_c(route->account_id), str_c(route->runtime)};
}

static bool directory_route_is_of(const struct directory_route *route, const struct runtime_key *key)
{
    struct runtime_key own = directory_key(route);
    return runtime_key_eq(&own, key);
}

static struct directory_route *directory_route_find(const struct tunnel_directory *directory,
                                                    const struct runtime_key *key)
{
    struct directory_route *route = directory->buckets[directory_hash(key) & (directory->cap - 1)];
    while (route && !directory_route_is_of(route, key))
        route = route->next;
    return route;
}

static void directory_route_link(struct tunnel_directory *directory, struct directory_route *route)
{
    struct runtime_key key = directory_key(route);
    size_t bucket = directory_hash(&key) & (directory->cap - 1);
    route->next = directory->buckets[bucket];
    directory->buckets[bucket] = route;
}

// Takes all routes out, drops those that are no longer needed and puts the others into a table that
// fits.
static void directory_rebuild(struct tunnel_directory *directory)
{
    uint64_t now = directory->now_ms();
    struct directory_route *kept = NULL;
    size_t count = 0;
    for (size_t i = 0; i < directory->cap; i++) {
        struct directory_route *route = directory->buckets[i];
        while (route) {
            struct directory_route *next = route->next;
            if (route->entries || now - route->gone_at_ms < DIRECTORY_FORGET_MS) {
                route->next = kept;
                kept = route;
                count++;
            } else {
                mem_free(route);
            }
            route = next;
        }
    }
    size_t cap = DIRECTORY_FIRST_CAP;
    while (cap < count * 2)
        cap *= 2;
    mem_free(directory->buckets);
    directory->buckets = mem_array(cap, sizeof(*directory->buckets));
    directory->cap = cap;
    directory->count = count;
    while (kept) {
        struct directory_route *next = kept->next;
        directory_route_link(directory, kept);
        kept = next;
    }
}

static struct directory_route *directory_route_make(struct tunnel_directory *directory,
                                                    const struct tunnel_identity *identity)
{
    struct directory_route *route =
        directory_route_find(directory, &(struct runtime_key){str_c(identity->account_id), str_c(identity->runtime)});
    if (route) return route;
    if (directory->count >= directory->cap) directory_rebuild(directory);
    route = mem_zalloc(sizeof(*route));
    memcpy(route->account_id, identity->account_id, sizeof(route->account_id));
    memcpy(route->runtime, identity->runtime, sizeof(route->runtime));
    directory_route_link(directory, route);
    directory->count++;
    return route;
}

struct tunnel_directory *tunnel_directory_create(uint64_t (*now_ms)(void))
{
    struct tunnel_directory *directory = mem_zalloc(sizeof(*directory));
    directory->now_ms = now_ms;
    pthread_mutex_init(&directory->mutex, NULL);
    directory->route_until_ms = UINT64_MAX;
    directory->cap = DIRECTORY_FIRST_CAP;
    directory->buckets = mem_array(directory->cap, sizeof(*directory->buckets));
    return directory;
}

void tunnel_directory_destroy(struct tunnel_directory *directory)
{
    if (!directory) return;
    for (size_t i = 0; i < directory->cap; i++) {
        struct directory_route *route = directory->buckets[i];
        while (route) {
            struct directory_route *next = route->next;
            assert(!route->entries);
            mem_free(route);
            route = next;
        }
    }
    mem_free(directory->buckets);
    pthread_mutex_destroy(&directory->mutex);
    mem_free(directory);
}

struct tunnel_entry *tunnel_directory_add(struct tunnel_directory *directory, const struct tunnel_session_info *info)
{
    struct tunnel_entry *entry = mem_zalloc(sizeof(*entry));
    entry->info = *info;
    entry->info.epoch = 0;
    pthread_mutex_lock(&directory->mutex);
    struct directory_route *route = directory_route_make(directory, &info->identity);
    entry->route = route;
    entry->next = route->entries;
    entry->link = &route->entries;
    if (entry->next) entry->next->link = &entry->next;
    route->entries = entry;
    directory->entry_count++;
    pthread_mutex_unlock(&directory->mutex);
    return entry;
}

static bool directory_unroute(const struct tunnel_directory *directory, struct tunnel_entry *entry)
{
    if (entry->route->entry != entry) return false;
    entry->route->entry = NULL;
    entry->route->gone_at_ms = directory->now_ms();
    return true;
}

bool tunnel_directory_retire(struct tunnel_directory *directory, struct tunnel_entry *entry)
{
    pthread_mutex_lock(&directory->mutex);
    bool was_routed = directory_unroute(directory, entry);
    pthread_mutex_unlock(&directory->mutex);
    return was_routed;
}

void tunnel_directory_remove(struct tunnel_directory *directory, struct tunnel_entry *entry)
{
    pthread_mutex_lock(&directory->mutex);
    (void)directory_unroute(directory, entry);
    *entry->link = entry->next;
    if (entry->next) entry->next->link = entry->link;
    directory->entry_count--;
    pthread_mutex_unlock(&directory->mutex);
    explicit_bzero(&entry->info, sizeof(entry->info)); // holds the key of signed identities
    mem_free(entry);
}

enum error_code tunnel_directory_open(struct tunnel_directory *directory, struct tunnel_entry *entry, uint64_t epoch,
                                      tunnel_directory_fn on_older, void *arg, uint64_t *out_newer)
{
    enum error_code code = ERROR_NONE;
    pthread_mutex_lock(&directory->mutex);
    struct directory_route *route = entry->route;
    for (struct tunnel_entry *other = route->entries; other; other = other->next) {
        if (other == entry || other->info.epoch < epoch) continue;
        *out_newer = other->info.epoch;
        code = ERROR_CONFLICT;
    }
    if (!code) {
        const struct tunnel_entry *before = route->entry;
        entry->info.epoch = epoch;
        entry->took_over = before && before != entry && strcmp(before->info.instance_id, entry->info.instance_id) != 0;
        route->entry = entry;
        for (struct tunnel_entry *other = route->entries; other; other = other->next)
            if (other != entry && other->info.epoch) on_older(arg, other->info.ref);
    }
    pthread_mutex_unlock(&directory->mutex);
    return code;
}

void tunnel_directory_stand_by(struct tunnel_directory *directory, struct tunnel_entry *entry, bool stands_by)
{
    pthread_mutex_lock(&directory->mutex);
    entry->standby = stands_by;
    pthread_mutex_unlock(&directory->mutex);
}

void tunnel_directory_match_standbys(struct tunnel_directory *directory, const struct runtime_key *key,
                                     tunnel_directory_fn on_match, void *arg)
{
    pthread_mutex_lock(&directory->mutex);
    struct directory_route *route = directory_route_find(directory, key);
    for (struct tunnel_entry *entry = route ? route->entries : NULL; entry; entry = entry->next)
        if (entry->standby) on_match(arg, entry->info.ref);
    pthread_mutex_unlock(&directory->mutex);
}

bool tunnel_directory_find(struct tunnel_directory *directory, const struct runtime_key *key, uint64_t epoch,
                           struct tunnel_session_ref *out)
{
    pthread_mutex_lock(&directory->mutex);
    struct directory_route *route = directory_route_find(directory, key);
    bool found = route && route->entry && (!epoch || route->entry->info.epoch == epoch) &&
                 (directory->route_until_ms == UINT64_MAX || directory->now_ms() < directory->route_until_ms);
    if (found) *out = route->entry->info.ref;
    pthread_mutex_unlock(&directory->mutex);
    return found;
}

void tunnel_directory_route_until(struct tunnel_directory *directory, uint64_t mono_ms)
{
    pthread_mutex_lock(&directory->mutex);
    directory->route_until_ms = mono_ms;
    pthread_mutex_unlock(&directory->mutex);
}

bool tunnel_directory_was_here(struct tunnel_directory *directory, const struct runtime_key *key, uint64_t within_ms)
{
    pthread_mutex_lock(&directory->mutex);
    struct directory_route *route = directory_route_find(directory, key);
    bool was_here =
        route && (route->entry || (route->gone_at_ms && directory->now_ms() - route->gone_at_ms <= within_ms));
    pthread_mutex_unlock(&directory->mutex);
    return was_here;
}

void tunnel_directory_match(struct tunnel_directory *directory, const char *account_id, const char *runtime,
                            const char *token_id, tunnel_directory_fn on_match, void *arg)
{
    pthread_mutex_lock(&directory->mutex);
    struct directory_route *route =
        directory_route_find(directory, &(struct runtime_key){str_c(account_id), str_c(runtime)});
    for (struct tunnel_entry *entry = route ? route->entries : NULL; entry; entry = entry->next)
        if (!token_id || !strcmp(entry->info.identity.token_id, token_id)) on_match(arg, entry->info.ref);
    pthread_mutex_unlock(&directory->mutex);
}

void tunnel_directory_match_older(struct tunnel_directory *directory, const struct runtime_key *key,
                                  uint64_t newer_epoch, tunnel_directory_fn on_match, void *arg)
{
    pthread_mutex_lock(&directory->mutex);
    struct directory_route *route = directory_route_find(directory, key);
    for (struct tunnel_entry *entry = route ? route->entries : NULL; entry; entry = entry->next)
        if (entry->info.epoch && entry->info.epoch < newer_epoch) on_match(arg, entry->info.ref);
    pthread_mutex_unlock(&directory->mutex);
}

void tunnel_entry_snapshot(const struct tunnel_entry *entry, struct tunnel_session_info *out)
{
    *out = entry->info;
    out->rtt_us = atomic_load_explicit(&entry->rtt_us, memory_order_relaxed);
    out->bytes_in = atomic_load_explicit(&entry->bytes_in, memory_order_relaxed);
    out->bytes_out = atomic_load_explicit(&entry->bytes_out, memory_order_relaxed);
    out->streams_open = atomic_load_explicit(&entry->streams_open, memory_order_relaxed);
}

void tunnel_directory_each(struct tunnel_directory *directory,
                           void (*on_each)(void *arg, const struct tunnel_session_info *session), void *arg)
{
    // Copies first: on_each may well come back to the directory.
    pthread_mutex_lock(&directory->mutex);
    size_t count = 0;
    struct tunnel_session_info *infos = mem_array(directory->entry_count ? directory->entry_count : 1, sizeof(*infos));
    for (size_t i = 0; i < directory->cap; i++)
        for (struct directory_route *route = directory->buckets[i]; route; route = route->next)
            for (struct tunnel_entry *entry = route->entries; entry; entry = entry->next)
                tunnel_entry_snapshot(entry, &infos[count++]);
    pthread_mutex_unlock(&directory->mutex);
    for (size_t i = 0; i < count; i++)
        on_each(arg, &infos[i]);
    explicit_bzero(infos, count * sizeof(*infos));
    mem_free(infos);
}

static size_t directory_bucket_part(const struct directory_route *route, struct tunnel_session_info *out, size_t max)
{
    size_t count = 0;
    for (; route; route = route->next)
        for (const struct tunnel_entry *entry = route->entries; entry; entry = entry->next) {
            if (!entry->info.epoch) continue;
            if (count == max) return max + 1;
            tunnel_entry_snapshot(entry, &out[count++]);
        }
    return count;
}

size_t tunnel_directory_part(struct tunnel_directory *directory, size_t from, struct tunnel_session_info *out,
                             size_t max, size_t *out_count)
{
    size_t count = 0, bucket = from;
    pthread_mutex_lock(&directory->mutex);
    for (; bucket < directory->cap && count < max; bucket++) {
        size_t more = directory_bucket_part(directory->buckets[bucket], out + count, max - count);
        if (more <= max - count)
            count += more;
        else if (count) // it begins the next part, so that none is skipped in every round
            break;
        else
            count = max;
    }
    if (bucket >= directory->cap) bucket = 0;
    pthread_mutex_unlock(&directory->mutex);
    *out_count = count;
    return bucket;
}
