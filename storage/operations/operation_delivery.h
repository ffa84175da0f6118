// operation_delivery: queued operations on their way to agents, and what agents report of them
// (docs/internals/operations.md). Who sends one, and over which session, is decided by rows alone:
// a replica or an agent that is killed at any moment leaves a row that the next one goes on with.
#ifndef CULVERT_STORAGE_OPERATIONS_OPERATION_DELIVERY_H
#define CULVERT_STORAGE_OPERATIONS_OPERATION_DELIVERY_H

#include "storage/sql/store.h"

// One to send now. Views valid during the callback.
struct operation_due {
    struct str account_id, runtime, operation_id, document;
    uint64_t epoch, attempt, ttl_ms;
};
typedef void (*operation_due_done)(void *arg, const struct error *err, const struct operation_due *due, size_t count);

enum { OPERATION_DUE_MAX = 200 };

struct operation_claim {
    const char *replica;
    uint64_t resend_ms; // after which one that its agent did not answer is sent again
    uint64_t grace_ms;  // after its expiry until one that was sent counts as lost
    uint64_t run_ms;    // the same of one that runs
    unsigned rows;      // at most OPERATION_DUE_MAX
};
// Ends what has expired, of all accounts, and notes what is returned as sent.
void operation_delivery_claim(struct pg *pg, const struct operation_claim *claim, operation_due_done on_done,
                              void *arg);

// What an agent reports. count 0: nothing new, or not from the session that it was sent over.
struct operation_note {
    const char *account_id;
    struct str runtime, operation_id, state, code, message;
    uint64_t epoch;
};
void operation_delivery_note(struct pg *pg, const struct operation_note *note, store_count_done on_done, void *arg);

#endif
