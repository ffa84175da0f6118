// Changes of state, which triggers write with reports (migrations/0049): the list, and how long
// they are kept.
#include "culvert_reads.h"
#include "culvert_statements.h"
#include "modules/module.h"
#include "storage/sql/store_call.h"

enum { STEP_ROWS = 5000 };

static void sweep_weeks(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                        store_count_done on_done, void *arg)
{
    (void)sweep;
    char days[STORE_NUMBER_BYTES], per_hour[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, transition_partitions, .keep_days = store_number(keep->transitions_days, days),
           .per_hour_max = store_number(keep->transitions_per_hour, per_hour));
    store_submit_number(batch, 0, on_done, arg);
}

static void sweep_rows(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                       store_count_done on_done, void *arg)
{
    char days[STORE_NUMBER_BYTES], account[STORE_NUMBER_BYTES], rows[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_slow(batch);
    pg_add(batch, transition_trim, .keep_days = store_number(keep->transitions_days, days),
           .account_max = store_number((uint64_t)keep->transitions_per_account, account),
           .limit = store_number(sweep->rows, rows));
    store_submit_number(batch, PG_BATCH_SLOW_ANSWERS, on_done, arg);
}

static void count_merged(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                         store_count_done on_done, void *arg)
{
    (void)sweep, (void)keep;
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_transition_count_merged, NULL);
    store_submit_number(batch, 0, on_done, arg);
}

// clang-format off
static const struct sweep sweeps[] = {
    {"merged_transitions", SWEEP_OFTEN, SWEEP_COUNTS_MERGED, .step = count_merged},
    {"transition_weeks", SWEEP_FIRST, SWEEP_COUNTS_PARTITIONS, .step = sweep_weeks},
    {"transitions", SWEEP_ROUND, SWEEP_COUNTS_HISTORY, STEP_ROWS, .step = sweep_rows},
};
// clang-format on

const struct module module_transitions = {
    .name = "transitions",
    .declared = declared_transitions,
    .declared_count = declared_transitions_count,
    MODULE_LIST(sweeps, sweeps),
};
