#include "modules/operations/operation_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

// ---- adding -------------------------------------------------------------------------------------

struct add_call {
    struct pg *pg;
    char account_id[64];
    uint64_t open_max;
    store_node_done on_done;
    void *arg;
};

enum add_answer { ANSWER_ROOM, ANSWER_ADD, ANSWER_ADDED };

static enum error_code check_added(const struct add_call *call, const struct pg_rows *results, struct error *err)
{
    const struct pg_rows *room = &results[ANSWER_ROOM], *added = &results[ANSWER_ADDED];
    if (pg_rows_count(added)) {
        if (str_eq(pg_rows_get(added, 0, 1), STR("t"))) return ERROR_NONE;
        return error_set(err, ERROR_CONFLICT,
                         "idempotencyKey: it was used for another operation, %.*s; use a new key for each operation",
                         STR_ARG(pg_rows_get(added, 0, 0)));
    }
    if (pg_rows_count(room) == 0) return error_set(err, ERROR_NOT_FOUND, "the runtime does not exist");
    if (!str_eq(pg_rows_get(room, 0, 2), STR("t")))
        return error_set(err, ERROR_NOT_FOUND, "the runtime has no such application");
    return error_set(err, ERROR_LIMITED,
                     "the account has %" PRIu64 " operations that have not ended, which is the limit", call->open_max);
}

static void get(struct pg *pg, const char *account_id, struct str operation_id, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, operation_node, .account_id = pg_text(str_c(account_id)), .operation_id = pg_text(operation_id));
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "the operation was deleted", on_done, arg);
}

static void on_added(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct add_call *call = arg;
    struct error refusal;
    (void)count;
    if (!err && check_added(call, results, &refusal) != ERROR_NONE) err = &refusal;
    if (err)
        call->on_done(call->arg, err, STR_EMPTY);
    else
        get(call->pg, call->account_id, pg_rows_get(&results[ANSWER_ADDED], 0, 0), call->on_done, call->arg);
    mem_free(call);
}

void operation_store_add(struct pg *pg, const char *account_id, const struct operation_new *operation,
                         store_node_done on_done, void *arg)
{
    char expires_in[STORE_NUMBER_BYTES], open_max[STORE_NUMBER_BYTES];
    struct pg_param account = pg_text(str_c(account_id)), runtime = pg_text(operation->runtime),
                    id = pg_text(str_c(operation->operation_id)), kind = pg_text(operation->kind),
                    ns = pg_text(operation->ns), name = pg_text(operation->name),
                    key = pg_text_or_null(operation->idempotency_key),
                    sha256 = pg_bytea(operation->request_sha256, sizeof operation->request_sha256);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, operation_room, .account_id = account, .runtime = runtime, .kind = kind, .namespace = ns,
           .name = name);
    pg_add(batch, operation_add, .account_id = account, .operation_id = id, .runtime = runtime,
           .action = pg_text(operation->action), .api_group = pg_text(operation->group), .kind = kind, .namespace = ns,
           .name = name, .uid = pg_text_or_null(operation->uid),
           .resource_version = pg_text_or_null(operation->resource_version),
           .parameters = pg_text(operation->parameters), .requested_by = pg_text(operation->requested_by),
           .requested_by_name = pg_text(operation->requested_by_name), .idempotency_key = key, .request_sha256 = sha256,
           .expires_in_ms = store_number(operation->expires_in_ms, expires_in),
           .open_max = store_number(operation->open_max, open_max));
    pg_add(batch, operation_added, .account_id = account, .operation_id = id, .idempotency_key = key,
           .request_sha256 = sha256);
    struct add_call *call = mem_zalloc(sizeof *call);
    call->pg = pg;
    snprintf(call->account_id, sizeof call->account_id, "%s", account_id);
    call->open_max = operation->open_max;
    call->on_done = on_done;
    call->arg = arg;
    pg_batch_submit(batch, STORE_CHANGE_MS, on_added, call);
}

void operation_store_is_elsewhere(struct pg *pg, const char *account_id, const struct operation_new *operation,
                                  store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, operation_is_elsewhere, .account_id = pg_text(str_c(account_id)),
           .runtime = pg_text(operation->runtime), .api_group = pg_text(operation->group),
           .kind = pg_text(operation->kind), .namespace = pg_text(operation->ns), .name = pg_text(operation->name));
    store_submit_number(batch, 0, on_done, arg);
}

void operation_store_trim(struct pg *pg, unsigned keep_days, unsigned rows, store_count_done on_done, void *arg)
{
    char days[STORE_NUMBER_BYTES], limit[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, operation_trim, .keep_days = store_number(keep_days, days), .rows = store_number(rows, limit));
    store_submit_number(batch, 0, on_done, arg);
}
