#include "api/access/audit_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void audit_store_list(struct pg *pg, const char *account_id, const struct audit_filter *filter, store_node_done on_done,
                      void *arg)
{
    char limit[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, audit_list, .account_id = pg_text(str_c(account_id)), .before = pg_text(filter->before),
           .entity = pg_text(filter->entity), .entity_id = pg_text(filter->entity_id),
           .action = pg_text(filter->action), .actor_id = pg_text(filter->actor_id), .since = pg_text(filter->since),
           .until = pg_text(filter->until), .limit = store_number(filter->limit, limit));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void audit_store_export(struct pg *pg, const char *account_id, uint64_t after, store_node_done on_done, void *arg)
{
    char from[STORE_NUMBER_BYTES], limit[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, audit_export, .account_id = pg_text(str_c(account_id)), .after = store_number(after, from),
           .limit = store_number(AUDIT_PAGE_MAX, limit));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void audit_store_verify(struct pg *pg, const char *account_id, store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, audit_verify, .account_id = pg_text(str_c(account_id)));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

static void sweep_old(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep, store_count_done on_done,
                      void *arg)
{
    char most[STORE_NUMBER_BYTES], days[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, audit_sweep, .limit = store_number(sweep->rows, most),
           .keep_days = store_number(keep->history_days, days));
    store_submit_number(batch, 0, on_done, arg);
}

const struct sweep audit_store_sweeps[1] = {
    {"audit", SWEEP_ROUND, SWEEP_COUNTS_ROWS, .rows = 5000, .step = sweep_old},
};
