#include "api/cache/answer_cache.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/cache/answer_store.h"
#include "base/clock.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "storage/redis/redis_guard.h"

enum {
    QUERIES = 1024, // that are remembered, a power of two: two that meet push each other out
    VERSION_BYTES_MAX = 80,
    NAME_BYTES_MAX = 256,
    EXPIRY_BYTES = 8,
    ANSWER_CLOCK_SKEW_MS = 60 * 1000, // of replicas; Redis removes what is older by its own clock
    TICK_MS = 10,
    PAUSE_MISSES = 4,  // so many in a row, and the query is left alone for a while
    PAUSE_MS = 500,    // doubled each time
    PAUSE_DOUBLED = 4, // at most
};

// A query that was repeatable and slow when it ran last.
struct known {
    uint8_t key[ID_SHA256_BYTES];
    bool is_known;
    uint64_t took_us;
    unsigned misses, pauses;
    uint64_t paused_until_ms;
};

struct answer_ticket {
    struct answer_cache *cache;         // NULL: it is gone
    struct answer_ticket *next, **link; // of the cache's
    uint8_t key[ID_SHA256_BYTES];
    char account_id[64];
    char version[VERSION_BYTES_MAX]; // before the query; empty: the answer is not to be kept
    uint64_t version_at_ms, started_us;
    answer_looked on_looked; // NULL once it was called
    void *arg;
    bool is_asking; // Redis, which will answer
    uint64_t deadline_ms;
    struct str answer; // ours, while the version after is asked for
};

struct answer_cache {
    struct answer_cache_options options;
    uint8_t shape[ID_SHA256_BYTES];
    struct known queries[QUERIES];
    struct answer_ticket *tickets;
    struct timer timer; // runs while Redis is asked
    struct redis_guard guard;
    struct metric *hit, *miss, *late, *kept, *changed, *passed;
};

static void make_metrics(struct answer_cache *cache)
{
    struct metric_family *looks = metrics_counter("culvert_answer_cache_looks_total",
                                                  "GraphQL queries by result of the cache lookup.", "result", NULL);
    cache->hit = metric_with(looks, "hit");
    cache->miss = metric_with(looks, "miss");
    cache->late = metric_with(looks, "redis_away");
    cache->passed = metric_with(looks, "not_tried");
    struct metric_family *keeps =
        metrics_counter("culvert_answer_cache_keeps_total", "Answers computed after a cache miss.", "result", NULL);
    cache->kept = metric_with(keeps, "kept");
    cache->changed = metric_with(keeps, "changed_meanwhile");
}

static void on_tick(void *arg);

static const struct answer_cache_peers real_peers = {
    .version = answer_store_version,
    .shape = answer_store_shape,
    .redis_is_ready = redis_is_ready,
    .redis_command = redis_command,
};

struct answer_cache *answer_cache_create(const struct answer_cache_options *options)
{
    struct answer_cache *cache = mem_zalloc(sizeof *cache);
    cache->options = *options;
    if (!cache->options.peers) cache->options.peers = &real_peers;
    cache->options.peers->shape(cache->shape);
    timer_init(&cache->timer, loop_uv(options->loop), on_tick, cache);
    redis_guard_init(&cache->guard, "answer");
    make_metrics(cache);
    return cache;
}

// ---- tickets -------------------------------------------------------------------------------------------------------

static struct answer_ticket *ticket_create(struct answer_cache *cache, const char *account_id, const uint8_t *key)
{
    struct answer_ticket *ticket = mem_zalloc(sizeof *ticket);
    ticket->cache = cache;
    memcpy(ticket->key, key, sizeof ticket->key);
    snprintf(ticket->account_id, sizeof ticket->account_id, "%s", account_id);
    ticket->next = cache->tickets;
    ticket->link = &cache->tickets;
    if (ticket->next) ticket->next->link = &ticket->next;
    cache->tickets = ticket;
    return ticket;
}

static void ticket_detach(struct answer_ticket *ticket)
{
    if (!ticket->cache) return;
    *ticket->link = ticket->next;
    if (ticket->next) ticket->next->link = ticket->link;
    ticket->cache = NULL;
}

