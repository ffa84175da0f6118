#include "server/sessions/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "server/sessions/registry_line.h"
#include "storage/redis/redis_guard.h"
#include "storage/sessions/session_store.h"

#define CHANNEL "culvert:2:tunnels"

enum {
    PLACE_MS = 10000, // however sure we are, PostgreSQL is asked again after this
    NONE_MS = 250,
    ASK_MS = 3000,       // no caller waits for longer
    LINE_LIFE_S = 86400, // of a key in Redis
    // Of a message: its way through Redis, and how far the clocks of replicas may be apart.
    MESSAGE_LIFE_MS = 60 * 1000,
    LOOKUPS_MAX = 1024, // at once
};

// One question in flight; callers with the same question wait for the same answer.
struct lookup {
    struct lookup *next, **link;
    struct registry *registry; // NULL: stopped
    struct registry_query *queries;
    bool fresh; // PostgreSQL is being asked
    char account_id[64], runtime[128];
};

struct registry_query {
    struct registry_query *next, **link;
    registry_done on_done;
    void *arg;
};

struct registry {
    struct registry_options options;
    struct registry_table *table;
    struct lookup *lookups;
    unsigned lookup_count;
    bool stopped;
    struct redis_guard line_guard, message_guard;
    struct metric *remembered, *redis_said, *postgres_said, *nobody, *failed;
};

// ---- answers -------------------------------------------------------------------------------------------------------

static void lookup_end(struct lookup *lookup, const struct registry_answer *answer)
{
    *lookup->link = lookup->next;
    if (lookup->next) lookup->next->link = lookup->link;
    lookup->registry->lookup_count--;
    while (lookup->queries) {
        struct registry_query *query = lookup->queries;
        registry_done on_done = query->on_done;
        void *arg = query->arg;
        registry_query_cancel(query);
        on_done(arg, answer);
    }
    mem_free(lookup);
}

static struct runtime_key key_of(const struct lookup *lookup)
{
    return (struct runtime_key){str_c(lookup->account_id), str_c(lookup->runtime)};
}

static void take_place(struct registry *registry, const struct runtime_key *key, const struct session_place *place,
                       struct registry_answer *out)
{
    uint64_t now_ms = clock_mono_ms();
    *out = (struct registry_answer){.known = REGISTRY_NOBODY, .gone_ms = place->found ? place->gone_ms : UINT64_MAX};
    if (!place->live) {
        (void)registry_table_over(registry->table, key, place->epoch, now_ms);
        metric_add(registry->nobody, 1);
        return;
    }
    out->known = REGISTRY_HELD;
    out->place.epoch = place->epoch;
    snprintf(out->place.replica, sizeof out->place.replica, "%.*s", STR_ARG(place->replica));
    snprintf(out->place.address, sizeof out->place.address, "%.*s", STR_ARG(place->peer_address));
    (void)registry_table_held(registry->table, key, &out->place, now_ms);
    metric_add(registry->postgres_said, 1);
}

static void on_postgres(void *arg, const struct error *err, const struct session_place *place)
{
    struct lookup *lookup = arg;
    struct runtime_key looked_up = key_of(lookup);
    struct registry_answer answer = {.known = REGISTRY_UNKNOWN};
    if (!lookup->registry) {
        mem_free(lookup);
        return;
    }
    if (err)
        metric_add(lookup->registry->failed, 1);
    else
        take_place(lookup->registry, &looked_up, place, &answer);
    lookup_end(lookup, &answer);
}

static void ask_postgres(struct lookup *lookup)
{
    struct runtime_key looked_up = key_of(lookup);
    lookup->fresh = true;
    session_store_find(lookup->registry->options.pg, &looked_up, ASK_MS, on_postgres, lookup);
}

static void on_redis(void *arg, const struct error *err, struct str reply)
{
    struct lookup *lookup = arg;
    struct runtime_key looked_up = key_of(lookup);
    struct registry_answer answer = {.known = REGISTRY_HELD};
    if (!lookup->registry) {
        mem_free(lookup);
        return;
    }
    struct registry *registry = lookup->registry;
    char name[REGISTRY_LINE_BYTES];
    struct str place = registry_line_key(&looked_up, name), line = STR_EMPTY;
    if (!err && reply.len && !registry_line_verify(&registry->options.key, place, reply, clock_wall_ms(), &line))
        redis_guard_refuse(&registry->line_guard, place);
    if (err || !registry_line_parse_place(line, &answer.place) ||
        !registry_table_held(registry->table, &looked_up, &answer.place, clock_mono_ms())) {
        ask_postgres(lookup);
        return;
    }
    metric_add(registry->redis_said, 1);
    lookup_end(lookup, &answer);
}

// ---- questions -----------------------------------------------------------------------------------------------------

static struct lookup *lookup_find(struct registry *registry, const struct runtime_key *key, bool fresh)
{
    struct lookup *lookup = registry->lookups;
    while (lookup && !((lookup->fresh || !fresh) && str_eq(str_c(lookup->runtime), key->runtime) &&
                       str_eq(str_c(lookup->account_id), key->account_id)))
        lookup = lookup->next;
    return lookup;
}

