#include "server/chores/runtime_tokens.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/token.h"
#include "server/chores/runtime_names.h"
#include "tunnel/wire/proof.h"

enum { REFRESH_ROWS = 1000, ASKED_MAX = 1024, SLOTS_MIN = 64, USES_MAX = 1000 };

static const double minute_ms = 60000;

// A token. What has expired stays for as long as the database keeps it, so that its owner learns
// why it is refused.
struct slot {
    struct tunnel_identity identity; // an empty token_id is a free slot
    char account_name[128];
    uint64_t expires_ms, warns_ms; // monotonic; 0: never
    bool is_expired;
    bool is_used; // since uses were written last
    // New sessions that it may open at once, as of sessions_at_ms; a minute makes it full.
    double sessions_left;
    uint64_t sessions_at_ms;
};

// An id that was asked for and is not in the table.
struct asked {
    char id[TOKEN_ID_BYTES];
    uint64_t at_refresh; // how many refreshes had begun by then
};

struct runtime_tokens {
    struct runtime_tokens_options options;
    pthread_mutex_t mutex;         // guards what follows up to the next blank line
    struct slot *slots;            // open addressing by token id
    size_t slot_count, used;       // slot_count is a power of two
    size_t ending;                 // of them, those that expire some time and have not yet
    size_t expired;                // and those that have
    struct runtime_names names;    // of those that have a valid token in the table
    struct asked asked[ASKED_MAX]; // a ring: the oldest is overwritten, which costs its asker one more try
    size_t asked_next;
    uint64_t refreshes_begun, refreshed_begun; // counters: begun so far; begun number of the last one that ended well
    struct loop *loop;                         // NULL while stopped

    atomic_bool known; // all were read once
    struct pg *pg;     // from here on: the refreshing loop's
    struct timer timer;
    uint64_t change;
    uint64_t unreadable, in_the_clear; // rows of the reading under way whose hash is encrypted otherwise, or not
    uint64_t asked_ms;                 // when the refresh under way began
    uint64_t uses_written_ms;
    bool busy, again, complained, writes_uses;
    struct metric *count, *expiring, *limited, *unwritten;
};

struct runtime_tokens *runtime_tokens_create(const struct runtime_tokens_options *options)
{
    struct runtime_tokens *tokens = mem_zalloc(sizeof *tokens);
    tokens->options = *options;
    pthread_mutex_init(&tokens->mutex, NULL);
    tokens->slot_count = SLOTS_MIN;
    tokens->slots = mem_array(tokens->slot_count, sizeof *tokens->slots);
    runtime_names_init(&tokens->names);
    if (!tokens->options.now_ms) tokens->options.now_ms = clock_mono_ms;
    tokens->uses_written_ms = tokens->options.now_ms();
    tokens->count = metric_with(metrics_gauge("culvert_runtime_tokens", "Valid runtime tokens in memory.", NULL));
    tokens->expiring = metric_with(metrics_gauge("culvert_runtime_tokens_expiring",
                                                 "Valid runtime tokens that expire soon and have no successor.", NULL));
    tokens->limited =
        metric_with(metrics_counter("culvert_runtime_token_sessions_limited_total",
                                    "Handshakes refused because their token opens too many sessions.", NULL));
    tokens->unwritten = metric_with(
        metrics_counter("culvert_runtime_token_uses_failed_total", "Failed writes of the last use of tokens.", NULL));
    return tokens;
}

void runtime_tokens_destroy(struct runtime_tokens *tokens)
{
    if (!tokens) return;
    pthread_mutex_destroy(&tokens->mutex);
    mem_free_secret(tokens->slots, tokens->slot_count * sizeof *tokens->slots);
    runtime_names_finish(&tokens->names);
    mem_free(tokens);
}

// ---- the table (mutex held) ----------------------------------------------------------------------------------------

