// session_store: tunnel sessions: epochs (who is newest) and leases (who is alive). PostgreSQL is the authority; the
// directory in Redis is a copy.
#ifndef CULVERT_STORAGE_SESSION_STORE_H
#define CULVERT_STORAGE_SESSION_STORE_H

#include "storage/store.h"

struct session_new {
    struct str runtime, runtime_id, replica, session_id, instance_id, boot_id, agent_version, remote;
};
// Takes the next epoch for the runtime and records the session with a lease, in one transaction.
// ERROR_NOT_FOUND: the runtime was deleted.
typedef void (*session_opened)(void *arg, const struct error *err, uint64_t epoch);
void session_store_open(struct pg *pg, const char *account_id, const struct session_new *session,
                        session_opened on_done, void *arg);
// Ends it, only if the epoch is still this one.
void session_store_close(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch, struct str reason,
                         store_count_done on_done, void *arg);
// One lease a replica covers all its sessions: extends it (ttl_ms from now, the server's clock).
void session_store_renew(struct pg *pg, struct str replica, uint64_t ttl_ms, store_count_done on_done, void *arg);
// Marks sessions of this replica as ended: at start, when an earlier process of the same name left some.
void session_store_forget_replica(struct pg *pg, struct str replica, store_count_done on_done, void *arg);

#endif
