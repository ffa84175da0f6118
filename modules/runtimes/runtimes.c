#include "api/resolvers.h"
#include "storage/reports/storage_usage_store.h"

void api_resolve_limits_status(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)arguments;
    struct api_request *request = ctx;
    storage_usage_store_get_limits_status(request->api->options.pg, request->principal.account_id, api_resolved_node,
                                          api_pending_create(request, on_resolved, arg));
}