static void ticket_free(struct answer_ticket *ticket)
{
    ticket_detach(ticket);
    mem_free((char *)(uintptr_t)ticket->answer.at);
    mem_free(ticket);
}

// Nothing was found: the query runs, and its answer is kept if there is a version.
static void ticket_run(struct answer_ticket *ticket)
{
    answer_looked on_looked = ticket->on_looked;
    ticket->on_looked = NULL;
    ticket->started_us = clock_mono_us();
    on_looked(ticket->arg, STR_EMPTY, ticket);
}

void answer_cache_destroy(struct answer_cache *cache)
{
    if (!cache) return;
    // Each is freed by what it waits for: an answer of Redis, or of the query that is being run.
    while (cache->tickets) {
        struct answer_ticket *ticket = cache->tickets;
        ticket_detach(ticket);
        answer_looked on_looked = ticket->on_looked;
        ticket->on_looked = NULL;
        if (on_looked) on_looked(ticket->arg, STR_EMPTY, NULL);
    }
    timer_finish(&cache->timer);
    purpose_key_finish(&cache->options.key);
    mem_free(cache);
}

// ---- what is known of queries --------------------------------------------------------------------------------------

static struct known *known_slot(struct answer_cache *cache, const uint8_t *key)
{
    uint32_t hash;
    memcpy(&hash, key, sizeof hash);
    return &cache->queries[hash % QUERIES];
}

static struct known *known_find(struct answer_cache *cache, const uint8_t *key)
{
    struct known *known = known_slot(cache, key);
    return known->is_known && memcmp(known->key, key, sizeof known->key) == 0 ? known : NULL;
}

// It changes faster than it is asked for, or cannot be kept: the work is saved for a while, then
// tried again.
static void known_pause(struct known *known)
{
    known->misses = 0;
    known->paused_until_ms = clock_mono_ms() + ((uint64_t)PAUSE_MS << known->pauses);
    if (known->pauses < PAUSE_DOUBLED) known->pauses++;
}

static void note_run(struct answer_ticket *ticket, bool repeatable, uint64_t took_us)
{
    struct answer_cache *cache = ticket->cache;
    struct known *known = known_slot(cache, ticket->key);
    bool same = known->is_known && memcmp(known->key, ticket->key, sizeof known->key) == 0;
    if (!repeatable || took_us < cache->options.slower_than_us) {
        if (same) known->is_known = false;
        return;
    }
    if (!same) *known = (struct known){.is_known = true};
    memcpy(known->key, ticket->key, sizeof known->key);
    known->took_us = took_us;
}

// ---- Redis ---------------------------------------------------------------------------------------------------------

// Of the answer in Redis: everything that it depends on.
static struct str name_of(const struct answer_ticket *ticket, char out[NAME_BYTES_MAX])
{
    char shape[17], key[2 * ID_SHA256_BYTES + 1];
    for (size_t i = 0; i < 8; i++)
        snprintf(shape + 2 * i, 3, "%02x", ticket->cache->shape[i]);
    for (size_t i = 0; i < ID_SHA256_BYTES; i++)
        snprintf(key + 2 * i, 3, "%02x", ticket->key[i]);
    int len =
        snprintf(out, NAME_BYTES_MAX, "culvert:2:answer:%s:%s:%s:%s", shape, ticket->account_id, key, ticket->version);
    return str_of(out, (size_t)len);
}

// What a sealed answer is bound to: its name and its expiry, as the bytes in front of it. out has
// room for both.
static struct str context_of(struct str name, const uint8_t expiry[EXPIRY_BYTES], char *out)
{
    memcpy(out, name.at, name.len);
    memcpy(out + name.len, expiry, EXPIRY_BYTES);
    return str_of(out, name.len + EXPIRY_BYTES);
}

