#include "modules/clusters/clusters.h"
#include "api/resolvers.h"
#include "culvert_reads.h"
#include "modules/module.h"

static const struct gql_resolver resolvers[] = {
    {GQL_MUTATION, "updateRuntimeClusters", clusters_resolve_update, .access = API_RUNTIMES_TOO},
};

const struct module module_clusters = {
    .name = "clusters",
    MODULE_LIST(resolvers, resolvers),
    .declared = declared_clusters,
    .declared_count = declared_clusters_count,
    .report_kinds = &report_kind_cluster,
    .report_kinds_count = 1,
};
