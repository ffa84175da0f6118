#include "modules/rollouts/rollouts.h"
#include "api/resolvers.h"
#include "culvert_reads.h"
#include "culvert_statements.h"
#include "modules/module.h"
#include "storage/sql/store_call.h"

enum { STEPS_MAX = 10000 };

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
    char number[STORE_NUMBER_BYTES];
    struct error err;
    if (json_is_integer(step) && (json_integer_value(step) < 0 || json_integer_value(step) > STEPS_MAX)) {
        error_set(&err, ERROR_INVALID, "stepIndex: must be between 0 and %d", STEPS_MAX);
        on_resolved(arg, &err, NULL);
        return;
    }
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, request->principal.account_id);
    pg_add(batch, rollout_step_status, .account_id = pg_text(str_c(request->principal.account_id)),
           .runtime = pg_text(json_get_str(arguments, "runtime")),
           .cluster = pg_text(json_get_str(arguments, "cluster")),
           .namespace = pg_text(json_get_str(arguments, "namespace")), .name = pg_text(json_get_str(arguments, "name")),
           .step = json_is_integer(step) ? store_number((uint64_t)json_integer_value(step), number) : pg_text(STR("")));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_step, api_pending_create(request, on_resolved, arg));
}

static const struct gql_resolver resolvers[] = {
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
    .declared = declared_rollouts,
    .declared_count = declared_rollouts_count,
    MODULE_LIST(report_besides, report_besides),
};
