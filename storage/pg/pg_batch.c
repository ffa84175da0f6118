#include "storage/pg/pg_batch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "storage/pg/pg_prepared.h"

const struct pg_statement pg_batch_set_account = {
    .name = "pg_set_account",
    .sql = "SELECT set_config('app.account_id', $1, true)",
    .parameters = 1,
};

const struct pg_statement pg_batch_set_reader = {
    .name = "pg_set_reader",
    .sql = "SELECT set_config('app.account_id', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true)",
    .parameters = 1,
};

const struct pg_statement pg_batch_set_actor = {
    .name = "pg_set_actor",
    .sql = "SELECT set_config('app.account_id', $1, true), set_config('app.actor', $2, true)",
    .parameters = 2,
};

void pg_batch_generic(struct pg_batch *batch)
{
    batch->is_generic = true;
}

// How many answers come before those of the entries.
static size_t answers_before(const struct pg_batch *batch)
{
    return batch->prepared_count + (batch->account_id[0] ? 1 : 0);
}

struct pg_batch *pg_batch_create(struct pg *pg, const char *account_id)
{
    struct pg_batch *batch = mem_zalloc(sizeof *batch);
    batch->pg = pg;
    batch->arena = arena_create((size_t)PG_BATCH_BYTES_MAX * 2);
    if (account_id) {
        int len = snprintf(batch->account_id, sizeof batch->account_id, "%s", account_id);
        if (len <= 0 || (size_t)len >= sizeof batch->account_id)
            pg_batch_fail(batch, ERROR_INVALID, "an account id of impossible length");
        struct str actor = pg_actor(pg);
        if (actor.len) batch->actor = arena_cstr(batch->arena, actor);
    }
    return batch;
}

void pg_batch_destroy(struct pg_batch *batch)
{
    if (!batch) return;
    for (size_t i = 0; i < batch->result_count; i++)
        PQclear(batch->results[i].result);
    mem_free(batch->results);
    mem_free(batch->entries);
    arena_destroy(batch->arena);
    mem_free(batch);
}

size_t pg_batch_count(const struct pg_batch *batch)
{
    return batch->count;
}

static size_t params_bytes(size_t count, const struct pg_param *params)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += params[i].len + 64; // value, its NUL, its slots
    return bytes;
}

static void copy_param(struct pg_batch *batch, struct pg_batch_entry *entry, size_t i, const struct pg_param *param)
{
    entry->formats[i] = param->kind == PG_PARAM_BINARY;
    if (param->kind == PG_PARAM_NULL) return;
    if (param->kind == PG_PARAM_TEXT && memchr(param->at, 0, param->len))
        pg_batch_fail(batch, ERROR_INVALID, "a text value with a NUL byte");
    entry->values[i] = arena_cstr(batch->arena, str_of(param->at, param->len));
    entry->lengths[i] = (int)param->len;
}

static void check_params(const struct pg_statement *statement, const struct pg_param *params)
{
    for (unsigned i = 0; i < statement->parameters; i++) {
        if (params[i].kind != PG_PARAM_MISSING && params[i].kind != PG_PARAM_LATER) continue;
        fprintf(stderr, "statement %s: no value for parameter %u, %s\n", statement->name, i + 1,
                statement->names ? statement->names[i] : "which has no name");
        abort();
    }
}

void pg_batch_add(struct pg_batch *batch, const struct pg_statement *statement, const struct pg_param *params)
{
    size_t count = statement->parameters;
    assert(batch->submitted_us == 0); // not submitted yet
    check_params(statement, params);
    size_t bytes = params_bytes(count, params);
    if (batch->count == PG_BATCH_STATEMENTS_MAX || bytes > PG_BATCH_BYTES_MAX - batch->bytes)
        pg_batch_fail(batch, ERROR_TOO_LARGE, "more statements or bytes than one transaction may have");
    if (batch->is_failed) return;
    if (batch->count == batch->capacity) {
        batch->capacity = batch->capacity ? batch->capacity * 2 : 8;
        batch->entries = mem_realloc(batch->entries, batch->capacity * sizeof *batch->entries);
    }
    struct pg_batch_entry *entry = &batch->entries[batch->count++];
    *entry = (struct pg_batch_entry){.statement = statement};
    entry->values = arena_array(batch->arena, count, sizeof *entry->values);
    entry->lengths = arena_array(batch->arena, count, sizeof *entry->lengths);
    entry->formats = arena_array(batch->arena, count, sizeof *entry->formats);
    batch->bytes += bytes;
    for (size_t i = 0; i < count; i++)
        copy_param(batch, entry, i, &params[i]);
}

