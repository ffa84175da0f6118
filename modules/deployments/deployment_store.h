// deployment_store: housekeeping of the deployment ledger, of all accounts. Reports write it.
#ifndef CULVERT_MODULES_DEPLOYMENTS_DEPLOYMENT_STORE_H
#define CULVERT_MODULES_DEPLOYMENTS_DEPLOYMENT_STORE_H

#include "storage/sql/store.h"

// Looks again at what is live of deployments made half a minute ago. count: how many.
void deployment_store_settle(struct pg *pg, unsigned limit, store_count_done on_done, void *arg);
// Makes the months to come and drops one that nobody keeps. count: 1 or 0 dropped.
void deployment_store_partitions(struct pg *pg, store_count_done on_done, void *arg);
// Removes what accounts do not keep any longer, up to limit rows of one kind. count: how many; none when another
// replica is at it. Of "kept_deployments" none go: they move out of months that nobody keeps.
void deployment_store_sweep(struct pg *pg, const char *kind, unsigned default_days, unsigned limit,
                            store_count_done on_done, void *arg);

#endif
