// event_handler: turns accepted reports into committed transactions, one handler a loop. Reports of one account form a
// queue: they are applied in the order of their arrival, one transaction in flight a queue and the next one made ready
// meanwhile, queues beside each other.
// Only so many transactions are in flight at a time. When one may go, it is that of the account that was given least
// so far (start-time fair queueing, the cost being bytes): an account with little to say waits for one transaction of
// one with much to say, not for its backlog.
// While PostgreSQL is away, reports from tunnels wait (bounded; intake pauses the tunnels) and HTTP callers are told at
// once. Everything on its loop; callbacks too.
#ifndef CULVERT_SERVER_INTAKE_EVENT_HANDLER_H
#define CULVERT_SERVER_INTAKE_EVENT_HANDLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "base/runtime_key.h"
#include "storage/reports/report_store.h"

struct event_handler;
struct event_item;

// How one report ended: err (ERROR_UNAVAILABLE and the like: nothing was applied) or its outcome.
typedef void (*event_item_done)(void *arg, const struct error *err, const struct report *report,
                                const struct report_outcome *outcome);

struct event_handler_options {
    struct pg *pg;
    const struct report_kinds *kinds;
    struct manifest_known *known;
    uint64_t batch_count, batch_bytes, batch_delay_ms;
    uint64_t queue_bytes_max;
    uint64_t park_ms; // so long a runtime waits whose report took too long, and the account's others go on
    uint64_t account_bytes_max, runtime_bytes_max; // of the queue, by one of them; 0: no limit
    uint64_t transactions_max;                     // in flight at a time, of all accounts; 0: no limit
    // The store; a test puts its own here.
    struct report_transaction *(*prepare)(struct pg *pg, const struct report_kinds *kinds, struct manifest_known *known,
                                          const struct report *reports, size_t count, report_store_ready on_ready,
                                          void *arg);
    void (*submit)(struct report_transaction *transaction, report_store_done on_done, void *arg);
    void (*discard)(struct report_transaction *transaction);
    // After each COMMIT, with the reports that changed something (reports[i] only where outcomes[i] says applied).
    void (*on_committed)(void *ctx, const struct report *reports, const struct report_outcome *outcomes, size_t count);
    // After each transaction, when its items' callbacks have run: the time to acknowledge, and to take more.
    void (*on_progress)(void *ctx);
    void *ctx;
};

struct event_handler *event_handler_create(struct loop *loop, const struct event_handler_options *options);
// Before the pg is closed: starts no more transactions. What is in flight ends as it ends.
void event_handler_stop(struct event_handler *handler);
// What waits ends with ERROR_CANCELLED. The pg must have been closed first, so that nothing is in flight.
void event_handler_destroy(struct event_handler *handler);

// Copies the report. patient (tunnel): it is kept through a database that is away, and taken even by a full queue: the
// caller then pauses its source, so that the bound is passed by one report a session at most. Otherwise it ends with
// the error, ERROR_UNAVAILABLE says that the queue is full or the database away, ERROR_LIMITED that the account or the
// runtime has more in it than its share, and nothing was taken. on_done may run inside this call.
MUST_CHECK enum error_code event_handler_submit(struct event_handler *handler, const struct report *report,
                                                bool patient, event_item_done on_done, void *arg, struct error *err);
bool event_handler_is_full(const struct event_handler *handler);
// Whether a source of this runtime is to pause: the queue is full, or its share of it.
bool event_handler_has_room(const struct event_handler *handler, const struct runtime_key *key);
bool event_handler_is_idle(const struct event_handler *handler);

#endif
