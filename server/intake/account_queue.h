// account_queue: one account's reports in the event handler, there while it has some. Those of a runtime are applied in
// the order of their arrival: one transaction in flight, the next one made ready meanwhile, the others in line behind.
// A transaction that fails comes apart again: what is to be tried once more stands in its old order before all others,
// and what the failure says decides whether that is all at once, one by one, later, or not at all. One that took too
// long by itself waits aside with all of its runtime, while the other runtimes go on. The handler decides when a queue
// may go; its loop.
//
//   next transaction: NONE --account_queue_prepare()--> PREPARING --on_ready--> READY --account_queue_submit()--> NONE
//   PREPARING, READY --the one in flight fails, account_queue_end_all()--> NONE
//
// Reports ahead belong to that transaction: there are some in PREPARING and READY, and none in NONE.
//
//   suspect: NONE --a report takes too long by itself--> PARKED, and all of its runtime with it
//            PARKED --its time is over--> TRIED, alone and before all others
//            TRIED --it takes too long again--> PARKED
//            TRIED --applied, refused, given up--> NONE
//            TRIED --nobody else gets through either--> TRIED, in turns with the one behind it
//
//   turns, of the first report and the one behind it: FIRST --it fails by a defect--> BEHIND_DUE
//            BEHIND_DUE --after some failures, account_queue_prepare()--> BEHIND: the first one waits aside
//            BEHIND --the one behind it fails, too--> FIRST; --is answered--> FIRST: the one aside is refused
#ifndef CULVERT_SERVER_INTAKE_ACCOUNT_QUEUE_H
#define CULVERT_SERVER_INTAKE_ACCOUNT_QUEUE_H

#include "base/backoff.h"
#include "server/intake/event_item.h"

struct account_queue;

struct account_queue_options {
    const struct event_handler_options *handler;
    void (*on_ready)(void *ctx); // the next transaction of one of them may go
    // The transaction in flight was answered: account_queue_succeeded() or account_queue_failed() is called now.
    void (*on_applied)(void *ctx, struct account_queue *queue, const struct error *err,
                       const struct report_outcome *outcomes, size_t count);
    // Tells how the item ended, and takes it.
    void (*end)(void *ctx, struct event_item *item, const struct error *err, const struct report_outcome *outcome);
    void *ctx;
};

enum account_queue_next_state {
    ACCOUNT_QUEUE_NEXT_NONE,
    ACCOUNT_QUEUE_NEXT_PREPARING,
    ACCOUNT_QUEUE_NEXT_READY,
};

enum account_queue_suspect_state {
    ACCOUNT_QUEUE_SUSPECT_NONE,
    ACCOUNT_QUEUE_SUSPECT_PARKED,
    ACCOUNT_QUEUE_SUSPECT_TRIED,
};

enum account_queue_turn {
    ACCOUNT_QUEUE_TURN_FIRST,
    ACCOUNT_QUEUE_TURN_BEHIND_DUE,
    ACCOUNT_QUEUE_TURN_BEHIND,
};

struct account_queue {
    struct account_queue *next; // the handler's list
    const struct account_queue_options *options;
    char account_id[64];
    struct event_line waiting;
    struct event_item **in_flight; // batch_count slots
    size_t in_flight_count;
    struct event_item **ended; // batch_count slots: those whose callbacks are running
    struct event_item **ahead; // batch_count slots: those of the next transaction, made ready meanwhile
    size_t ahead_count;
    struct report_transaction *next_transaction; // of those ahead
    enum account_queue_next_state next_state;
    unsigned busy; // callbacks of transactions that are running
    bool away;     // so was the database at its last try
    size_t alone;  // so many of the first go one by one: a transaction of them failed on its data or took too long
    unsigned conflicts;
    unsigned defects; // so often the first of them met an error that is neither its own nor the database's
    enum account_queue_turn turn_of;
    struct event_item *aside; // in BEHIND: the first one
    enum account_queue_suspect_state suspect_state;
    struct event_item *suspect; // in PARKED and TRIED: it took too long by itself
    struct event_line parked;   // in PARKED: the suspect and, behind it, all of its runtime
    uint64_t parked_until_ms;
    unsigned timeouts;   // so often, in a row
    bool others_went;    // since then: it is not the database
    uint64_t started_us; // of the transaction in flight
    uint64_t turn;       // what it was given, on the handler's clock: the least goes first
    struct backoff backoff;
    uint64_t not_before_ms; // of the next try, after a failure
    uint64_t since_ms;      // when the oldest waiting report came
};

// The options are kept by reference, the account is copied.
struct account_queue *account_queue_create(const struct account_queue_options *options, struct str account_id);
void account_queue_destroy(struct account_queue *queue); // one that is empty
// Whatever it has ends with the error. No transaction of it may be in flight any more.
void account_queue_end_all(struct account_queue *queue, const struct error *err);

void account_queue_add(struct account_queue *queue, struct event_item *item);
bool account_queue_is_empty(const struct account_queue *queue);
// Reports that cannot wait need not be taken: the database was away at the last try, and the next is to come.
bool account_queue_is_away(const struct account_queue *queue);
// Nor those of a runtime that waits behind its suspect.
bool account_queue_is_parked(const struct account_queue *queue, struct str runtime);

// When the next transaction may be made ready: 0 now, otherwise how long it waits; UINT64_MAX: for nothing.
uint64_t account_queue_wait_ms(const struct account_queue *queue, uint64_t now_ms);
// The next transaction begins to be made ready. on_ready may run inside.
void account_queue_prepare(struct account_queue *queue);
// The next one is ready, and none is in flight.
bool account_queue_may_go(const struct account_queue *queue);
size_t account_queue_bytes_ahead(const struct account_queue *queue); // of that one
// It goes. on_applied may run inside.
void account_queue_submit(struct account_queue *queue);

// The transaction in flight is over: gives its items for the caller to end. The array is the queue's, until this is
// called again.
struct event_item **account_queue_succeeded(struct account_queue *queue, size_t count);
void account_queue_failed(struct account_queue *queue, const struct error *err);

#endif