static size_t slot_of(const struct slot *slots, size_t slot_count, const char *id)
{
    size_t slot = (size_t)hash_end(hash_text(HASH_BEGIN, str_c(id))) & (slot_count - 1); // the ids are random already
    while (slots[slot].identity.token_id[0] && strcmp(slots[slot].identity.token_id, id) != 0)
        slot = (slot + 1) & (slot_count - 1);
    return slot;
}

static struct slot *table_find(struct runtime_tokens *tokens, const char *id)
{
    struct slot *slot = &tokens->slots[slot_of(tokens->slots, tokens->slot_count, id)];
    return slot->identity.token_id[0] ? slot : NULL;
}

static void table_grow(struct runtime_tokens *tokens)
{
    size_t slot_count = tokens->slot_count * 2;
    struct slot *slots = mem_array(slot_count, sizeof *slots);
    for (size_t i = 0; i < tokens->slot_count; i++) {
        if (!tokens->slots[i].identity.token_id[0]) continue;
        slots[slot_of(slots, slot_count, tokens->slots[i].identity.token_id)] = tokens->slots[i];
    }
    mem_free_secret(tokens->slots, tokens->slot_count * sizeof *tokens->slots);
    tokens->slots = slots;
    tokens->slot_count = slot_count;
}

static void copy_text(char *to, size_t size, struct str from)
{
    snprintf(to, size, "%.*s", STR_ARG(from));
}

// Out of the counts that its state put it into.
static void slot_leave(struct runtime_tokens *tokens, const struct slot *slot)
{
    if (slot->is_expired)
        tokens->expired--;
    else
        runtime_names_remove(&tokens->names,
                             &(struct runtime_key){str_c(slot->identity.account_id), str_c(slot->identity.runtime)});
    if (slot->expires_ms && !slot->is_expired) tokens->ending--;
}

static void slot_enter(struct runtime_tokens *tokens, const struct slot *slot)
{
    if (slot->is_expired)
        tokens->expired++;
    else
        runtime_names_add(&tokens->names,
                          &(struct runtime_key){str_c(slot->identity.account_id), str_c(slot->identity.runtime)});
    if (slot->expires_ms && !slot->is_expired) tokens->ending++;
}

// A span as the database gave it, as a time of ours: rather too early than too late. Never 0.
static uint64_t time_after(uint64_t asked_ms, int64_t span_ms)
{
    if (span_ms < 0 && (uint64_t)-span_ms >= asked_ms) return 1;
    return asked_ms + (uint64_t)span_ms;
}

static void table_put(struct runtime_tokens *tokens, const struct runtime_token_row *row)
{
    if (tokens->used * 2 >= tokens->slot_count) table_grow(tokens);
    char id[sizeof((struct tunnel_identity *)0)->token_id];
    copy_text(id, sizeof id, row->token_id);
    struct slot *slot = &tokens->slots[slot_of(tokens->slots, tokens->slot_count, id)];
    struct tunnel_identity *identity = &slot->identity;
    bool is_new = !identity->token_id[0];
    if (is_new) {
        tokens->used++;
        slot->sessions_left = tokens->options.sessions_per_minute;
        slot->sessions_at_ms = tokens->options.now_ms();
    } else {
        slot_leave(tokens, slot);
    }
    memcpy(identity->token_id, id, sizeof id);
    copy_text(identity->account_id, sizeof identity->account_id, row->account_id);
    copy_text(identity->runtime, sizeof identity->runtime, row->runtime);
    copy_text(identity->runtime_id, sizeof identity->runtime_id, row->runtime_id);
    memcpy(identity->token_sha256, row->token_sha256, sizeof identity->token_sha256);
    copy_text(slot->account_name, sizeof slot->account_name, row->account_name);
    slot->expires_ms = row->expires ? time_after(tokens->asked_ms, row->expires_in_ms) : 0;
    slot->warns_ms = row->warns ? time_after(tokens->asked_ms, row->warns_in_ms) : 0;
    // One that was valid so far is ended by look_at_clock(), with its sessions.
    if (is_new || slot->is_expired) slot->is_expired = slot->expires_ms && slot->expires_ms <= tokens->options.now_ms();
    slot_enter(tokens, slot);
}

