// session_store: leases of replicas (who is alive); sessions themselves are opened and closed by session_batch.h.
// PostgreSQL is the authority; the directory in Redis is a copy.
#ifndef CULVERT_STORAGE_SESSION_STORE_H
#define CULVERT_STORAGE_SESSION_STORE_H

#include "storage/store.h"

// One lease a replica covers all its sessions: extends it (ttl_ms from now, the server's clock).
void session_store_renew(struct pg *pg, struct str replica, uint64_t ttl_ms, store_count_done on_done, void *arg);
// Marks sessions of this replica as ended: at start, when an earlier process of the same name left some.
void session_store_forget_replica(struct pg *pg, struct str replica, store_count_done on_done, void *arg);

#endif
