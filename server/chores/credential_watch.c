#include "server/chores/credential_watch.h"

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
struct credential_watch_key {
    char token_id[TOKEN_ID_BYTES];
    struct credential_watch_key *next;
    struct watched_credential *first;
    uint64_t since_ms; // that something is open
    uint64_t valid_at_ms;
    bool asked; // in the query under way
};

struct credential_watch {
    struct loop *loop;
    struct credential_watch_options options;
    struct credential_watch_key *buckets[BUCKETS];
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

struct credential_watch *credential_watch_create(struct loop *loop, const struct credential_watch_options *options)
{
    struct credential_watch *credential_watch = mem_zalloc(sizeof *credential_watch);
    credential_watch->loop = loop;
    credential_watch->options = *options;
    if (!credential_watch->options.interval_ms) credential_watch->options.interval_ms = INTERVAL_MS;
    if (!credential_watch->options.valid_tokens) credential_watch->options.valid_tokens = identity_store_valid_tokens;
    timer_init(&credential_watch->timer, loop_uv(loop), on_timer, credential_watch);
    struct metric_family *checks = metrics_counter(
        "culvert_credential_checks_total", "Repeated checks of API keys that have open requests.", "result", NULL);
    credential_watch->valid = metric_with(checks, "valid");
    credential_watch->not_valid = metric_with(checks, "void");
    credential_watch->failed = metric_with(checks, "failed");
    struct metric_family *cuts = metrics_counter(
        "culvert_credential_cuts_total", "Requests ended because their API key is no longer valid.", "reason", NULL);
    credential_watch->cut = metric_with(cuts, "void");
    credential_watch->cut_unchecked = metric_with(cuts, "unchecked");
    return credential_watch;
}

void credential_watch_stop(struct credential_watch *credential_watch)
{
    if (!credential_watch || !timer_is_open(&credential_watch->timer)) return;
    timer_finish(&credential_watch->timer);
}

// ---- the table --------------------------------------------------------------------------------

static struct credential_watch_key **place_of(struct credential_watch *credential_watch, const char *token_id)
{
    // Only ids that were found valid get here, and they are random.
    struct credential_watch_key **at =
        &credential_watch->buckets[hash_end(hash_text(HASH_BEGIN, str_c(token_id))) % BUCKETS];
    while (*at && strcmp((*at)->token_id, token_id) != 0)
        at = &(*at)->next;
    return at;
}

// Keys that have nothing open any more. They stay until the next check, because busy ones come back
// at once.
static void drop_empty(struct credential_watch *credential_watch)
{
    for (size_t i = 0; i < BUCKETS && credential_watch->keys; i++) {
        for (struct credential_watch_key **at = &credential_watch->buckets[i]; *at;) {
            struct credential_watch_key *key = *at;
            if (key->first) {
                at = &key->next;
                continue;
            }
            *at = key->next;
            credential_watch->keys--;
            mem_free(key);
        }
    }
}

void credential_watch_destroy(struct credential_watch *credential_watch)
{
    if (!credential_watch) return;
    credential_watch_stop(credential_watch);
    drop_empty(credential_watch);
    assert(credential_watch->keys == 0);
    mem_free(credential_watch);
}

void credential_watch_add(struct credential_watch *credential_watch, struct watched_credential *grant,
                          struct str token_id, void (*on_void)(void *arg, bool is_unchecked), void *arg)
{
    credential_watch_add_rights(credential_watch, grant, token_id, CREDENTIAL_WATCHX_ANY_RIGHTS, on_void, arg);
}

void credential_watch_add_rights(struct credential_watch *credential_watch, struct watched_credential *grant,
                                 struct str token_id, uint64_t rights, void (*on_void)(void *arg, bool is_unchecked),
                                 void *arg)
{
    char id[TOKEN_ID_BYTES];
    uint64_t now_ms = clock_mono_ms();
    assert(!grant->key && token_id.len < sizeof id);
    snprintf(id, sizeof id, "%.*s", STR_ARG(token_id));
    struct credential_watch_key **at = place_of(credential_watch, id);
    if (!*at) {
        *at = mem_zalloc(sizeof **at);
        memcpy((*at)->token_id, id, sizeof id);
        credential_watch->keys++;
    }
    struct credential_watch_key *key = *at;
    if (!key->first) key->since_ms = now_ms;
    key->valid_at_ms = now_ms;
    *grant = (struct watched_credential){
        .key = key, .next = key->first, .link = &key->first, .rights = rights, .on_void = on_void, .arg = arg};
    if (grant->next) grant->next->link = &grant->next;
    key->first = grant;
    if (timer_is_open(&credential_watch->timer) && !timer_is_active(&credential_watch->timer))
        timer_start(&credential_watch->timer, credential_watch->options.interval_ms,
                    credential_watch->options.interval_ms);
}

void credential_watch_remove(struct watched_credential *grant)
{
    if (!grant->key) return;
    *grant->link = grant->next;
    if (grant->next) grant->next->link = grant->link;
    grant->key = NULL;
}

// The key itself stays: its turn to go comes when the table is not being iterated.
static void end_all(struct credential_watch *credential_watch, struct credential_watch_key *key, bool is_unchecked)
{
    log_info("credential_watch", "ended", log_c("token_id", key->token_id), log_bool("is_unchecked", is_unchecked));
    while (key->first) {
        struct watched_credential *grant = key->first;
        credential_watch_remove(grant);
        metric_add(is_unchecked ? credential_watch->cut_unchecked : credential_watch->cut, 1);
        grant->on_void(grant->arg, is_unchecked);
    }
}

static bool is_changed(const struct watched_credential *grant, uint64_t rights)
{
    return grant->rights != CREDENTIAL_WATCHX_ANY_RIGHTS && grant->rights != rights;
}

// Of a key that permits something else now. One that ends may remove others, so each looks anew.
static void end_changed(struct credential_watch *credential_watch, struct credential_watch_key *key, uint64_t rights)
{
    for (struct watched_credential *grant = key->first; grant;) {
        if (!is_changed(grant, rights)) {
            grant = grant->next;
            continue;
        }
        credential_watch_remove(grant);
        metric_add(credential_watch->cut, 1);
        grant->on_void(grant->arg, false);
        grant = key->first;
    }
}

// ---- looking again ----------------------------------------------------------------------------

static void ask(struct credential_watch *credential_watch);

static void on_valid(void *arg, const struct error *err, const struct valid_token *tokens, size_t count)
{
    struct credential_watch *credential_watch = arg;
    credential_watch->busy = false;
    if (err) {
        if (!credential_watch->complained) log_warn("credential_watch", "check_failed", log_err(err));
        credential_watch->complained = true;
        credential_watch->bucket = BUCKETS; // the next round begins anew
        metric_add(credential_watch->failed, credential_watch->asked_count);
        return;
    }
    credential_watch->complained = false;
    for (size_t i = 0; i < count; i++) {
        char id[TOKEN_ID_BYTES];
        snprintf(id, sizeof id, "%.*s", STR_ARG(tokens[i].id));
        struct credential_watch_key *key = *place_of(credential_watch, id);
        if (!key || !key->asked) continue;
        key->asked = false;
        if (key->valid_at_ms < credential_watch->asked_ms) key->valid_at_ms = credential_watch->asked_ms;
        metric_add(credential_watch->valid, 1);
        end_changed(credential_watch, key, tokens[i].rights);
    }
    for (size_t i = 0; i < credential_watch->asked_count; i++) {
        struct credential_watch_key *key = *place_of(credential_watch, credential_watch->asked[i]);
        if (!key || !key->asked) continue;
        key->asked = false;
        metric_add(credential_watch->not_valid, 1);
        end_all(credential_watch, key, false);
    }
    if (timer_is_open(&credential_watch->timer)) ask(credential_watch);
}

// One query for the keys of the next buckets.
static void ask(struct credential_watch *credential_watch)
{
    const char *ids[ASK_MAX];
    size_t count = 0;
    credential_watch->asked_ms = clock_mono_ms();
    for (; credential_watch->bucket < BUCKETS; credential_watch->bucket++) {
        size_t before = count;
        struct credential_watch_key *key = credential_watch->buckets[credential_watch->bucket];
        for (; key && count < ASK_MAX; key = key->next)
            if (key->first && credential_watch->asked_ms - key->since_ms >= YOUNG_MS) ids[count++] = key->token_id;
        if (key && before > 0) { // the whole bucket goes into the next one
            count = before;
            break;
        }
    }
    credential_watch->asked_count = count;
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) {
        snprintf(credential_watch->asked[i], sizeof credential_watch->asked[i], "%s", ids[i]);
        (*place_of(credential_watch, ids[i]))->asked = true;
    }
    credential_watch->busy = true;
    credential_watch->options.valid_tokens(credential_watch->options.pg, ids, count, on_valid, credential_watch);
}

static void end_unchecked(struct credential_watch *credential_watch)
{
    uint64_t now_ms = clock_mono_ms();
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct credential_watch_key *key = credential_watch->buckets[i]; key; key = key->next)
            if (key->first && now_ms - key->valid_at_ms >= credential_watch->options.grace_ms)
                end_all(credential_watch, key, true);
}

static void on_timer(void *arg)
{
    struct credential_watch *credential_watch = arg;
    end_unchecked(credential_watch);
    if (credential_watch->busy) return;
    drop_empty(credential_watch);
    if (credential_watch->keys == 0) {
        timer_stop(&credential_watch->timer);
        return;
    }
    credential_watch->bucket = 0;
    ask(credential_watch);
}
