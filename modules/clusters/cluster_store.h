// cluster_store: the clusters that a runtime's Argo CD manages. Reads only: reports write.
#ifndef CULVERT_MODULES_CLUSTERS_CLUSTER_STORE_H
#define CULVERT_MODULES_CLUSTERS_CLUSTER_STORE_H

#include "storage/sql/store.h"

// node: type Cluster of the contract; in-cluster first.
void cluster_store_list(struct pg *pg, const char *account_id, struct str runtime, const struct store_page *page,
                        store_slice_done on_done, void *arg);

#endif
