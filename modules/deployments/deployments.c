#include "modules/deployments/deployments.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "modules/deployments/deployment_store.h"
#include "modules/module.h"

// Pages go by the time of deployment, which is also the order of history ids within an application.
static enum error_code order_of(const json_t *arguments, bool *out_is_ascending, struct error *err)
{
    const json_t *sort = json_get_object(arguments, "sort");
    struct str field = json_get_str(sort, "field");
    if (field.len && !str_eq(field, STR("createdAt")) && !str_eq(field, STR("historyId")))
        return error_set(err, ERROR_INVALID, "sort.field: must be createdAt or historyId");
    *out_is_ascending = str_eq(json_get_str(sort, "order"), STR("asc"));
    return ERROR_NONE;
}

static void resolve_gitops_releases(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct store_page page;
    struct error err;
    bool is_ascending = false;
    if (!api_page_or_answer(arguments, &page, on_resolved, arg)) return;
    if (order_of(arguments, &is_ascending, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    // A ledger has no end: nobody gets all of it for not having said how much.
    enum { PAGE_DEFAULT = 100 };
    if (!page.first && !page.last) page.first = PAGE_DEFAULT;
    json_t *filters = json_get_object(arguments, "filters");
    char *text = filters ? json_dumps(filters, JSON_COMPACT) : NULL;
    deployment_store_list(request->api->options.pg, request->principal.account_id, str_c(text ? text : "{}"), &page,
                          is_ascending, api_resolved_slice, api_pending_create(request, on_resolved, arg));
    mem_free(text);
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "gitopsReleases", resolve_gitops_releases, .access = API_USERS},
};

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
    MODULE_LIST(resolvers, resolvers),
    MODULE_LIST(report_besides, report_besides),
    MODULE_LIST(sweeps, sweeps),
};
