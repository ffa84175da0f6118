// session_store: leases of replicas (who is alive); sessions themselves are opened and closed by session_batch.h.
// PostgreSQL is the authority; the directory in Redis is a copy.
#ifndef CULVERT_STORAGE_SESSIONS_SESSION_STORE_H
#define CULVERT_STORAGE_SESSIONS_SESSION_STORE_H

#include "base/runtime_key.h"
#include "storage/sql/store.h"

// One lease a replica covers all its sessions: extends it (ttl_ms from now, the server's clock) and says where the
// replica's peer listener is (empty: it has none). Fails within deadline_ms.
void session_store_renew(struct pg *pg, struct str replica, uint64_t ttl_ms, struct str peer_address,
                         uint64_t deadline_ms, store_count_done on_done, void *arg);

// A session of this replica that somebody has ended.
struct session_ended {
    struct str account_id, runtime;
    uint64_t epoch;
};
// Everything ended after `since`, a text that the last answer gave as `next` (at first "-infinity"). Views.
typedef void (*session_ended_done)(void *arg, const struct error *err, const struct session_ended *ended, size_t count,
                                   struct str next);
void session_store_ended(struct pg *pg, struct str replica, struct str since, session_ended_done on_done, void *arg);

// The newest session of a runtime. found false: it never had one. Views.
struct session_place {
    bool found;
    bool live; // open, and its replica's lease has not run out
    uint64_t epoch;
    struct str replica, peer_address;
    uint64_t gone_ms; // not live: since when
};
typedef void (*session_find_done)(void *arg, const struct error *err, const struct session_place *place);
void session_store_find(struct pg *pg, const struct runtime_key *key, uint64_t deadline_ms, session_find_done on_done,
                        void *arg);

// measures: a JSON array, see the function tunnels_measured in migrations/0005.
void session_store_measured(struct pg *pg, struct str measures, store_count_done on_done, void *arg);
// node: a JSON array of what is known of tunnels. account_id empty: of all accounts.
void session_store_list(struct pg *pg, struct str account_id, unsigned rows_max, store_node_done on_done, void *arg);

// Marks sessions of this replica as ended: at start, when an earlier process of the same name left some.
void session_store_forget_replica(struct pg *pg, struct str replica, store_count_done on_done, void *arg);

#endif
