#include "server/runtime_tokens.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/token.h"
#include "server/runtime_names.h"
#include "tunnel/wire/proof.h"

enum { REFRESH_ROWS = 1000, ASKED_MAX = 1024, SLOTS_MIN = 64 };

// An id that was asked for and is not in the table.
struct asked {
    char id[TOKEN_ID_BYTES];
    uint64_t at_refresh; // how many refreshes had begun by then
};

struct runtime_tokens {
    struct runtime_tokens_options options;
    pthread_mutex_t mutex;         // guards what follows up to the next blank line
    struct tunnel_identity *slots; // open addressing by token id; an empty token_id is a free slot
    size_t slot_count, used;       // slot_count is a power of two
    struct runtime_names names;    // of those that have a token in the table
    struct asked asked[ASKED_MAX]; // a ring: the oldest is overwritten, which costs its asker one more try
    size_t asked_next;
    uint64_t refreshes_begun, refreshed_begun; // counters: begun so far; begun number of the last one that ended well
    struct loop *loop;                         // NULL while stopped

    atomic_bool known; // all were read once
    struct pg *pg;     // from here on: the refreshing loop's
    uv_timer_t *timer;
    uint64_t change;
    bool busy, again, complained;
    struct metric *count;
};

struct runtime_tokens *runtime_tokens_create(const struct runtime_tokens_options *options)
{
    struct runtime_tokens *tokens = mem_zalloc(sizeof *tokens);
    tokens->options = *options;
    pthread_mutex_init(&tokens->mutex, NULL);
    tokens->slot_count = SLOTS_MIN;
    tokens->slots = mem_array(tokens->slot_count, sizeof *tokens->slots);
    runtime_names_init(&tokens->names);
    tokens->count = metric_with(metrics_gauge("culvert_runtime_tokens", "Valid runtime tokens in memory.", NULL));
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

static size_t slot_of(const struct tunnel_identity *slots, size_t slot_count, const char *id)
{
    size_t slot = (size_t)hash_end(hash_text(HASH_BEGIN, str_c(id))) & (slot_count - 1); // the ids are random already
    while (slots[slot].token_id[0] && strcmp(slots[slot].token_id, id) != 0)
        slot = (slot + 1) & (slot_count - 1);
    return slot;
}

static void table_grow(struct runtime_tokens *tokens)
{
    size_t slot_count = tokens->slot_count * 2;
    struct tunnel_identity *slots = mem_array(slot_count, sizeof *slots);
    for (size_t i = 0; i < tokens->slot_count; i++) {
        if (!tokens->slots[i].token_id[0]) continue;
        slots[slot_of(slots, slot_count, tokens->slots[i].token_id)] = tokens->slots[i];
    }
    mem_free_secret(tokens->slots, tokens->slot_count * sizeof *tokens->slots);
    tokens->slots = slots;
    tokens->slot_count = slot_count;
}

static void copy_text(char *to, size_t size, struct str from)
{
    snprintf(to, size, "%.*s", STR_ARG(from));
}

static void table_put(struct runtime_tokens *tokens, const struct runtime_token_row *row)
{
    if (tokens->used * 2 >= tokens->slot_count) table_grow(tokens);
    char id[sizeof((struct tunnel_identity *)0)->token_id];
    copy_text(id, sizeof id, row->token_id);
    struct tunnel_identity *slot = &tokens->slots[slot_of(tokens->slots, tokens->slot_count, id)];
    if (slot->token_id[0])
        runtime_names_remove(&tokens->names, str_c(slot->account_id), str_c(slot->runtime));
    else
        tokens->used++;
    memcpy(slot->token_id, id, sizeof id);
    copy_text(slot->account_id, sizeof slot->account_id, row->account_id);
    copy_text(slot->runtime, sizeof slot->runtime, row->runtime);
    copy_text(slot->runtime_id, sizeof slot->runtime_id, row->runtime_id);
    memcpy(slot->token_sha256, row->token_sha256, sizeof slot->token_sha256);
    runtime_names_add(&tokens->names, str_c(slot->account_id), str_c(slot->runtime));
}

// Removes and closes the gap, so that later entries of the run are still found.
static bool table_remove(struct runtime_tokens *tokens, struct str token_id, struct tunnel_identity *out)
{
    char id[sizeof((struct tunnel_identity *)0)->token_id];
    copy_text(id, sizeof id, token_id);
    size_t mask = tokens->slot_count - 1, slot = slot_of(tokens->slots, tokens->slot_count, id);
    if (!tokens->slots[slot].token_id[0]) return false;
    *out = tokens->slots[slot];
    runtime_names_remove(&tokens->names, str_c(out->account_id), str_c(out->runtime));
    memset(&tokens->slots[slot], 0, sizeof tokens->slots[slot]);
    tokens->used--;
    for (size_t next = (slot + 1) & mask; tokens->slots[next].token_id[0]; next = (next + 1) & mask) {
        struct tunnel_identity moved = tokens->slots[next];
        memset(&tokens->slots[next], 0, sizeof tokens->slots[next]);
        tokens->slots[slot_of(tokens->slots, tokens->slot_count, moved.token_id)] = moved;
    }
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

enum error_code runtime_tokens_authenticate(struct runtime_tokens *tokens, const struct tunnel_credential *credential,
                                            struct tunnel_identity *out, struct error *err)
{
    struct token token;
    if (token_parse(credential->token, &token, err) != ERROR_NONE) {
        if (err) err->code = ERROR_UNAUTHENTICATED;
        return ERROR_UNAUTHENTICATED;
    }
    pthread_mutex_lock(&tokens->mutex);
    struct tunnel_identity found = tokens->slots[slot_of(tokens->slots, tokens->slot_count, token.id)];
    bool unknown = !found.token_id[0] && asked_before(tokens, token.id);
    pthread_mutex_unlock(&tokens->mutex);
    if (credential->binding &&
        wire_proof_unseal(credential->token, found.token_sha256, credential->binding, &token, err) != ERROR_NONE)
        return ERROR_UNAUTHENTICATED; // its form was looked at above
    struct str ours = str_of((const char *)found.token_sha256, sizeof found.token_sha256);
    bool same = str_eq_secret(ours, str_of((const char *)token.secret_sha256, sizeof token.secret_sha256));
    if (found.token_id[0] && same) {
        *out = found;
        return ERROR_NONE;
    }
    if (found.token_id[0] || unknown)
        return error_set(err, ERROR_UNAUTHENTICATED, "the runtime token is unknown, wrong or revoked");
    runtime_tokens_refresh(tokens);
    return error_set(err, ERROR_UNAVAILABLE, "the runtime token is being looked up");
}

bool runtime_tokens_has(struct runtime_tokens *tokens, const struct tunnel_identity *identity)
{
    pthread_mutex_lock(&tokens->mutex);
    bool has = tokens->slots[slot_of(tokens->slots, tokens->slot_count, identity->token_id)].token_id[0] != '\0';
    pthread_mutex_unlock(&tokens->mutex);
    return has;
}

bool runtime_tokens_knows(struct runtime_tokens *tokens, struct str account_id, struct str runtime)
{
    if (!atomic_load(&tokens->known)) return true;
    pthread_mutex_lock(&tokens->mutex);
    bool knows = runtime_names_have(&tokens->names, account_id, runtime);
    pthread_mutex_unlock(&tokens->mutex);
    return knows;
}

// ---- refreshing ----------------------------------------------------------------------------------------------------

static void refresh(struct runtime_tokens *tokens);

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
        bool removed = rows[i].revoked && table_remove(tokens, rows[i].token_id, &gone);
        if (!rows[i].revoked) table_put(tokens, &rows[i]);
        pthread_mutex_unlock(&tokens->mutex);
        tokens->change = rows[i].change;
        if (removed) tokens->options.on_revoked(tokens->options.ctx, &gone);
    }
    pthread_mutex_lock(&tokens->mutex);
    bool complete = count < REFRESH_ROWS;
    if (complete) tokens->refreshed_begun = tokens->refreshes_begun;
    if (complete) atomic_store(&tokens->known, true);
    metric_set(tokens->count, (int64_t)tokens->used);
    pthread_mutex_unlock(&tokens->mutex);
    if (!complete || tokens->again) refresh(tokens);
}

