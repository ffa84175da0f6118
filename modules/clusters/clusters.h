// clusters: what reports of its kind write, and resolvers of the module. Private to
// modules/clusters/.
#ifndef CULVERT_MODULES_CLUSTERS_CLUSTERS_H
#define CULVERT_MODULES_CLUSTERS_CLUSTERS_H

#include "api/graphql/execution.h"
#include "storage/reports/report_kind.h"

extern const struct report_kind report_kind_cluster;

void clusters_resolve_update(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);

#endif
