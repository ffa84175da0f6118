#include "api/access/runtime_token_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/access/token_seal.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/token.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

struct create_call {
    unsigned valid_max;
    store_node_done on_done;
    void *arg;
};

enum create_answer { ANSWER_HOLD, ANSWER_ADD };

static void on_created(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct create_call *call = arg;
    struct error refusal;
    struct str node = STR_EMPTY;
    (void)count;
    if (!err && pg_rows_count(&results[ANSWER_HOLD]) == 0) {
        error_set(&refusal, ERROR_NOT_FOUND, "the runtime does not exist");
        err = &refusal;
    } else if (!err && pg_rows_count(&results[ANSWER_ADD]) == 0) {
        error_set(&refusal, ERROR_CONFLICT, "the runtime has %u valid tokens, which is the limit; revoke one first",
                  call->valid_max);
        err = &refusal;
    } else if (!err) {
        node = pg_rows_get(&results[ANSWER_ADD], 0, 0);
    }
    call->on_done(call->arg, err, node);
    mem_free(call);
}

void runtime_token_store_create(struct pg *pg, const char *account_id, const struct runtime_token_new *token,
                                store_node_done on_done, void *arg)
{
    char expires_in[24], valid_max[16], grace[24];
    snprintf(expires_in, sizeof expires_in, "%" PRIu64, token->expires_in_ms);
    snprintf(valid_max, sizeof valid_max, "%u", token->valid_max);
    snprintf(grace, sizeof grace, "%" PRIu64, token->grace_ms);
    struct pg_param account = pg_text(str_c(account_id)), runtime = pg_text(token->runtime),
                    id = pg_text(token->token_id);
    uint8_t sealed[TOKEN_SEAL_BYTES];
    struct token_place place = {str_c(account_id), token->runtime, token->token_id};
    struct str secret = token_seal(pg_column_key(pg), &place, token->token_sha256, sealed);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, runtime_hold, .account_id = account, .runtime = runtime);
    pg_add(batch, runtime_token_add, .account_id = account, .runtime = runtime, .token_id = id,
           .secret_sha256 = pg_bytea(secret.at, secret.len), .name = pg_text(token->name),
           .expires_in_ms = token->expires_in_ms ? pg_text(str_c(expires_in)) : pg_null(),
           .valid_max = pg_text(str_c(valid_max)));
    if (token->replaces)
        pg_add(batch, runtime_tokens_end_others, .account_id = account, .runtime = runtime, .token_id = id,
               .grace_ms = pg_text(str_c(grace)));
    struct create_call *call = mem_alloc(sizeof *call);
    *call = (struct create_call){token->valid_max, on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_created, call);
}

void runtime_token_store_list(struct pg *pg, const char *account_id, struct str runtime, store_node_done on_done,
                              void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, runtime_token_list, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void runtime_token_store_revoke(struct pg *pg, const char *account_id, struct str runtime, struct str token_id,
                                store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, runtime_token_revoke, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .token_id = pg_text(token_id));
    store_submit_count(batch, 0, on_done, arg);
}

// ---- for the table in memory ---------------------------------------------------------------------------------------

struct tokens_call {
    struct pg *pg;
    runtime_tokens_done on_done;
    void *arg;
};

enum changed_column {
    CHANGED_CHANGE,
    CHANGED_TOKEN_ID,
    CHANGED_ACCOUNT_ID,
    CHANGED_ACCOUNT_NAME,
    CHANGED_RUNTIME,
    CHANGED_RUNTIME_ID,
    CHANGED_SECRET,
    CHANGED_IS_REVOKED,
    CHANGED_EXPIRES_IN,
    CHANGED_WARNS_IN,
};

static bool read_span(const struct pg_rows *rows, int row, int column, bool *out_has, int64_t *out)
{
    *out_has = !pg_rows_is_null(rows, row, column);
    return !*out_has || parse_i64(pg_rows_get(rows, row, column), INT64_MIN, INT64_MAX, out, NULL) == ERROR_NONE;
}

static bool read_token(struct pg *pg, const struct pg_rows *rows, int row, struct runtime_token_row *out)
{
    out->token_id = pg_rows_get(rows, row, CHANGED_TOKEN_ID);
    out->account_id = pg_rows_get(rows, row, CHANGED_ACCOUNT_ID);
    out->account_name = pg_rows_get(rows, row, CHANGED_ACCOUNT_NAME);
    out->runtime = pg_rows_get(rows, row, CHANGED_RUNTIME);
    out->runtime_id = pg_rows_get(rows, row, CHANGED_RUNTIME_ID);
    out->revoked = str_eq(pg_rows_get(rows, row, CHANGED_IS_REVOKED), STR("t"));
    // One that cannot be decrypted, for want of the key that encrypted it, is of no use, and no reason to know no
    // other.
    struct token_place place = {out->account_id, out->runtime, out->token_id};
    out->unreadable = !token_unseal(pg_column_key(pg), &place, pg_rows_get(rows, row, CHANGED_SECRET),
                                    out->token_sha256, &out->is_sealed);
    return parse_u64(pg_rows_get(rows, row, CHANGED_CHANGE), 1, INT64_MAX, &out->change, NULL) == ERROR_NONE &&
           read_span(rows, row, CHANGED_EXPIRES_IN, &out->expires, &out->expires_in_ms) &&
           read_span(rows, row, CHANGED_WARNS_IN, &out->warns, &out->warns_in_ms);
}

