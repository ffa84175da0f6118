#include "modules/rollouts/rollouts.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "modules/module.h"
#include "modules/rollouts/rollout_store.h"

static void resolve_rollout(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    rollout_store_get(request->api->options.pg, request->principal.account_id, json_get_str(arguments, "runtime"),
                      json_get_str(arguments, "cluster"), json_get_str(arguments, "namespace"),
                      json_get_str(arguments, "name"), api_resolved_node,
                      api_pending_create(request, on_resolved, arg));
}

static void resolve_rollouts(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    api_resolve_list(ctx, arguments, rollout_store_list, on_resolved, arg);
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "rollout", resolve_rollout, .access = API_USERS},
    {GQL_QUERY, "rollouts", resolve_rollouts, .access = API_USERS, .is_versioned = true},
};

static const struct report_beside report_besides[] = {
    {.group = "argoproj.io", .kind = "Rollout", .plan_row = report_rollout_plan},
    {.group = "apps", .kind = "ReplicaSet", .plan_row = report_replica_set_plan},
    {.group = "argoproj.io", .kind = "AnalysisRun", .plan_row = report_analysis_run_plan},
};

const struct module module_rollouts = {
    .name = "rollouts",
    MODULE_LIST(resolvers, resolvers),
    MODULE_LIST(report_besides, report_besides),
};