// Removes and closes the gap, so that later entries of the run are still found.
static bool table_remove(struct runtime_tokens *tokens, struct str token_id, struct tunnel_identity *out)
{
    char id[sizeof((struct tunnel_identity *)0)->token_id];
    copy_text(id, sizeof id, token_id);
    size_t mask = tokens->slot_count - 1, slot = slot_of(tokens->slots, tokens->slot_count, id);
    if (!tokens->slots[slot].identity.token_id[0]) return false;
    *out = tokens->slots[slot].identity;
    slot_leave(tokens, &tokens->slots[slot]);
    memset(&tokens->slots[slot], 0, sizeof tokens->slots[slot]);
    tokens->used--;
    for (size_t next = (slot + 1) & mask; tokens->slots[next].identity.token_id[0]; next = (next + 1) & mask) {
        struct slot moved = tokens->slots[next];
        memset(&tokens->slots[next], 0, sizeof tokens->slots[next]);
        tokens->slots[slot_of(tokens->slots, tokens->slot_count, moved.identity.token_id)] = moved;
    }
    return true;
}

static bool slot_is_over(const struct runtime_tokens *tokens, const struct slot *slot)
{
    return slot->is_expired || (slot->expires_ms && tokens->options.now_ms() >= slot->expires_ms);
}

// May the token open one more session now?
static bool slot_take_session(const struct runtime_tokens *tokens, struct slot *slot)
{
    double most = tokens->options.sessions_per_minute;
    uint64_t now_ms = tokens->options.now_ms();
    if (most <= 0) return true;
    slot->sessions_left += most * (double)(now_ms - slot->sessions_at_ms) / minute_ms;
    if (slot->sessions_left > most) slot->sessions_left = most;
    slot->sessions_at_ms = now_ms;
    if (slot->sessions_left < 1) return false;
    slot->sessions_left -= 1;
    return true;
}

// ---- asking --------------------------------------------------------------------------------------------------------

// True when the id is known to be unknown.
static bool asked_before(struct runtime_tokens *tokens, const char *id)
{
    for (size_t i = 0; i < ASKED_MAX; i++)
        if (strcmp(tokens->asked[i].id, id) == 0) return tokens->refreshed_begun > tokens->asked[i].at_refresh;
    struct asked *asked = &tokens->asked[tokens->asked_next];
    tokens->asked_next = (tokens->asked_next + 1) % ASKED_MAX;
    snprintf(asked->id, sizeof asked->id, "%s", id);
    asked->at_refresh = tokens->refreshes_begun;
    return false;
}

static bool is_secret_of(const struct slot *slot, const uint8_t secret_sha256[ID_SHA256_BYTES])
{
    return str_eq_secret(str_of((const char *)slot->identity.token_sha256, ID_SHA256_BYTES),
                         str_of((const char *)secret_sha256, ID_SHA256_BYTES));
}

static enum error_code refuse_unknown(struct error *err)
{
    return error_set(err, ERROR_UNAUTHENTICATED, "the runtime token is unknown, wrong or revoked");
}

// The secret is right: is there anything else against it?
static enum error_code admit(const struct runtime_tokens *tokens, const struct slot *slot, bool may_open,
                             struct error *err)
{
    if (slot_is_over(tokens, slot)) return error_set(err, ERROR_UNAUTHENTICATED, "the runtime token has expired");
    if (may_open) return ERROR_NONE;
    metric_add(tokens->limited, 1);
    return error_set(err, ERROR_LIMITED, "the runtime token opens more than %u sessions per minute",
                     tokens->options.sessions_per_minute);
}