static void on_tokens(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct tokens_call *call = arg;
    int found = count ? pg_rows_count(&results[0]) : 0;
    struct runtime_token_row *rows = mem_array((size_t)found, sizeof *rows);
    struct error broken;
    for (int i = 0; i < found && !err; i++) {
        if (read_token(call->pg, &results[0], i, &rows[i])) continue;
        error_set(&broken, ERROR_INTERNAL, "row of a runtime token cannot be read");
        err = &broken;
    }
    call->on_done(call->arg, err, err ? NULL : rows, err ? 0 : (size_t)found);
    mem_free_secret(rows, (size_t)found * sizeof *rows);
    mem_free(call);
}

void runtime_token_store_changed(struct pg *pg, uint64_t change, unsigned limit, runtime_tokens_done on_done, void *arg)
{
    char seen[24], most[16];
    snprintf(seen, sizeof seen, "%" PRIu64, change);
    snprintf(most, sizeof most, "%u", limit);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, runtime_tokens_changed, .change = pg_text(str_c(seen)), .limit = pg_text(str_c(most)));
    struct tokens_call *call = mem_alloc(sizeof *call);
    *call = (struct tokens_call){pg, on_done, arg};
    pg_batch_submit(batch, STORE_READ_MS, on_tokens, call);
}

// ---- encrypting what older versions left ---------------------------------------------------------------------------

enum { SEAL_ROWS = 100 };

struct seal_call {
    struct pg *pg;
    uint64_t change, highest; // seen; the highest of the rows at work
    uint64_t sealed, unreadable;
    size_t left; // updates under way
    bool is_last;
    struct error error;
    store_count_done on_done;
    void *arg;
};

static void seal_some(struct seal_call *call);

static void seal_end(struct seal_call *call)
{
    if (call->error.code == ERROR_NONE && call->unreadable)
        error_set(&call->error, ERROR_INTERNAL,
                  "%" PRIu64 " runtime tokens are encrypted with another deployment key and cannot be read",
                  call->unreadable);
    call->on_done(call->arg, call->error.code == ERROR_NONE ? NULL : &call->error, call->sealed);
    mem_free(call);
}

static void seal_part_ends(struct seal_call *call)
{
    if (--call->left > 0) return;
    call->change = call->highest;
    if (call->is_last || call->error.code != ERROR_NONE)
        seal_end(call);
    else
        seal_some(call);
}

static void on_sealed(void *arg, const struct error *err, uint64_t count)
{
    struct seal_call *call = arg;
    if (err) call->error = *err;
    call->sealed += count;
    seal_part_ends(call);
}

static void seal_row(struct seal_call *call, const struct runtime_token_row *row)
{
    uint8_t sealed[TOKEN_SEAL_BYTES];
    char change[24];
    struct token_place place = {row->account_id, row->runtime, row->token_id};
    struct str secret = token_seal(pg_column_key(call->pg), &place, row->token_sha256, sealed);
    snprintf(change, sizeof change, "%" PRIu64, row->change);
    AUTO_FREE char *account_id = mem_strndup(row->account_id.at, row->account_id.len);
    struct pg_batch *batch = pg_batch_create(call->pg, account_id);
    pg_add(batch, runtime_token_seal, .account_id = pg_text(row->account_id), .token_id = pg_text(row->token_id),
           .change = pg_text(str_c(change)), .secret_sha256 = pg_bytea(secret.at, secret.len));
    call->left++;
    store_submit_count(batch, 0, on_sealed, call);
}

static void on_rows_to_seal(void *arg, const struct error *err, const struct runtime_token_row *rows, size_t count)
{
    struct seal_call *call = arg;
    if (err) call->error = *err;
    call->left = 1;
    call->is_last = count < SEAL_ROWS;
    for (size_t i = 0; i < count; i++) {
        call->highest = rows[i].change;
        if (rows[i].unreadable)
            call->unreadable++;
        else if (!rows[i].is_sealed)
            seal_row(call, &rows[i]);
    }
    seal_part_ends(call);
}

static void seal_some(struct seal_call *call)
{
    runtime_token_store_changed(call->pg, call->change, SEAL_ROWS, on_rows_to_seal, call);
}

void runtime_token_store_seal_all(struct pg *pg, store_count_done on_done, void *arg)
{
    struct seal_call *call = mem_zalloc(sizeof *call);
    *call = (struct seal_call){.pg = pg, .on_done = on_done, .arg = arg};
    seal_some(call);
}

static void on_ignored(void *arg, const struct error *err, uint64_t count)
{
    (void)arg;
    (void)err;
    (void)count;
}

void runtime_token_store_note_use(struct pg *pg, const char *const *token_ids, size_t count, store_count_done on_done,
                                  void *arg)
{
    struct strbuf list;
    strbuf_init(&list, count * TOKEN_ID_BYTES + 1);
    for (size_t i = 0; i < count; i++)
        strbuf_addf(&list, "%s%s", i ? " " : "", token_ids[i]);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, runtime_tokens_used, .token_ids = pg_text(strbuf_str(&list)));
    store_submit_number(batch, 0, on_done ? on_done : on_ignored, arg);
    strbuf_finish(&list);
}

void runtime_token_store_sweep(struct pg *pg, unsigned limit, store_count_done on_done, void *arg)
{
    char most[16];
    snprintf(most, sizeof most, "%u", limit);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, runtime_tokens_sweep, .limit = pg_text(str_c(most)));
    store_submit_number(batch, 0, on_done, arg);
}

static void sweep_ended(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                        store_count_done on_done, void *arg)
{
    (void)keep;
    runtime_token_store_sweep(pg, sweep->rows, on_done, arg);
}

const struct sweep runtime_token_store_sweeps[1] = {
    {"runtime_tokens", SWEEP_ROUND, SWEEP_COUNTS_ROWS, .rows = 5000, .step = sweep_ended},
};
