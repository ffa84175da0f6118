// resync: the agent's side of an exchange of digests (tunnel/wire/digest.h), without its I/O: what to say next, and
// what follows from what the platform says. One a stream; owned by the reporter; its loop.
//
//   IDLE --resync_probe()--> PROBE_DUE --it is sent--> IDLE
//   IDLE --resync_begin()--> ROOT_DUE --it is sent--> ASKING --settled, "later"--> IDLE
//   any state --resync_stop(), the platform wants a snapshot--> IDLE
#ifndef CULVERT_AGENT_RESYNC_H
#define CULVERT_AGENT_RESYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/reports/outbox.h"
#include "base/error.h"
#include "base/strbuf.h"

enum resync_state {
    RESYNC_IDLE,
    RESYNC_PROBE_DUE,
    RESYNC_ROOT_DUE,
    RESYNC_ASKING, // answers what the platform asks of branches and leaves, until it is settled
};

struct resync;

struct resync_events {
    // Everything has been compared. differs: objects that the platform lacked; wanted: those of them that are not on
    // their way already. The outbox knows which.
    void (*on_settled)(void *arg, size_t differs, size_t wanted);
    void (*on_wanted)(void *arg, const struct outbox_slot *slot); // one of them, before on_settled
    void (*on_snapshot)(void *arg);                               // the platform wants everything
    void (*on_later)(void *arg);                                  // it cannot compare now
};

struct resync *resync_create(struct outbox *outbox, const struct resync_events *events, void *arg);
void resync_destroy(struct resync *resync); // NULL is fine

void resync_probe(struct resync *resync); // the inventory is not known yet
void resync_begin(struct resync *resync); // it is: compare
void resync_stop(struct resync *resync);  // a snapshot is sent instead

// Puts the next word to say into *out. False: there is none.
bool resync_next(struct resync *resync, struct strbuf *out);
// What the platform said. ERROR_PROTOCOL: it was not asked.
MUST_CHECK enum error_code resync_take(struct resync *resync, struct str payload, struct error *err);

#endif