static struct lookup *lookup_start(struct registry *registry, const struct runtime_key *key, bool fresh)
{
    struct lookup *lookup = mem_zalloc(sizeof *lookup);
    lookup->registry = registry;
    snprintf(lookup->account_id, sizeof lookup->account_id, "%.*s", STR_ARG(key->account_id));
    snprintf(lookup->runtime, sizeof lookup->runtime, "%.*s", STR_ARG(key->runtime));
    lookup->next = registry->lookups;
    lookup->link = &registry->lookups;
    if (lookup->next) lookup->next->link = &lookup->next;
    registry->lookups = lookup;
    registry->lookup_count++;
    struct redis *redis = registry->options.redis;
    if (fresh || !redis || !redis_is_ready(redis)) {
        ask_postgres(lookup);
        return lookup;
    }
    char name[REGISTRY_LINE_BYTES];
    const struct str words[] = {STR("GET"), registry_line_key(key, name)};
    redis_command(redis, 2, words, on_redis, lookup);
    return lookup;
}

struct registry_query *registry_ask(struct registry *registry, const struct runtime_key *key, bool fresh,
                                    struct registry_answer *out, registry_done on_done, void *arg)
{
    *out = (struct registry_answer){.known = REGISTRY_UNKNOWN};
    if (!fresh) out->known = registry_table_find(registry->table, key, clock_mono_ms(), &out->place);
    if (out->known != REGISTRY_UNKNOWN) {
        metric_add(registry->remembered, 1);
        return NULL;
    }
    struct lookup *lookup = lookup_find(registry, key, fresh);
    bool fits = key->account_id.len < sizeof lookup->account_id && key->runtime.len < sizeof lookup->runtime;
    if (registry->stopped || !fits || (!lookup && registry->lookup_count >= LOOKUPS_MAX)) {
        metric_add(registry->failed, 1);
        return NULL;
    }
    if (!lookup) lookup = lookup_start(registry, key, fresh);
    struct registry_query *query = mem_zalloc(sizeof *query);
    *query = (struct registry_query){.next = lookup->queries, .link = &lookup->queries, .on_done = on_done, .arg = arg};
    if (query->next) query->next->link = &query->next;
    lookup->queries = query;
    return query;
}

bool registry_peek(struct registry *registry, const struct runtime_key *key, struct registry_place *out)
{
    return registry_table_find(registry->table, key, clock_mono_ms(), out) == REGISTRY_HELD;
}

void registry_query_cancel(struct registry_query *query)
{
    *query->link = query->next;
    if (query->next) query->next->link = query->link;
    mem_free(query);
}

void registry_doubt(struct registry *registry, const struct runtime_key *key, uint64_t epoch)
{
    registry_table_doubt(registry->table, key, epoch);
}

// ---- messages between replicas ------------------------------------------------------------------

// News may be old: before a session of ours ends for it, PostgreSQL is asked.
struct news {
    struct registry *registry;
    char account_id[64], runtime[128];
};

static void on_news_checked(void *arg, const struct error *err, const struct session_place *place)
{
    struct news *news = arg;
    struct registry *registry = news->registry;
    if (!err && place->found && !str_eq(place->replica, str_c(registry->options.replica)))
        tunnel_broker_supersede(registry->options.broker, news->account_id, news->runtime, place->epoch);
    mem_free(news);
}

static void check_news(struct registry *registry, const struct registry_line *line)
{
    struct news *news = mem_zalloc(sizeof *news);
    news->registry = registry;
    snprintf(news->account_id, sizeof news->account_id, "%.*s", STR_ARG(line->account_id));
    snprintf(news->runtime, sizeof news->runtime, "%.*s", STR_ARG(line->runtime));
    session_store_find(registry->options.pg, &(struct runtime_key){line->account_id, line->runtime}, ASK_MS,
                       on_news_checked, news);
}

static void on_message(void *arg, struct str channel, struct str message)
{
    struct registry *registry = arg;
    struct registry_line line;
    struct str text;
    if (registry->stopped) return;
    if (!registry_line_verify(&registry->options.key, STR(CHANNEL), message, clock_wall_ms(), &text)) {
        redis_guard_refuse(&registry->message_guard, channel);
        return;
    }
    if (!registry_line_parse(text, &line)) return;
    uint64_t now_ms = clock_mono_ms();
    if (line.kind == REGISTRY_LINE_OVER) {
        (void)registry_table_over(registry->table, &(struct runtime_key){line.account_id, line.runtime},
                                  line.place.epoch, now_ms);
        // PostgreSQL decides whether one of ours takes its place: news may be old.
        if (registry->options.supersedes)
            tunnel_broker_wake_standbys(registry->options.broker, &(struct runtime_key){line.account_id, line.runtime});
        return;
    }
    (void)registry_table_held(registry->table, &(struct runtime_key){line.account_id, line.runtime}, &line.place,
                              now_ms);
    bool is_ours = strcmp(line.place.replica, registry->options.replica) == 0;
    if (!is_ours && registry->options.supersedes &&
        tunnel_broker_has_older(registry->options.broker, &(struct runtime_key){line.account_id, line.runtime},
                                line.place.epoch))
        check_news(registry, &line);
}

