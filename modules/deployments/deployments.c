#include "modules/deployments/deployments.h"
#include "culvert_reads.h"
#include "modules/deployments/deployment_store.h"
#include "modules/module.h"

static const struct report_beside report_besides[] = {
    {.plan_http = report_commit_plan},
    {.group = "argoproj.io", .kind = "Application", .for_tunnel = true, .plan_http = report_commit_plan_application},
};

enum { SETTLE_ROWS = 100, STEP_ROWS = 5000 };

static void settle(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep, store_count_done on_done,
                   void *arg)
{
    (void)sweep, (void)keep;
    deployment_store_settle(pg, SETTLE_ROWS, on_done, arg);
}

static void sweep_months(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                         store_count_done on_done, void *arg)
{
    (void)sweep, (void)keep;
    deployment_store_partitions(pg, on_done, arg);
}

static void sweep_history(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                          store_count_done on_done, void *arg)
{
    deployment_store_sweep(pg, sweep->name, keep->history_days, sweep->rows, on_done, arg);
}

// clang-format off
static const struct sweep sweeps[] = {
    {"settle", SWEEP_OFTEN, SWEEP_COUNTS_SETTLED, .step = settle},
    {"months", SWEEP_FIRST, SWEEP_COUNTS_PARTITIONS, .step = sweep_months},
    {"deployments", SWEEP_ROUND, SWEEP_COUNTS_HISTORY, STEP_ROWS, .step = sweep_history},
    {"kept_deployments", SWEEP_ROUND, SWEEP_COUNTS_NOTHING, STEP_ROWS, .step = sweep_history}, // they move
    {"operations", SWEEP_ROUND, SWEEP_COUNTS_HISTORY, STEP_ROWS, .step = sweep_history},
    {"workflows", SWEEP_ROUND, SWEEP_COUNTS_HISTORY, STEP_ROWS, .step = sweep_history},
    {"commits", SWEEP_ROUND, SWEEP_COUNTS_HISTORY, STEP_ROWS, .step = sweep_history},
    {"manifest_sets", SWEEP_ROUND, SWEEP_COUNTS_HISTORY, STEP_ROWS, .step = sweep_history},
};
// clang-format on

const struct module module_deployments = {
    .name = "deployments",
    .declared = declared_deployments,
    .declared_count = declared_deployments_count,
    MODULE_LIST(report_besides, report_besides),
    MODULE_LIST(sweeps, sweeps),
};