void pg_batch_switch_account(struct pg_batch *batch, const char *account_id)
{
    struct pg_param param = pg_text(str_c(account_id));
    if (!param.len || param.len >= sizeof batch->account_id)
        pg_batch_fail(batch, ERROR_INVALID, "an account id of impossible length");
    pg_batch_add(batch, &pg_batch_set_account, &param);
}

void pg_batch_fail(struct pg_batch *batch, enum error_code code, const char *text)
{
    if (batch->is_failed) return;
    batch->is_failed = true;
    error_set(&batch->error, code, "%s", text);
}

// What a SQLSTATE means, the first that fits. text: what a caller reads; PostgreSQL's own has names
// of tables and columns, and values of other rows. NULL: no caller reads it.
static const struct sqlstate {
    const char *prefix;
    enum error_code code;
    const char *text;
} sqlstates[] = {
    {"23505", ERROR_CONFLICT, "it exists already, by this name or id"},
    {"23503", ERROR_CONFLICT, "what it belongs to does not exist, or something still belongs to it"},
    {"40", ERROR_CONFLICT, "it was changed at the same time; try again"},
    {"57014", ERROR_TIMEOUT, NULL}, // statement_timeout
    {"55P03", ERROR_TIMEOUT, NULL}, // lock_timeout
    {"23", ERROR_INVALID, "a value is not one that is accepted"},
    {"22", ERROR_INVALID, "a value is not one that is accepted"},
    {"54", ERROR_TOO_LARGE, "it is too large"},
    {"08", ERROR_UNAVAILABLE, NULL},    // connection
    {"53", ERROR_UNAVAILABLE, NULL},    // disk, memory, connections
    {"57P", ERROR_UNAVAILABLE, NULL},   // shutdown, crash, starting up
    {"58", ERROR_UNAVAILABLE, NULL},    // its disks
    {"25006", ERROR_UNAVAILABLE, NULL}, // a standby
    {"CQ", ERROR_LIMITED, NULL},        // ours, in words for callers: a storage quota
};

static const struct sqlstate *find_sqlstate(const char *state)
{
    for (size_t i = 0; state && i < sizeof sqlstates / sizeof *sqlstates; i++)
        if (strncmp(state, sqlstates[i].prefix, strlen(sqlstates[i].prefix)) == 0) return &sqlstates[i];
    return NULL;
}

enum error_code pg_sqlstate_code(const char *state)
{
    const struct sqlstate *known = find_sqlstate(state);
    return known ? known->code : ERROR_INTERNAL;
}

void pg_batch_fail_with(struct pg_batch *batch, const PGresult *result)
{
    if (batch->is_failed) return;
    batch->is_failed = true;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    size_t first = answers_before(batch);
    const char *name = "commit";
    if (batch->answered < batch->prepared_count)
        name = "prepare";
    else if (batch->answered < first)
        name = pg_batch_set_account.name;
    else if (batch->answered - first < batch->count)
        name = batch->entries[batch->answered - first].statement->name;
    const struct sqlstate *known = find_sqlstate(state);
    if (known && known->text) {
        log_limited(known->code == ERROR_CONFLICT ? LOG_INFO : LOG_WARN, "pg", "statement_failed", str_c(name),
                    str_c(state), log_c("statement", name), log_c("sqlstate", state), log_c("error", text ? text : ""));
        error_set(&batch->error, known->code, "%s (%s)", known->text, state);
        return;
    }
    if (known && known->code == ERROR_LIMITED && text) {
        error_set(&batch->error, ERROR_LIMITED, "%s", text);
        return;
    }
    // Without a SQLSTATE it is libpq that speaks: the connection broke.
    error_set(&batch->error, state ? pg_sqlstate_code(state) : ERROR_UNAVAILABLE, "%s: %s (%s)", name,
              text ? text : "no answer", state ? state : "connection");
}

