// session_lags: the lag that agents report, on its way to PostgreSQL, where readers see it: written
// when it changes, a transaction for many, one at a time; of a session that reports again meanwhile
// only the newest counts. Agents are mostly not behind, and then nothing is kept or written. And
// the metric of the runtimes that lag most. One a loop.
#ifndef CULVERT_SERVER_SESSION_LAGS_H
#define CULVERT_SERVER_SESSION_LAGS_H

#include "base/loop/loop.h"
#include "storage/sessions/session_batch.h"
#include "tunnel/broker.h"

struct session_lags;

struct session_lags_options {
    struct pg *pg;
    // The database; NULL: session_batch_lag.
    void (*write)(struct pg *pg, const struct session_lag *lags, size_t count, store_count_done on_done, void *arg);
};

struct session_lags *session_lags_create(struct loop *loop, const struct session_lags_options *options);
void session_lags_stop(struct session_lags *lags);    // nothing is begun any more; NULL is fine
void session_lags_destroy(struct session_lags *lags); // after pg was closed; NULL is fine
// What the agent of an open session reported.
void session_lags_take(struct session_lags *lags, const struct tunnel_session_info *session, uint64_t behind_ms,
                       uint64_t blind_ms);
void session_lags_forget(struct session_lags *lags, struct tunnel_session_ref ref); // the session has ended

#endif
