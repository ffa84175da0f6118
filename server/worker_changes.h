// worker_changes: what was committed, to all that follow it: subscriptions of this loop at once, of
// the other loops by their mailboxes, of other replicas by Redis: a message a transaction on the
// channel culvert:changes:<account id> (api/live/change.h). While Redis is away, or where there is
// none, other replicas notice changes when they read again (live.refresh).
#ifndef CULVERT_SERVER_WORKER_CHANGES_H
#define CULVERT_SERVER_WORKER_CHANGES_H

#include "api/live/live.h"
#include "server/worker.h"
#include "storage/reports/report_store.h"

// intake_options.on_committed; ctx is the worker.
void worker_changes_of_reports(void *ctx, const struct report *reports, const struct report_outcome *outcomes,
                               size_t count);
// sessions_options.on_changed; ctx is the worker.
void worker_changes_of_runtime(void *ctx, const char *account_id, const char *runtime);
// Subscriptions of the worker's API, with the limits and settings of the server.
struct live_options worker_live_options(struct worker *worker);

#endif
