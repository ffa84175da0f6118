// operation_store: changes to clusters that users asked for, as they are queued
// (docs/internals/operations.md). storage/operations/operation_delivery.h brings them to agents.
#ifndef CULVERT_MODULES_OPERATIONS_OPERATION_STORE_H
#define CULVERT_MODULES_OPERATIONS_OPERATION_STORE_H

#include "base/id.h"
#include "storage/sql/store.h"

// Views, valid during the call. Texts may be empty where the schema has them optional.
struct operation_new {
    const char *operation_id;
    struct str action, runtime, group, kind, ns, name, uid, resource_version;
    struct str parameters; // JSON object
    struct str idempotency_key;
    uint8_t request_sha256[ID_SHA256_BYTES]; // of all that was asked for
    struct str requested_by, requested_by_name;
    uint64_t expires_in_ms;
    uint64_t open_max; // of the account
};

// number: 1 when the object is in other clusters than the agent's own alone, which it does not act
// on; else 0.
void operation_store_is_elsewhere(struct pg *pg, const char *account_id, const struct operation_new *operation,
                                  store_count_done on_done, void *arg);

// node: RuntimeOperation of the schema, the one that has the key if another call added it.
// ERROR_NOT_FOUND: no such runtime or application; ERROR_CONFLICT: the key was used for something
// else; ERROR_LIMITED: open_max are open.
void operation_store_add(struct pg *pg, const char *account_id, const struct operation_new *operation,
                         store_node_done on_done, void *arg);

// Drops operations that ended more than keep_days ago. count: rows.
void operation_store_trim(struct pg *pg, unsigned keep_days, unsigned rows, store_count_done on_done, void *arg);

#endif
