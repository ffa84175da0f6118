#include "api/resolvers.h"
#include "base/mem.h"
#include "modules/workflows/workflow_store.h"

void api_resolve_workflow(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    workflow_store_get(request->api->options.pg, request->principal.account_id, json_get_str(arguments, "uid"),
                       api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void api_resolve_workflows(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    api_resolve_list(ctx, arguments, workflow_store_list, on_resolved, arg);
}
