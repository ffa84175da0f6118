#include "storage/reports/storage_usage_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void storage_usage_store_get(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, storage_usage, .account_id = pg_text(str_c(account_id)));
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "the account does not exist", on_done, arg);
}

void storage_usage_store_get_limits_status(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, storage_limits_status, .account_id = pg_text(str_c(account_id)));
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "the account does not exist", on_done, arg);
}

void storage_usage_store_recount(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    const struct pg_param account = pg_text(str_c(account_id));
    pg_batch_slow(batch);
    pg_add(batch, storage_recount, .account_id = account);
    pg_add(batch, storage_usage, .account_id = account);
    store_submit_node(batch, PG_BATCH_SLOW_ANSWERS + 1, ERROR_NOT_FOUND, "the account does not exist", on_done, arg);
}

void storage_usage_store_set_quota(struct pg *pg, const char *account_id, const struct storage_quota *quota,
                                   store_node_done on_done, void *arg)
{
    char bytes[24], rows[24], runtime_bytes[24], runtime_rows[24];
    snprintf(bytes, sizeof bytes, "%" PRId64, quota->bytes);
    snprintf(rows, sizeof rows, "%" PRId64, quota->rows);
    snprintf(runtime_bytes, sizeof runtime_bytes, "%" PRId64, quota->runtime_bytes);
    snprintf(runtime_rows, sizeof runtime_rows, "%" PRId64, quota->runtime_rows);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, storage_set_quota, .account_id = pg_text(str_c(account_id)), .bytes = pg_text(str_c(bytes)),
           .rows = pg_text(str_c(rows)), .runtime_bytes = pg_text(str_c(runtime_bytes)),
           .runtime_rows = pg_text(str_c(runtime_rows)));
    pg_add(batch, storage_usage, .account_id = pg_text(str_c(account_id)));
    store_submit_node(batch, 1, ERROR_NOT_FOUND, "the account does not exist", on_done, arg);
}

void storage_usage_store_fold(struct pg *pg, unsigned limit, store_count_done on_done, void *arg)
{
    char rows[16];
    snprintf(rows, sizeof rows, "%u", limit);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, storage_fold, .limit = pg_text(str_c(rows)));
    store_submit_number(batch, 0, on_done, arg);
}
