#include "modules/kubernetes_events/kubernetes_events.h"

#include "culvert_reads.h"
#include "culvert_statements.h"
#include "modules/module.h"
#include "storage/sql/store_call.h"

enum { STEP_ROWS = 5000 };

static void sweep_rows(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                       store_count_done on_done, void *arg)
{
    char days[STORE_NUMBER_BYTES], account[STORE_NUMBER_BYTES], rows[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_slow(batch);
    pg_add(batch, kubernetes_event_trim, .keep_days = store_number(keep->kubernetes_events_days, days),
           .account_max = store_number((uint64_t)keep->kubernetes_events_per_account, account),
           .limit = store_number(sweep->rows, rows));
    store_submit_number(batch, PG_BATCH_SLOW_ANSWERS, on_done, arg);
}

static const struct sweep sweeps[] = {
    {"kubernetes_events", SWEEP_ROUND, SWEEP_COUNTS_HISTORY, STEP_ROWS, .step = sweep_rows},
};

const struct module module_kubernetes_events = {
    .name = "kubernetes_events",
    .declared = declared_kubernetes_events,
    .declared_count = declared_kubernetes_events_count,
    .report_kinds = &report_kind_kubernetes_event,
    .report_kinds_count = 1,
    MODULE_LIST(sweeps, sweeps),
};
