#include "modules/runtimes/storage_usage_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void storage_usage_store_get(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_storage_usage, 1, (struct pg_param[]){pg_text(str_c(account_id))});
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "there is no such account", on_done, arg);
}

void storage_usage_store_get_limits_status(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_storage_limits_status, 1, (struct pg_param[]){pg_text(str_c(account_id))});
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "there is no such account", on_done, arg);
}

void storage_usage_store_recount(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    const struct pg_param account[] = {pg_text(str_c(account_id))};
    pg_batch_slow(batch);
    pg_batch_add(batch, &statement_storage_recount, 1, account);
    pg_batch_add(batch, &statement_storage_usage, 1, account);
    store_submit_node(batch, PG_BATCH_SLOW_ANSWERS + 1, ERROR_NOT_FOUND, "there is no such account", on_done, arg);
}

void storage_usage_store_set_quota(struct pg *pg, const char *account_id, const struct storage_quota *quota,
                                   store_node_done on_done, void *arg)
{
    const int64_t values[] = {quota->bytes, quota->rows, quota->runtime_bytes, quota->runtime_rows};
    char texts[4][24];
    struct pg_param params[5] = {pg_text(str_c(account_id))};
    for (size_t i = 0; i < 4; i++) {
        snprintf(texts[i], sizeof texts[i], "%" PRId64, values[i]);
        params[i + 1] = pg_text(str_c(texts[i]));
    }
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_storage_set_quota, 5, params);
    pg_batch_add(batch, &statement_storage_usage, 1, params);
    store_submit_node(batch, 1, ERROR_NOT_FOUND, "there is no such account", on_done, arg);
}

void storage_usage_store_fold(struct pg *pg, unsigned limit, store_count_done on_done, void *arg)
{
    char rows[16];
    snprintf(rows, sizeof rows, "%u", limit);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_storage_fold, 1, (struct pg_param[]){pg_text(str_c(rows))});
    store_submit_number(batch, 0, on_done, arg);
}
