// application_store: Argo CD's ApplicationSets as the clusters reported them. Applications are declared
// in applications.sql. Reads only: reports write.
#ifndef CULVERT_MODULES_APPLICATIONS_APPLICATION_STORE_H
#define CULVERT_MODULES_APPLICATIONS_APPLICATION_STORE_H

#include "storage/sql/store.h"

// node: type ApplicationSet; by runtime, cluster, namespace and name.
void application_set_store_list(struct pg *pg, const char *account_id, struct str runtime,
                                const struct store_page *page, store_slice_done on_done, void *arg);

#endif
