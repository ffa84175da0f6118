#include "modules/workflows/workflows.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "modules/module.h"
#include "modules/workflows/workflow_store.h"

static void resolve_workflow(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    workflow_store_get(request->api->options.pg, request->principal.account_id, json_get_str(arguments, "uid"),
                       api_resolved_node, api_pending_create(request, on_resolved, arg));
}

static void resolve_workflows(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    api_resolve_list(ctx, arguments, workflow_store_list, on_resolved, arg);
}

static void resolve_pipelines(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct store_page page;
    (void)ctx;
    if (!api_page_or_answer(arguments, &page, on_resolved, arg)) return;
    on_resolved(arg, NULL, api_empty_slice());
}

static void resolve_pipeline(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)ctx;
    (void)arguments;
    on_resolved(arg, NULL, NULL);
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "pipeline", resolve_pipeline, .access = API_USERS},
    {GQL_QUERY, "pipelines", resolve_pipelines, .access = API_USERS},
    {GQL_QUERY, "workflow", resolve_workflow, .access = API_USERS},
    {GQL_QUERY, "workflows", resolve_workflows, .access = API_USERS},
};

static const struct report_beside report_besides[] = {
    {.group = "argoproj.io", .kind = "Workflow", .plan_row = report_workflow_plan, .is_counted_apart = true},
};

const struct module module_workflows = {
    .name = "workflows",
    MODULE_LIST(resolvers, resolvers),
    MODULE_LIST(report_besides, report_besides),
};