static struct str seal(const struct answer_ticket *ticket, struct str name)
{
    const struct answer_cache_options *options = &ticket->cache->options;
    size_t len = EXPIRY_BYTES + ticket->answer.len + PURPOSE_KEY_SEAL_BYTES;
    uint8_t *out = mem_alloc(len);
    char context[NAME_BYTES_MAX + EXPIRY_BYTES];
    uint64_t expires_at_ms = (uint64_t)clock_wall_ms() + options->ttl_ms;
    for (unsigned i = 0; i < EXPIRY_BYTES; i++)
        out[i] = (uint8_t)(expires_at_ms >> (8 * (EXPIRY_BYTES - 1 - i)));
    purpose_key_seal(&options->key, context_of(name, out, context), ticket->answer, out + EXPIRY_BYTES);
    return str_of((const char *)out, len);
}

// *out is the caller's to free when it is true.
static bool unseal(const struct answer_ticket *ticket, struct str kept, struct str *out)
{
    const struct answer_cache_options *options = &ticket->cache->options;
    if (kept.len <= EXPIRY_BYTES + PURPOSE_KEY_SEAL_BYTES) return false;
    const uint8_t *expiry = (const uint8_t *)kept.at;
    uint64_t expires_at_ms = 0;
    for (unsigned i = 0; i < EXPIRY_BYTES; i++)
        expires_at_ms = expires_at_ms << 8 | expiry[i];
    char name[NAME_BYTES_MAX], context[NAME_BYTES_MAX + EXPIRY_BYTES];
    if ((uint64_t)clock_wall_ms() > expires_at_ms + ANSWER_CLOCK_SKEW_MS) return false;
    size_t len = kept.len - EXPIRY_BYTES - PURPOSE_KEY_SEAL_BYTES;
    char *plain = mem_alloc(len + 1);
    if (!purpose_key_open(&options->key, context_of(name_of(ticket, name), expiry, context),
                          str_from(kept, EXPIRY_BYTES), (uint8_t *)plain, NULL)) {
        mem_free(plain);
        return false;
    }
    plain[len] = '\0';
    *out = str_of(plain, len);
    return true;
}

// One that Redis has kept waiting for too long; NULL: none (any more). *out_asking: some still
// wait.
static struct answer_ticket *find_late(struct answer_cache *cache, uint64_t now_ms, bool *out_asking)
{
    *out_asking = false;
    for (struct answer_ticket *ticket = cache->tickets; ticket; ticket = ticket->next) {
        if (!ticket->is_asking || !ticket->on_looked) continue;
        if (now_ms >= ticket->deadline_ms) return ticket;
        *out_asking = true;
    }
    return NULL;
}

static void on_tick(void *arg)
{
    struct answer_cache *cache = arg;
    uint64_t now_ms = clock_mono_ms();
    bool asking;
    for (struct answer_ticket *late; (late = find_late(cache, now_ms, &asking));) {
        // This one waits for what Redis will say; another one goes on.
        struct answer_ticket *fresh = ticket_create(cache, late->account_id, late->key);
        fresh->on_looked = late->on_looked;
        fresh->arg = late->arg;
        late->on_looked = NULL;
        metric_add(cache->late, 1);
        ticket_run(fresh);
    }
    if (!asking) timer_stop(&cache->timer);
}

static void on_found(void *arg, const struct error *err, struct str kept)
{
    struct answer_ticket *ticket = arg;
    struct answer_cache *cache = ticket->cache;
    ticket->is_asking = false;
    if (!cache || !ticket->on_looked) { // too late
        ticket_free(ticket);
        return;
    }
    struct known *known = known_find(cache, ticket->key);
    struct str answer = STR_EMPTY;
    if (!err && kept.len && !unseal(ticket, kept, &answer)) {
        char name[NAME_BYTES_MAX];
        redis_guard_refuse(&cache->guard, name_of(ticket, name));
    }
    if (err) {
        ticket->version[0] = '\0';
        metric_add(cache->late, 1);
        ticket_run(ticket);
    } else if (answer.len == 0) {
        metric_add(cache->miss, 1);
        if (known && ++known->misses >= PAUSE_MISSES) known_pause(known);
        ticket_run(ticket);
    } else {
        metric_add(cache->hit, 1);
        if (known) known->misses = known->pauses = 0;
        answer_looked on_looked = ticket->on_looked;
        void *looked_arg = ticket->arg;
        ticket_free(ticket);
        on_looked(looked_arg, answer, NULL);
        mem_free((char *)(uintptr_t)answer.at);
    }
}

