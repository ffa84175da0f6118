#include "modules/clusters/clusters.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "modules/clusters/cluster_store.h"
#include "modules/module.h"

static void resolve_clusters(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct store_page page;
    if (!api_page_or_answer(arguments, &page, on_resolved, arg)) return;
    cluster_store_list(request->api->options.pg, request->principal.account_id, json_get_str(arguments, "runtime"),
                       &page, api_resolved_slice, api_pending_create(request, on_resolved, arg));
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "clusters", resolve_clusters, .access = API_USERS, .is_versioned = true},
    {GQL_MUTATION, "updateRuntimeClusters", clusters_resolve_update, .access = API_RUNTIMES_TOO},
};

const struct module module_clusters = {
    .name = "clusters",
    MODULE_LIST(resolvers, resolvers),
    .report_kinds = &report_kind_cluster,
    .report_kinds_count = 1,
};
