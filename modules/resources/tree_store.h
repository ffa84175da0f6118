// tree_store: an application and everything below it: its resources, what they own, and the applications that it holds.
// Reads only: reports write the edges (owners, applications' parents).
#ifndef CULVERT_MODULES_RESOURCES_TREE_STORE_H
#define CULVERT_MODULES_RESOURCES_TREE_STORE_H

#include "storage/sql/store.h"

// ns may be empty: any. node: type ResourceTree; the empty node: there is no such application.
void tree_store_get(struct pg *pg, const char *account_id, struct str runtime, struct str ns, struct str name,
                    store_node_done on_done, void *arg);

#endif