static void set_version(struct answer_ticket *ticket, struct str version)
{
    if (version.len && version.len < sizeof ticket->version) memcpy(ticket->version, version.at, version.len);
    ticket->version_at_ms = clock_mono_ms();
}

static void on_version_before(void *arg, const struct error *err, struct str version)
{
    struct answer_ticket *ticket = arg;
    struct answer_cache *cache = ticket->cache;
    if (!cache) { // told by answer_cache_destroy()
        ticket_free(ticket);
        return;
    }
    uint64_t took_us = clock_mono_us() - ticket->started_us;
    struct known *known = known_find(cache, ticket->key);
    bool slow = known && took_us > known->took_us / 2; // the way round would be as long
    if (slow) known_pause(known);
    if (err || slow || !cache->options.peers->redis_is_ready(cache->options.redis)) {
        metric_add(cache->passed, 1);
        ticket_run(ticket);
        return;
    }
    set_version(ticket, version);
    char name[NAME_BYTES_MAX];
    ticket->is_asking = true;
    ticket->deadline_ms = clock_mono_ms() + cache->options.patience_ms;
    if (!timer_is_active(&cache->timer)) timer_start(&cache->timer, TICK_MS, TICK_MS);
    cache->options.peers->redis_command(cache->options.redis, 2, (struct str[]){STR("GET"), name_of(ticket, name)},
                                        on_found, ticket);
}

void answer_cache_look(struct answer_cache *cache, const char *account_id, const uint8_t key[ID_SHA256_BYTES],
                       answer_looked on_looked, void *arg)
{
    struct answer_ticket *ticket = ticket_create(cache, account_id, key);
    assert(on_looked);
    const struct answer_cache_options *options = &cache->options;
    ticket->on_looked = on_looked;
    ticket->arg = arg;
    ticket->started_us = clock_mono_us();
    const struct known *known = known_find(cache, key);
    bool tries = known && options->answer_bytes_max && options->redis &&
                 options->peers->redis_is_ready(options->redis) && clock_mono_ms() >= known->paused_until_ms;
    if (!tries) {
        metric_add(cache->passed, 1);
        ticket_run(ticket);
        return;
    }
    options->peers->version(options->pg, ticket->account_id, on_version_before, ticket);
}

// ---- keeping -------------------------------------------------------------------------------------------------------

static void on_version_after(void *arg, const struct error *err, struct str version)
{
    struct answer_ticket *ticket = arg;
    struct answer_cache *cache = ticket->cache;
    bool same = !err && str_eq(version, str_c(ticket->version));
    bool soon = clock_mono_ms() - ticket->version_at_ms <= ANSWER_VERSION_SPAN_MS;
    if (cache && !(same && soon)) metric_add(cache->changed, 1);
    if (cache && same && soon && cache->options.peers->redis_is_ready(cache->options.redis)) {
        char name[NAME_BYTES_MAX], ttl[24];
        snprintf(ttl, sizeof ttl, "%llu", (unsigned long long)cache->options.ttl_ms);
        struct str of = name_of(ticket, name), sealed = seal(ticket, of);
        const struct str words[] = {STR("SET"), of, sealed, STR("PX"), str_c(ttl)};
        cache->options.peers->redis_command(cache->options.redis, 5, words, NULL, NULL);
        mem_free((char *)(uintptr_t)sealed.at);
        metric_add(cache->kept, 1);
    }
    ticket_free(ticket);
}

void answer_cache_keep(struct answer_ticket *ticket, struct str answer, bool repeatable)
{
    if (!ticket) return;
    struct answer_cache *cache = ticket->cache;
    if (!cache) {
        ticket_free(ticket);
        return;
    }
    const struct answer_cache_options *options = &cache->options;
    bool fits = answer.len > 0 && answer.len <= options->answer_bytes_max;
    note_run(ticket, repeatable && fits, clock_mono_us() - ticket->started_us);
    if (!ticket->version[0] || !repeatable || !fits) {
        ticket_free(ticket);
        return;
    }
    ticket->answer = str_of(mem_strndup(answer.at, answer.len), answer.len);
    options->peers->version(options->pg, ticket->account_id, on_version_after, ticket);
}
