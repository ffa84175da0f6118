// Changes of state, which triggers write with reports (migrations/0049): the list, and how long
// they are kept.
#include <inttypes.h>
#include <stdio.h>

#include "culvert_reads.h"
#include "culvert_statements.h"
#include "modules/module.h"
#include "storage/sql/store_call.h"

enum { STEP_ROWS = 5000, NUMBER_BYTES = 24 };

static struct pg_param number_text(char memory[NUMBER_BYTES], int64_t number)
{
    return pg_text(str_of(memory, (size_t)snprintf(memory, NUMBER_BYTES, "%" PRId64, number)));
}

static void sweep_weeks(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                        store_count_done on_done, void *arg)
{
    (void)sweep;
    char days[NUMBER_BYTES], per_hour[NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, transition_partitions, .keep_days = number_text(days, keep->transitions_days),
           .per_hour_max = number_text(per_hour, keep->transitions_per_hour));
    store_submit_number(batch, 0, on_done, arg);
}

static void sweep_rows(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                       store_count_done on_done, void *arg)
{
    char days[NUMBER_BYTES], account[NUMBER_BYTES], rows[NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_slow(batch);
    pg_add(batch, transition_trim, .keep_days = number_text(days, keep->transitions_days),
           .account_max = number_text(account, keep->transitions_per_account), .limit = number_text(rows, sweep->rows));
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