enum error_code runtime_tokens_authenticate(struct runtime_tokens *tokens, const struct tunnel_credential *credential,
                                            struct tunnel_identity *out, struct error *err)
{
    struct token token;
    if (token_parse(credential->token, &token, err) != ERROR_NONE) {
        if (err) err->code = ERROR_UNAUTHENTICATED;
        return ERROR_UNAUTHENTICATED;
    }
    pthread_mutex_lock(&tokens->mutex);
    const struct slot *slot = table_find(tokens, token.id);
    struct slot found = slot ? *slot : (struct slot){0};
    bool unknown = !slot && asked_before(tokens, token.id);
    pthread_mutex_unlock(&tokens->mutex);
    if (credential->binding && wire_proof_unseal(credential->token, found.identity.token_sha256, credential->binding,
                                                 &token, err) != ERROR_NONE)
        return ERROR_UNAUTHENTICATED; // its form was looked at above
    bool is_same = is_secret_of(&found, token.secret_sha256);
    if (found.identity.token_id[0] && is_same) {
        pthread_mutex_lock(&tokens->mutex);
        struct slot *taker = table_find(tokens, token.id);
        bool may_open = !taker || slot_is_over(tokens, taker) || slot_take_session(tokens, taker);
        if (taker && may_open) taker->is_used = true;
        pthread_mutex_unlock(&tokens->mutex);
        enum error_code code = admit(tokens, &found, may_open, err);
        if (code == ERROR_NONE) *out = found.identity;
        return code;
    }
    if (found.identity.token_id[0] || unknown) return refuse_unknown(err);
    runtime_tokens_refresh(tokens);
    return error_set(err, ERROR_UNAVAILABLE, "the runtime token is not loaded yet");
}

enum error_code runtime_tokens_find(struct runtime_tokens *tokens, const struct token *token,
                                    struct runtime_tokens_found *out, struct error *err)
{
    pthread_mutex_lock(&tokens->mutex);
    struct slot *slot = table_find(tokens, token->id);
    struct slot found = slot ? *slot : (struct slot){0};
    bool is_good = slot && is_secret_of(slot, token->secret_sha256) && !slot_is_over(tokens, slot);
    if (is_good) slot->is_used = true;
    pthread_mutex_unlock(&tokens->mutex);
    if (!found.identity.token_id[0]) return error_set(err, ERROR_NOT_FOUND, "unknown runtime token id");
    if (!is_good) return refuse_unknown(err);
    out->identity = found.identity;
    memcpy(out->account_name, found.account_name, sizeof out->account_name);
    return ERROR_NONE;
}

void runtime_tokens_note_use(struct runtime_tokens *tokens, const char *token_id)
{
    pthread_mutex_lock(&tokens->mutex);
    struct slot *slot = table_find(tokens, token_id);
    if (slot) slot->is_used = true;
    pthread_mutex_unlock(&tokens->mutex);
}

bool runtime_tokens_has(struct runtime_tokens *tokens, const struct tunnel_identity *identity)
{
    pthread_mutex_lock(&tokens->mutex);
    const struct slot *slot = table_find(tokens, identity->token_id);
    bool has = slot && !slot_is_over(tokens, slot);
    pthread_mutex_unlock(&tokens->mutex);
    return has;
}

bool runtime_tokens_knows(struct runtime_tokens *tokens, const struct runtime_key *key)
{
    if (!atomic_load(&tokens->known)) return true;
    pthread_mutex_lock(&tokens->mutex);
    bool knows = runtime_names_have(&tokens->names, key);
    pthread_mutex_unlock(&tokens->mutex);
    return knows;
}

// ---- time ----------------------------------------------------------------------------------------------------------

// The next token whose time is over, which is noted; false: not found.
static bool expire_one(struct runtime_tokens *tokens, size_t *at, struct tunnel_identity *out)
{
    uint64_t now_ms = tokens->options.now_ms();
    bool found = false;
    pthread_mutex_lock(&tokens->mutex);
    for (; *at < tokens->slot_count && tokens->ending && !found; (*at)++) {
        struct slot *slot = &tokens->slots[*at];
        if (!slot->identity.token_id[0] || slot->is_expired || !slot->expires_ms || now_ms < slot->expires_ms) continue;
        slot_leave(tokens, slot);
        slot->is_expired = true;
        slot_enter(tokens, slot);
        *out = slot->identity;
        found = true;
    }
    pthread_mutex_unlock(&tokens->mutex);
    return found;
}

