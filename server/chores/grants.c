#include "server/chores/grants.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/token.h"

enum {
    INTERVAL_MS = 500,
    YOUNG_MS = 250, // what is younger was checked a moment ago and will mostly be over soon
    BUCKETS = 1024,
    ASK_MAX = 1000, // in one query; more go into the next
};

// A key that has something open, or had a moment ago.
struct grants_key {
    char token_id[TOKEN_ID_BYTES];
    struct grants_key *next;
    struct grant *first;
    uint64_t since_ms; // that something is open
    uint64_t valid_at_ms;
    bool asked; // in the query under way
};

struct grants {
    struct loop *loop;
    struct grants_options options;
    struct grants_key *buckets[BUCKETS];
    size_t keys;
    struct timer timer; // closed: stopped
    bool busy;          // a query is under way
    bool complained;
    size_t bucket;                       // where the next query of this round begins
    char asked[ASK_MAX][TOKEN_ID_BYTES]; // by the query under way
    size_t asked_count;
    uint64_t asked_ms;
    struct metric *valid, *not_valid, *failed, *cut, *cut_unchecked;
};

static void on_timer(void *arg);

struct grants *grants_create(struct loop *loop, const struct grants_options *options)
{
    struct grants *grants = mem_zalloc(sizeof *grants);
    grants->loop = loop;
    grants->options = *options;
    if (!grants->options.interval_ms) grants->options.interval_ms = INTERVAL_MS;
    if (!grants->options.valid_tokens) grants->options.valid_tokens = identity_store_valid_tokens;
    timer_init(&grants->timer, loop_uv(loop), on_timer, grants);
    struct metric_family *checks = metrics_counter(
        "culvert_credential_checks_total", "Repeated checks of API keys that have open requests.", "result", NULL);
    grants->valid = metric_with(checks, "valid");
    grants->not_valid = metric_with(checks, "void");
    grants->failed = metric_with(checks, "failed");
    struct metric_family *cuts = metrics_counter(
        "culvert_credential_cuts_total", "Requests ended because their API key is no longer valid.", "reason", NULL);
    grants->cut = metric_with(cuts, "void");
    grants->cut_unchecked = metric_with(cuts, "unchecked");
    return grants;
}

void grants_stop(struct grants *grants)
{
    if (!grants || !timer_is_open(&grants->timer)) return;
    timer_finish(&grants->timer);
}

// ---- the table -----------------------------------------------------------------------------------------------------

static struct grants_key **place_of(struct grants *grants, const char *token_id)
{
    // Only ids that were found valid get here, and they are random.
    struct grants_key **at = &grants->buckets[hash_end(hash_text(HASH_BEGIN, str_c(token_id))) % BUCKETS];
    while (*at && strcmp((*at)->token_id, token_id) != 0)
        at = &(*at)->next;
    return at;
}

// Keys that have nothing open any more. They stay until the next check, because busy ones come back
// at once.
static void drop_empty(struct grants *grants)
{
    for (size_t i = 0; i < BUCKETS && grants->keys; i++) {
        for (struct grants_key **at = &grants->buckets[i]; *at;) {
            struct grants_key *key = *at;
            if (key->first) {
                at = &key->next;
                continue;
            }
            *at = key->next;
            grants->keys--;
            mem_free(key);
        }
    }
}

void grants_destroy(struct grants *grants)
{
    if (!grants) return;
    grants_stop(grants);
    drop_empty(grants);
    assert(grants->keys == 0);
    mem_free(grants);
}

void grants_add(struct grants *grants, struct grant *grant, struct str token_id,
                void (*on_void)(void *arg, bool is_unchecked), void *arg)
{
    char id[TOKEN_ID_BYTES];
    uint64_t now_ms = clock_mono_ms();
    assert(!grant->key && token_id.len < sizeof id);
    snprintf(id, sizeof id, "%.*s", STR_ARG(token_id));
    struct grants_key **at = place_of(grants, id);
    if (!*at) {
        *at = mem_zalloc(sizeof **at);
        memcpy((*at)->token_id, id, sizeof id);
        grants->keys++;
    }
    struct grants_key *key = *at;
    if (!key->first) key->since_ms = now_ms;
    key->valid_at_ms = now_ms;
    *grant = (struct grant){.key = key, .next = key->first, .link = &key->first, .on_void = on_void, .arg = arg};
    if (grant->next) grant->next->link = &grant->next;
    key->first = grant;
    if (timer_is_open(&grants->timer) && !timer_is_active(&grants->timer))
        timer_start(&grants->timer, grants->options.interval_ms, grants->options.interval_ms);
}

