#include "modules/deployments/deployment_store.h"

#include <stdio.h>

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

static struct pg_param number_text(char memory[16], unsigned number)
{
    return pg_text(str_of(memory, (size_t)snprintf(memory, 16, "%u", number)));
}

void deployment_store_settle(struct pg *pg, unsigned limit, store_count_done on_done, void *arg)
{
    char rows[16];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, deployment_settle, .limit = number_text(rows, limit));
    store_submit_number(batch, 0, on_done, arg);
}

void deployment_store_partitions(struct pg *pg, store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_deployment_partitions, NULL);
    store_submit_number(batch, 0, on_done, arg);
}

void deployment_store_sweep(struct pg *pg, const char *kind, unsigned default_days, unsigned limit,
                            store_count_done on_done, void *arg)
{
    char days[16], rows[16];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_slow(batch);
    pg_add(batch, deployment_sweep, .kind = pg_text(str_c(kind)), .default_days = number_text(days, default_days),
           .limit = number_text(rows, limit));
    store_submit_number(batch, PG_BATCH_SLOW_ANSWERS, on_done, arg);
}
