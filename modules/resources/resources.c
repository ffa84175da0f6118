#include "modules/resources/resources.h"
#include "api/resolvers.h"
#include "modules/module.h"
#include "modules/resources/tree_store.h"

static void resolve_resource_tree(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    tree_store_get(request->api->options.pg, request->principal.account_id, json_get_str(arguments, "runtime"),
                   json_get_str(arguments, "namespace"), json_get_str(arguments, "name"), api_resolved_node,
                   api_pending_create(request, on_resolved, arg));
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "resourceTree", resolve_resource_tree, .access = API_USERS},
};

const struct module module_resources = {
    .name = "resources",
    MODULE_LIST(resolvers, resolvers),
    .report_kinds = &report_kind_resource,
    .report_kinds_count = 1,
};
