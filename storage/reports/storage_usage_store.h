// storage_usage_store: what accounts and runtimes store, and how much they may (migrations/0026 says what is counted).
#ifndef CULVERT_STORAGE_REPORTS_STORAGE_USAGE_STORE_H
#define CULVERT_STORAGE_REPORTS_STORAGE_USAGE_STORE_H

#include <stdint.h>

#include "storage/sql/store.h"

// One of an account's own quotas. 0: the platform's setting; STORAGE_QUOTA_KEEP: as it is.
enum { STORAGE_QUOTA_KEEP = -1 };
struct storage_quota {
    int64_t bytes, rows;                 // of the account
    int64_t runtime_bytes, runtime_rows; // of each of its runtimes
};

// node: {"bytes","rows","bytesMax","rowsMax","runtimes":[{"runtime","bytes","rows","bytesMax","rowsMax","refused",
// "refusedAt"}]}; a runtime of "" is the account itself, a maximum of null no limit.
void storage_usage_store_get(struct pg *pg, const char *account_id, store_node_done on_done, void *arg);
// node: LimitsStatus of the GraphQL schema.
void storage_usage_store_get_limits_status(struct pg *pg, const char *account_id, store_node_done on_done, void *arg);
// Counts anew what is stored; reports of the account wait meanwhile. The same node.
void storage_usage_store_recount(struct pg *pg, const char *account_id, store_node_done on_done, void *arg);
// The same node. ERROR_NOT_FOUND: no such account.
void storage_usage_store_set_quota(struct pg *pg, const char *account_id, const struct storage_quota *quota,
                                   store_node_done on_done, void *arg);
// Housekeeping for all accounts: adds up to `limit` changes to the counters. count: how many; as many as limit means
// that there may be more.
void storage_usage_store_fold(struct pg *pg, unsigned limit, store_count_done on_done, void *arg);

#endif
