// session_batch: tunnel sessions opened and closed by the hundred, one transaction for all of them, whatever their
// accounts: after a restart ten thousand agents come at once, and a commit each would take minutes. PostgreSQL is the
// authority for epochs (who is newest).
#ifndef CULVERT_STORAGE_SESSIONS_SESSION_BATCH_H
#define CULVERT_STORAGE_SESSIONS_SESSION_BATCH_H

#include "storage/sql/store.h"

enum { SESSION_BATCH_MAX = 256 };

struct session_new {
    const char *account_id;
    struct str runtime, runtime_id, session_id, instance_id, boot_id, agent_version, remote;
    bool waits; // it was told to stand by before
};
// epoch 0: the runtime was deleted or made anew. stands_by: another instance has that epoch and keeps it.
struct session_grant {
    uint64_t epoch;
    bool stands_by;
};
// grants[i] belongs to sessions[i]. NULL with err: none was opened.
typedef void (*session_batch_opened)(void *arg, const struct error *err, const struct session_grant *grants);
// Takes the next epoch of each runtime and records the sessions; instances of one runtime that keep replacing each
// other are told to stand by instead (storage/sessions/session_batch.sql has the rule). 1 <= count <=
// SESSION_BATCH_MAX, ordered by account and runtime (session_batch_compare), no runtime twice. All is copied.
void session_batch_open(struct pg *pg, struct str replica, const struct session_new *sessions, size_t count,
                        session_batch_opened on_done, void *arg);

struct session_over {
    const char *account_id;
    struct str runtime;
    uint64_t epoch;
    struct str reason, cause; // in words, and in one (migrations/0008)
    uint64_t silent_ms;       // since the agent was heard
};
// Ends each, only if its epoch is open still. 1 <= count <= SESSION_BATCH_MAX, ordered by account and runtime.
// on_done's count is not told (0).
void session_batch_close(struct pg *pg, const struct session_over *sessions, size_t count, store_count_done on_done,
                         void *arg);

// How far a session's agent is behind its cluster: the age of what is not acknowledged, and for how long some was not
// seen. 0: it is not.
struct session_lag {
    const char *account_id;
    struct str runtime;
    uint64_t epoch, behind_ms, blind_ms;
};
// As session_batch_close: of sessions that are open still.
void session_batch_lag(struct pg *pg, const struct session_lag *lags, size_t count, store_count_done on_done,
                       void *arg);

// The order of all: by account, then runtime.
int session_batch_compare(const char *account_a, struct str runtime_a, const char *account_b, struct str runtime_b);

#endif
