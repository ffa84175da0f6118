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

static void on_step(void *arg, const struct error *err, struct str node)
{
    struct api_pending *pending = arg;
    struct error bad;
    json_t *row = NULL;
    err = api_decode_node(err, node, &row, &bad);
    json_t *status = err ? NULL : json_incref(json_object_get(row, "status"));
    json_decref(row);
    pending->on_resolved(pending->arg, err, status);
}

static void resolve_step_status(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const json_t *step = json_object_get(arguments, "stepIndex");
    const struct rollout_place place = {json_get_str(arguments, "runtime"), json_get_str(arguments, "cluster"),
                                        json_get_str(arguments, "namespace"), json_get_str(arguments, "name")};
    struct error err;
    if (json_is_integer(step) && (json_integer_value(step) < 0 || json_integer_value(step) > ROLLOUT_STEPS_MAX)) {
        error_set(&err, ERROR_INVALID, "stepIndex: must be between 0 and %d", ROLLOUT_STEPS_MAX);
        on_resolved(arg, &err, NULL);
        return;
    }
    rollout_store_step_status(request->api->options.pg, request->principal.account_id, &place,
                              json_is_integer(step) ? (int)json_integer_value(step) : -1, on_step,
                              api_pending_create(request, on_resolved, arg));
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "rollout", resolve_rollout, .access = API_USERS},
    {GQL_QUERY, "rollouts", resolve_rollouts, .access = API_USERS, .is_versioned = true},
    {GQL_QUERY, "rolloutStepStatus", resolve_step_status, .access = API_USERS},
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
