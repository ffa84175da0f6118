// answer_cache: GraphQL answers in Redis, read through: whole answers to queries that are asked
// again and again and are slow, lists above all. Redis is only where they lie. Whether one may be
// given is PostgreSQL's word, asked for anew by every request: an answer is kept under the version
// of the account that it was made of (api/cache/answer_store.h), and only looked for under the
// version of now. So nothing has to be invalidated, no order of events makes an old answer new, and
// a Redis that forgets, hangs or is gone costs time and nothing else. Redis is not trusted either:
// an answer is encrypted for its name (account, query, version) and expiry, so that it can be
// neither read, altered, moved to another name nor made there; what does not open is a miss, and
// counted (storage/redis/redis_guard.h).
//
//   culvert:2:answer:<schema>:<account>:<query>:<version>  ->  u64 expires (ms, wall, big-endian) | sealed answer
//
// An answer is made in three steps: the version before, the query, the version after; it is kept
// only when both are the same. What is not worth it is not tried: queries that are fast, that were
// not asked before, whose account changes faster than they are repeated, or has so many runtimes
// that its version takes long. One an api, on its loop.
#ifndef CULVERT_API_CACHE_ANSWER_CACHE_H
#define CULVERT_API_CACHE_ANSWER_CACHE_H

#include "base/id.h"
#include "base/loop/loop.h"
#include "base/purpose_key.h"
#include "storage/pg/pg.h"
#include "storage/redis/redis.h"
#include "storage/sql/store.h"

struct answer_cache;
struct answer_ticket; // a query under way: from its look to its keep

// What is asked; functions as those of api/cache/answer_store.h and storage/redis/redis.h.
struct answer_cache_peers {
    void (*version)(struct pg *pg, const char *account_id, store_node_done on_done, void *arg);
    void (*shape)(uint8_t out[ID_SHA256_BYTES]);
    bool (*redis_is_ready)(const struct redis *redis);
    void (*redis_command)(struct redis *redis, size_t count, const struct str *words, redis_done on_done, void *arg);
};

struct answer_cache_options {
    struct loop *loop;
    struct pg *pg;
    struct redis *redis;                    // NULL: nothing is kept
    struct purpose_key key;                 // of this purpose alone; copied
    size_t answer_bytes_max;                // 0: nothing is kept
    uint64_t slower_than_us;                // only what takes longer
    uint64_t ttl_ms;                        // in Redis
    uint64_t patience_ms;                   // for Redis: after that the query runs
    const struct answer_cache_peers *peers; // NULL: PostgreSQL and Redis
};

struct answer_cache *answer_cache_create(const struct answer_cache_options *options);
// Looks under way are told that there is nothing. After pg was closed, before redis is.
void answer_cache_destroy(struct answer_cache *cache);

// key names the query with its variables, and whatever else the answer depends on but the account's
// entities. on_looked comes once, at once or later: with the answer (valid during the call), or
// with an empty one and a ticket: run the query, then give the ticket back. With neither the cache
// is being destroyed, and so is what the query would need.
typedef void (*answer_looked)(void *arg, struct str answer, struct answer_ticket *ticket);
void answer_cache_look(struct answer_cache *cache, const char *account_id, const uint8_t key[ID_SHA256_BYTES],
                       answer_looked on_looked, void *arg);
// The query was answered. repeatable: by nothing but entities that the version covers, without
// errors. Copies what it keeps; ticket may be NULL.
void answer_cache_keep(struct answer_ticket *ticket, struct str answer, bool repeatable);

#endif
