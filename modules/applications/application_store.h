// application_store: Argo CD applications as the clusters reported them, and what belongs to them. Reads only: reports
// write.
#ifndef CULVERT_MODULES_APPLICATIONS_APPLICATION_STORE_H
#define CULVERT_MODULES_APPLICATIONS_APPLICATION_STORE_H

#include "storage/sql/store.h"

// node: type Application of the contract (+ observedAt, receivedAt, freshness), with its manifests. Lists are declared
// in applications.sql.
void application_store_get(struct pg *pg, const char *account_id, struct str runtime, struct str ns, struct str name,
                           store_node_done on_done, void *arg); // ns may be empty: any, the first by name

// node: type ApplicationSet; by runtime, cluster, namespace and name.
void application_set_store_list(struct pg *pg, const char *account_id, struct str runtime,
                                const struct store_page *page, store_slice_done on_done, void *arg);

#endif