static void on_gap(void *arg)
{
    struct registry *registry = arg;
    registry_table_doubt_all(registry->table);
}

static void publish(struct registry *registry, struct str line)
{
    char text[REGISTRY_SIGNED_BYTES];
    const struct str words[] = {
        STR("PUBLISH"), STR(CHANNEL),
        registry_line_sign(&registry->options.key, STR(CHANNEL), line, clock_wall_ms() + MESSAGE_LIFE_MS, text)};
    redis_command(registry->options.redis, 3, words, NULL, NULL);
}

void registry_tell_open(struct registry *registry, const struct tunnel_session_info *session)
{
    struct redis *redis = registry->options.redis;
    if (!redis || !redis_is_ready(redis)) return;
    char name[REGISTRY_LINE_BYTES], value[REGISTRY_LINE_BYTES], text[REGISTRY_SIGNED_BYTES], life[16];
    struct str account_id = str_c(session->identity.account_id), runtime = str_c(session->identity.runtime);
    struct registry_place place = {.epoch = session->epoch};
    snprintf(place.replica, sizeof place.replica, "%s", registry->options.replica);
    snprintf(place.address, sizeof place.address, "%s", registry->options.address);
    int life_len = snprintf(life, sizeof life, "%d", LINE_LIFE_S);
    struct str at = registry_line_key(&(struct runtime_key){account_id, runtime}, name);
    struct str line = registry_line_sign(&registry->options.key, at, registry_line_place(&place, value),
                                         clock_wall_ms() + LINE_LIFE_S * INT64_C(1000), text);
    const struct str words[] = {STR("SET"), at, line, STR("EX"), str_of(life, (size_t)life_len)};
    redis_command(redis, 5, words, NULL, NULL);
    char message[REGISTRY_LINE_BYTES];
    publish(registry, registry_line_open(&(struct runtime_key){account_id, runtime}, &place, message));
}

void registry_tell_over(struct registry *registry, const struct tunnel_session_info *session)
{
    struct redis *redis = registry->options.redis;
    if (!redis || !redis_is_ready(redis)) return;
    // Only if it is still ours: a newer session may have written its own line already. What follows
    // is the signature.
    static const char script[] =
        "local line=redis.call('GET',KEYS[1]) if line and string.sub(line,1,#ARGV[1]+1)==ARGV[1]..' ' "
        "then return redis.call('DEL',KEYS[1]) end return 0";
    char name[REGISTRY_LINE_BYTES], value[REGISTRY_LINE_BYTES], message[REGISTRY_LINE_BYTES];
    struct str account_id = str_c(session->identity.account_id), runtime = str_c(session->identity.runtime);
    struct registry_place place = {.epoch = session->epoch};
    snprintf(place.replica, sizeof place.replica, "%s", registry->options.replica);
    snprintf(place.address, sizeof place.address, "%s", registry->options.address);
    const struct str words[] = {STR("EVAL"), STR(script), STR("1"),
                                registry_line_key(&(struct runtime_key){account_id, runtime}, name),
                                registry_line_place(&place, value)};
    redis_command(redis, 5, words, NULL, NULL);
    publish(registry, registry_line_over(&(struct runtime_key){account_id, runtime}, session->epoch, message));
}

// ---- life ----------------------------------------------------------------------------------------------------------

struct registry *registry_create(const struct registry_options *options)
{
    struct registry *registry = mem_zalloc(sizeof *registry);
    registry->options = *options;
    registry->table = registry_table_create(&(struct registry_table_options){
        .entries_max = options->entries_max, .place_ms = PLACE_MS, .none_ms = NONE_MS});
    redis_guard_init(&registry->line_guard, "directory");
    redis_guard_init(&registry->message_guard, "message");
    struct metric_family *lookups = metrics_counter("culvert_registry_lookup_total",
                                                    "Lookups of the replica of a runtime, by source.", "result", NULL);
    registry->remembered = metric_with(lookups, "remembered");
    registry->redis_said = metric_with(lookups, "redis");
    registry->postgres_said = metric_with(lookups, "postgres");
    registry->nobody = metric_with(lookups, "no_session");
    registry->failed = metric_with(lookups, "failed");
    if (options->redis) redis_subscribe(options->redis, STR(CHANNEL), on_message, on_gap, registry);
    return registry;
}

void registry_stop(struct registry *registry)
{
    if (!registry || registry->stopped) return;
    registry->stopped = true;
    while (registry->lookups) {
        struct lookup *lookup = registry->lookups;
        registry->lookups = lookup->next;
        while (lookup->queries)
            registry_query_cancel(lookup->queries);
        lookup->registry = NULL;
    }
}

void registry_destroy(struct registry *registry)
{
    if (!registry) return;
    registry_table_destroy(registry->table);
    purpose_key_finish(&registry->options.key);
    mem_free(registry);
}
