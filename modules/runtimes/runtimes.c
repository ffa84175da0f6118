#include "modules/runtimes/runtimes.h"
#include "modules/module.h"
#include "storage/reports/storage_usage_store.h"

static void resolve_limits_status(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)arguments;
    struct api_request *request = ctx;
    storage_usage_store_get_limits_status(request->api->options.pg, request->principal.account_id, api_resolved_node,
                                          api_pending_create(request, on_resolved, arg));
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "runtime", runtimes_resolve_runtime, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "runtimes", runtimes_resolve_runtimes, .access = API_USERS},
    {GQL_QUERY, "runtimeTokens", runtimes_resolve_runtime_tokens, .access = API_ADMINS},
    {GQL_QUERY, "limitsStatus", resolve_limits_status, .access = API_USERS},
    {GQL_MUTATION, "createRuntime", runtimes_resolve_create_runtime, .access = API_ADMINS},
    {GQL_MUTATION, "deleteRuntime", runtimes_resolve_delete_runtime, .access = API_ADMINS},
    {GQL_MUTATION, "deleteManagedRuntime", runtimes_resolve_delete_runtime, .access = API_ADMINS},
    {GQL_MUTATION, "createRuntimeToken", runtimes_resolve_create_runtime_token, .access = API_ADMINS},
    {GQL_MUTATION, "rotateRuntimeToken", runtimes_resolve_rotate_runtime_token, .access = API_ADMINS},
    {GQL_MUTATION, "revokeRuntimeToken", runtimes_resolve_revoke_runtime_token, .access = API_ADMINS},
    {GQL_MUTATION, "reportRuntimeErrors", runtimes_resolve_report_runtime_errors, .access = API_RUNTIMES_TOO},
};

static const struct api_route routes[] = {
    {"/2.0/api/events/error", "POST", API_RUNTIME, API_EVENTS_BODY, runtimes_event_source_error},
};

const struct module module_runtimes = {
    .name = "runtimes",
    MODULE_LIST(resolvers, resolvers),
    MODULE_LIST(routes, routes),
};
