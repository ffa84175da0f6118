// store_manifests: an entity together with manifests that are kept as blobs: the node of a statement whose columns are
// the node, then (encoding, bytes, content in hex) for each manifest. For the stores.
#ifndef CULVERT_STORAGE_SQL_STORE_MANIFESTS_H
#define CULVERT_STORAGE_SQL_STORE_MANIFESTS_H

#include "storage/sql/store_call.h"

// The answer's node gets a member by each of the names (constants, ended by NULL): the manifest's text, or null.
void store_submit_node_with_manifests(struct pg_batch *batch, size_t answer, const char *const *names,
                                      store_node_done on_done, void *arg);

#endif