static void refresh(struct runtime_tokens *tokens)
{
    if (!tokens->timer) return;
    if (tokens->busy) {
        tokens->again = true;
        return;
    }
    tokens->busy = true;
    tokens->again = false;
    pthread_mutex_lock(&tokens->mutex);
    tokens->refreshes_begun++;
    pthread_mutex_unlock(&tokens->mutex);
    tokens->options.tokens_since(tokens->pg, tokens->change, REFRESH_ROWS, on_rows, tokens);
}

static void on_timer(uv_timer_t *timer)
{
    refresh(timer->data);
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
    tokens->timer = mem_zalloc(sizeof *tokens->timer);
    tokens->timer->data = tokens;
    uv_timer_init(loop_uv(loop), tokens->timer);
    uv_timer_start(tokens->timer, on_timer, 0, tokens->options.refresh_ms);
    pthread_mutex_lock(&tokens->mutex);
    tokens->loop = loop;
    pthread_mutex_unlock(&tokens->mutex);
}

static void free_timer(uv_handle_t *timer)
{
    mem_free(timer);
}

void runtime_tokens_stop(struct runtime_tokens *tokens)
{
    pthread_mutex_lock(&tokens->mutex);
    tokens->loop = NULL;
    pthread_mutex_unlock(&tokens->mutex);
    if (!tokens->timer) return;
    uv_close((uv_handle_t *)tokens->timer, free_timer);
    tokens->timer = NULL;
}