// Tokens that end soon, for the metric. Most installations have none that ever do.
static size_t count_expiring(const struct runtime_tokens *tokens)
{
    size_t count = 0;
    uint64_t now_ms = tokens->options.now_ms();
    for (size_t i = 0; i < tokens->slot_count && tokens->ending; i++) {
        const struct slot *slot = &tokens->slots[i];
        if (slot->identity.token_id[0] && !slot->is_expired && slot->warns_ms && now_ms >= slot->warns_ms) count++;
    }
    return count;
}

static void look_at_clock(struct runtime_tokens *tokens)
{
    struct tunnel_identity gone;
    for (size_t at = 0; expire_one(tokens, &at, &gone);) {
        log_info("runtime_tokens", "expired", log_c("token_id", gone.token_id), log_c("account", gone.account_id),
                 log_c("runtime", gone.runtime));
        tokens->options.on_ended(tokens->options.ctx, &gone, "the runtime token has expired");
    }
    explicit_bzero(&gone, sizeof gone);
    pthread_mutex_lock(&tokens->mutex);
    metric_set(tokens->count, (int64_t)(tokens->used - tokens->expired));
    metric_set(tokens->expiring, (int64_t)count_expiring(tokens));
    pthread_mutex_unlock(&tokens->mutex);
}

// ---- uses ----------------------------------------------------------------------------------------------------------

static void write_uses(struct runtime_tokens *tokens);

static void on_uses_written(void *arg, const struct error *err, uint64_t count)
{
    struct runtime_tokens *tokens = arg;
    (void)count;
    tokens->writes_uses = false;
    if (err) // the next use is written; nothing depends on this one
        metric_add(tokens->unwritten, 1);
    else if (timer_is_open(&tokens->timer))
        write_uses(tokens);
}

// Up to USES_MAX; the rest follows when these are written.
static void write_uses(struct runtime_tokens *tokens)
{
    char(*ids)[TOKEN_ID_BYTES] = mem_array(USES_MAX, sizeof *ids);
    const char *list[USES_MAX];
    size_t count = 0;
    pthread_mutex_lock(&tokens->mutex);
    for (size_t i = 0; i < tokens->slot_count && count < USES_MAX; i++) {
        struct slot *slot = &tokens->slots[i];
        if (!slot->is_used) continue;
        slot->is_used = false;
        memcpy(ids[count], slot->identity.token_id, sizeof ids[count]);
        list[count] = ids[count];
        count++;
    }
    pthread_mutex_unlock(&tokens->mutex);
    tokens->writes_uses = count > 0;
    if (count) tokens->options.note_use(tokens->pg, list, count, on_uses_written, tokens);
    mem_free(ids);
}

static void write_uses_if_due(struct runtime_tokens *tokens)
{
    uint64_t now_ms = tokens->options.now_ms(), interval_ms = tokens->options.used_interval_ms;
    if (!interval_ms || tokens->writes_uses || now_ms - tokens->uses_written_ms < interval_ms) return;
    tokens->uses_written_ms = now_ms;
    if (tokens->options.on_collect_uses) tokens->options.on_collect_uses(tokens->options.ctx);
    write_uses(tokens);
}

// ---- refreshing ----------------------------------------------------------------------------------------------------

static void refresh(struct runtime_tokens *tokens);

