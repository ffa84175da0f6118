#include "modules/workflows/workflows.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "culvert_reads.h"
#include "modules/module.h"

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
};

static const struct report_beside report_besides[] = {
    {.group = "argoproj.io", .kind = "Workflow", .plan_row = report_workflow_plan, .is_counted_apart = true},
};

const struct module module_workflows = {
    .name = "workflows",
    MODULE_LIST(resolvers, resolvers),
    .declared = declared_workflows,
    .declared_count = declared_workflows_count,
    MODULE_LIST(report_besides, report_besides),
};
