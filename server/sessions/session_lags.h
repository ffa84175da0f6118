// session_lags: the lag that agents report, on its way to PostgreSQL, where readers see it: written
// when it changes, a transaction for many, one at a time; of a session that reports again meanwhile
// only the newest counts. Agents are mostly not behind, and then nothing is kept or written. And
// the metric of the runtimes that lag most. One a loop.
#ifndef CULVERT_SERVER_SESSION_LAGS_H
#define CULVERT_SERVER_SESSION_LAGS_H

#include "base/loop/loop.h"
#include "storage/pg/pg.h"
#include "tunnel/broker.h"

struct session_lags;

struct session_lags *session_lags_create(struct loop *loop, struct pg *pg);
void session_lags_stop(struct session_lags *lags);    // nothing is begun any more; NULL is fine
void session_lags_destroy(struct session_lags *lags); // after pg was closed; NULL is fine
// What the agent of an open session reported.
void session_lags_take(struct session_lags *lags, const struct tunnel_session_info *session, uint64_t behind_ms,
                       uint64_t blind_ms);
void session_lags_forget(struct session_lags *lags, struct tunnel_session_ref ref); // the session has ended

#endif
