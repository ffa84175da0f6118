// audit_store: reads of the audit log. Triggers write it, in the transaction of each change
// (migrations/0035); who the actor is, they know from pg_set_actor().
#ifndef CULVERT_API_ACCESS_AUDIT_STORE_H
#define CULVERT_API_ACCESS_AUDIT_STORE_H

#include "storage/sql/sweep.h"

enum { AUDIT_PAGE_MAX = 1000 };

struct audit_filter {
    struct str before; // a number; what is empty does not filter
    struct str entity, entity_id, action, actor_id;
    struct str since, until; // RFC 3339
    unsigned limit;
};

// node: an array of AuditEntry, newest first.
void audit_store_list(struct pg *pg, const char *account_id, const struct audit_filter *filter, store_node_done on_done,
                      void *arg);
// node: {last, lines}: entries behind the number `after` as JSON Lines; last 0: none.
void audit_store_export(struct pg *pg, const char *account_id, uint64_t after, store_node_done on_done, void *arg);
// node: {entries, head, firstBad}; firstBad null: the chain is whole.
void audit_store_verify(struct pg *pg, const char *account_id, store_node_done on_done, void *arg);

extern const struct sweep audit_store_sweeps[1];

#endif
