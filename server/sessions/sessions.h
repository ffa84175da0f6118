// sessions: the life of tunnel sessions outside the tunnel, one a loop: a new one gets its epoch
// from PostgreSQL, an ended one is noted there, and the registry notifies the other replicas.
// Everything on its loop.
//
// One loop, the one that was chosen, keeps the replica's lease, which covers all its sessions:
// renews it, reports until when sessions may get calls (server/sessions/registry_lease.h; only
// where there are other replicas), and asks PostgreSQL which sessions were ended by others, so that
// a newer session elsewhere is noticed without Redis, too.
#ifndef CULVERT_SERVER_SESSIONS_H
#define CULVERT_SERVER_SESSIONS_H

#include <stdatomic.h>

#include "base/loop/loop.h"
#include "server/sessions/registry.h"
#include "storage/pg/pg.h"
#include "tunnel/broker.h"

struct sessions;

struct sessions_options {
    struct pg *pg;
    struct registry *registry;
    struct tunnel_broker *broker;
    const char *replica;
    const char *peer_address; // empty: there is no listener for other replicas, and no session is fenced
    uint64_t lease_ttl_ms;
    size_t ends_max; // ended sessions that may wait for PostgreSQL
    bool renews;     // this loop renews the replica's lease, and at its start ends what an earlier process left
    // A session of the runtime was written as open or ended: what is known of it is fresh, or no
    // longer. NULL: not called.
    void (*on_changed)(void *ctx, const char *account_id, const char *runtime);
    void *ctx;
    atomic_bool *may_open; // shared by the loops: set once that has ended; until then sessions wait for their epochs
};

struct sessions *sessions_create(struct loop *loop, const struct sessions_options *options);
void sessions_stop(struct sessions *sessions);    // before the node is destroyed: it gets no more calls
void sessions_destroy(struct sessions *sessions); // after pg was closed

// The broker's callbacks of the same names.
void sessions_on_opening(struct sessions *sessions, struct tunnel_node *node,
                         const struct tunnel_session_info *session);
void sessions_on_open(struct sessions *sessions, const struct tunnel_session_info *session);
void sessions_on_retired(struct sessions *sessions, const struct tunnel_session_info *session);
void sessions_on_lag(struct sessions *sessions, const struct tunnel_session_info *session, uint64_t behind_ms,
                     uint64_t blind_ms);
void sessions_on_closed(struct sessions *sessions, const struct tunnel_session_info *session, const char *reason);

#endif