// What this reading found that people should know of.
static void note_keys(struct runtime_tokens *tokens)
{
    if (tokens->unreadable)
        log_error("runtime_tokens", "runtime_tokens_unreadable", log_uint("count", tokens->unreadable),
                  log_c("hint", "they are encrypted with a deployment key that is not configured, or were modified"));
    if (tokens->in_the_clear && tokens->options.expects_sealed)
        log_warn("runtime_tokens", "runtime_tokens_not_encrypted", log_uint("count", tokens->in_the_clear),
                 log_c("hint", "culvertd admin encrypt-tokens, once all replicas are of this version"));
    tokens->unreadable = tokens->in_the_clear = 0;
}

static void on_rows(void *arg, const struct error *err, const struct runtime_token_row *rows, size_t count)
{
    struct runtime_tokens *tokens = arg;
    tokens->busy = false;
    if (err) {
        if (!tokens->complained) log_warn("runtime_tokens", "refresh_failed", log_err(err));
        tokens->complained = true;
        return;
    }
    tokens->complained = false;
    for (size_t i = 0; i < count; i++) {
        struct tunnel_identity gone;
        pthread_mutex_lock(&tokens->mutex);
        bool is_over = rows[i].revoked || rows[i].unreadable;
        bool removed = is_over && table_remove(tokens, rows[i].token_id, &gone);
        if (!is_over) table_put(tokens, &rows[i]);
        pthread_mutex_unlock(&tokens->mutex);
        tokens->change = rows[i].change;
        if (removed) tokens->options.on_ended(tokens->options.ctx, &gone, "the runtime token was revoked");
        tokens->unreadable += !rows[i].revoked && rows[i].unreadable;
        tokens->in_the_clear += !is_over && !rows[i].is_sealed;
    }
    bool complete = count < REFRESH_ROWS;
    if (complete) {
        pthread_mutex_lock(&tokens->mutex);
        tokens->refreshed_begun = tokens->refreshes_begun;
        pthread_mutex_unlock(&tokens->mutex);
        atomic_store(&tokens->known, true);
        note_keys(tokens);
    }
    look_at_clock(tokens);
    if (!complete || tokens->again) refresh(tokens);
}

static void refresh(struct runtime_tokens *tokens)
{
    if (!timer_is_open(&tokens->timer)) return;
    if (tokens->busy) {
        tokens->again = true;
        return;
    }
    tokens->busy = true;
    tokens->again = false;
    tokens->asked_ms = tokens->options.now_ms();
    pthread_mutex_lock(&tokens->mutex);
    tokens->refreshes_begun++;
    pthread_mutex_unlock(&tokens->mutex);
    tokens->options.tokens_changed(tokens->pg, tokens->change, REFRESH_ROWS, on_rows, tokens);
}

static void on_timer(void *arg)
{
    struct runtime_tokens *tokens = arg;
    look_at_clock(tokens);
    write_uses_if_due(tokens);
    refresh(tokens);
}

static void refresh_posted(void *arg)
{
    refresh(arg);
}

bool runtime_tokens_are_known(const struct runtime_tokens *tokens)
{
    return atomic_load(&tokens->known);
}

void runtime_tokens_refresh(struct runtime_tokens *tokens)
{
    pthread_mutex_lock(&tokens->mutex);
    if (tokens->loop) loop_post(tokens->loop, refresh_posted, tokens);
    pthread_mutex_unlock(&tokens->mutex);
}

void runtime_tokens_start(struct runtime_tokens *tokens, struct loop *loop, struct pg *pg)
{
    tokens->pg = pg;
    timer_init(&tokens->timer, loop_uv(loop), on_timer, tokens);
    timer_start(&tokens->timer, 0, tokens->options.refresh_ms);
    pthread_mutex_lock(&tokens->mutex);
    tokens->loop = loop;
    pthread_mutex_unlock(&tokens->mutex);
}

void runtime_tokens_stop(struct runtime_tokens *tokens)
{
    pthread_mutex_lock(&tokens->mutex);
    tokens->loop = NULL;
    pthread_mutex_unlock(&tokens->mutex);
    if (!timer_is_open(&tokens->timer)) return;
    timer_finish(&tokens->timer);
}