void grants_remove(struct grant *grant)
{
    if (!grant->key) return;
    *grant->link = grant->next;
    if (grant->next) grant->next->link = grant->link;
    grant->key = NULL;
}

// The key itself stays: its turn to go comes when the table is not being iterated.
static void end_all(struct grants *grants, struct grants_key *key, bool is_unchecked)
{
    log_info("grants", "ended", log_c("token_id", key->token_id), log_bool("is_unchecked", is_unchecked));
    while (key->first) {
        struct grant *grant = key->first;
        grants_remove(grant);
        metric_add(is_unchecked ? grants->cut_unchecked : grants->cut, 1);
        grant->on_void(grant->arg, is_unchecked);
    }
}

// ---- looking again -------------------------------------------------------------------------------------------------

static void ask(struct grants *grants);

static void on_valid(void *arg, const struct error *err, const struct str *token_ids, size_t count)
{
    struct grants *grants = arg;
    grants->busy = false;
    if (err) {
        if (!grants->complained) log_warn("grants", "check_failed", log_err(err));
        grants->complained = true;
        grants->bucket = BUCKETS; // the next round begins anew
        metric_add(grants->failed, grants->asked_count);
        return;
    }
    grants->complained = false;
    for (size_t i = 0; i < count; i++) {
        char id[TOKEN_ID_BYTES];
        snprintf(id, sizeof id, "%.*s", STR_ARG(token_ids[i]));
        struct grants_key *key = *place_of(grants, id);
        if (!key || !key->asked) continue;
        key->asked = false;
        if (key->valid_at_ms < grants->asked_ms) key->valid_at_ms = grants->asked_ms;
        metric_add(grants->valid, 1);
    }
    for (size_t i = 0; i < grants->asked_count; i++) {
        struct grants_key *key = *place_of(grants, grants->asked[i]);
        if (!key || !key->asked) continue;
        key->asked = false;
        metric_add(grants->not_valid, 1);
        end_all(grants, key, false);
    }
    if (timer_is_open(&grants->timer)) ask(grants);
}

// One query for the keys of the next buckets.
static void ask(struct grants *grants)
{
    const char *ids[ASK_MAX];
    size_t count = 0;
    grants->asked_ms = clock_mono_ms();
    for (; grants->bucket < BUCKETS; grants->bucket++) {
        size_t before = count;
        struct grants_key *key = grants->buckets[grants->bucket];
        for (; key && count < ASK_MAX; key = key->next)
            if (key->first && grants->asked_ms - key->since_ms >= YOUNG_MS) ids[count++] = key->token_id;
        if (key && before > 0) { // the whole bucket goes into the next one
            count = before;
            break;
        }
    }
    grants->asked_count = count;
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) {
        snprintf(grants->asked[i], sizeof grants->asked[i], "%s", ids[i]);
        (*place_of(grants, ids[i]))->asked = true;
    }
    grants->busy = true;
    grants->options.valid_tokens(grants->options.pg, ids, count, on_valid, grants);
}

static void end_unchecked(struct grants *grants)
{
    uint64_t now_ms = clock_mono_ms();
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct grants_key *key = grants->buckets[i]; key; key = key->next)
            if (key->first && now_ms - key->valid_at_ms >= grants->options.grace_ms) end_all(grants, key, true);
}

static void on_timer(void *arg)
{
    struct grants *grants = arg;
    end_unchecked(grants);
    if (grants->busy) return;
    drop_empty(grants);
    if (grants->keys == 0) {
        timer_stop(&grants->timer);
        return;
    }
    grants->bucket = 0;
    ask(grants);
}