void pg_batch_take(struct pg_batch *batch, struct pg_prepared *prepared, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    size_t first = answers_before(batch);
    bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (!good && batch->answered < batch->prepared_count)
        pg_prepared_forget(prepared, batch->prepared[batch->answered]);
    if (!good && status != PGRES_PIPELINE_ABORTED) pg_batch_fail_with(batch, result);
    if (good && batch->answered >= first && batch->result_count < batch->count) {
        batch->results[batch->result_count++].result = result;
        result = NULL;
    }
    batch->answered++;
    PQclear(result);
}

// Dynamic statements are prepared in front of all the rest, so that nothing else of the batch can
// abort that. Sets the name of each on the server.
static bool send_prepares(struct pg_batch *batch, struct pg_prepared *prepared, PGconn *conn)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct pg_batch_entry *entry = &batch->entries[i];
        entry->name = entry->statement->name;
        if (!entry->statement->is_dynamic) continue;
        if (!batch->prepared)
            batch->prepared = arena_array(batch->arena, batch->count * PG_PREPARED_ANSWERS_MAX, sizeof(unsigned));
        unsigned number = pg_prepared_send(prepared, conn, entry->statement->name, entry->statement->sql,
                                           batch->prepared, &batch->prepared_count);
        if (!number) return false;
        entry->name = arena_printf(batch->arena, PG_PREPARED_NAME, number);
    }
    return true;
}

bool pg_batch_send(struct pg_batch *batch, struct pg_prepared *prepared, PGconn *conn)
{
    batch->results = mem_array(batch->count, sizeof *batch->results);
    const char *account = batch->account_id, *const values[] = {account, batch->actor};
    const struct pg_statement *set = batch->actor        ? &pg_batch_set_actor
                                     : batch->is_generic ? &pg_batch_set_reader
                                                         : &pg_batch_set_account;
    if (!send_prepares(batch, prepared, conn)) return false;
    if (*account && !PQsendQueryPrepared(conn, set->name, (int)set->parameters, values, NULL, NULL, 0)) return false;
    for (size_t i = 0; i < batch->count; i++) {
        const struct pg_batch_entry *entry = &batch->entries[i];
        if (!PQsendQueryPrepared(conn, entry->name, (int)entry->statement->parameters, entry->values, entry->lengths,
                                 entry->formats, 0))
            return false;
    }
    return PQpipelineSync(conn) == 1;
}

void pg_batch_end(struct pg_batch *batch)
{
    if (batch->on_done) {
        if (batch->is_failed)
            batch->on_done(batch->arg, &batch->error, NULL, 0);
        else
            batch->on_done(batch->arg, NULL, batch->results, batch->result_count);
    }
    pg_batch_destroy(batch);
}

// ---- rows ----------------------------------------------------------------------------------------------------------

int pg_rows_count(const struct pg_rows *rows)
{
    return PQntuples(rows->result);
}

uint64_t pg_rows_affected(const struct pg_rows *rows)
{
    uint64_t count = 0;
    if (parse_u64(str_c(PQcmdTuples(rows->result)), 0, UINT64_MAX, &count, NULL) != ERROR_NONE) return 0;
    return count;
}

struct str pg_rows_get(const struct pg_rows *rows, int row, int column)
{
    return str_of(PQgetvalue(rows->result, row, column), (size_t)PQgetlength(rows->result, row, column));
}

bool pg_rows_is_null(const struct pg_rows *rows, int row, int column)
{
    return PQgetisnull(rows->result, row, column) == 1;
}
