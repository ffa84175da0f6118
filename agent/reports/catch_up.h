// catch_up: how the platform is brought up to what the cluster is, on one stream of reports: by
// comparing digests, or by a snapshot where the platform does not compare or asks for one. It
// decides; the reporter carries out. Pure: the clock is given.
//
//   CLOSED --a stream of a platform that compares--> COMPARE_DUE --may_compare()--> COMPARING
//   CLOSED --any other stream--> SNAPSHOT_DUE --> SNAPSHOT --all of it is written--> SYNCED
//   COMPARING --equal--> SYNCED
//   COMPARING --differences--> RECOMPARE_DUE, once they are written --may_compare()--> RECOMPARING
//   RECOMPARING --nothing is missing--> SYNCED, else --> RECOMPARE_DUE, ever more slowly
//   COMPARING, RECOMPARING --no answer, "later"--> the state before
//   any state of an open stream --the platform asks for it--> SNAPSHOT_DUE or SNAPSHOT
//   SNAPSHOT_DUE --its wait is over--> SNAPSHOT
//   SYNCED --kinds can be read again--> COMPARE_DUE; --the platform lacked room--> RECOMPARE_DUE
//   any state --the stream closes--> CLOSED
//
// Embedded in the reporter; its loop.
#ifndef CULVERT_AGENT_CATCH_UP_H
#define CULVERT_AGENT_CATCH_UP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"

enum catch_up_state {
    CATCH_UP_CLOSED,
    CATCH_UP_COMPARE_DUE,
    CATCH_UP_COMPARING,
    CATCH_UP_RECOMPARE_DUE, // what the platform wanted is being written
    CATCH_UP_RECOMPARING,
    CATCH_UP_SNAPSHOT_DUE,
    CATCH_UP_SNAPSHOT,
    CATCH_UP_SYNCED,
};

struct catch_up {
    enum catch_up_state state;
    struct backoff backoff;
    uint64_t due_at_ms;      // not earlier than this; 0: at once (SNAPSHOT: no other one is wanted)
    uint64_t gap_since_ms;   // something was not reported, and nothing has made up for it yet; 0: nothing
    uint64_t snapshot_at_ms; // the last one was complete; 0: there was none
    uint64_t opened_at_ms, asked_at_ms;
    bool lacks_room; // the platform refused something that it may take later
};

enum catch_up_step {
    CATCH_UP_WAIT,
    CATCH_UP_BEGIN_SNAPSHOT,
    CATCH_UP_SCHEDULED, // a snapshot: due_at_ms
};

void catch_up_init(struct catch_up *catch_up);
void catch_up_open(struct catch_up *catch_up, bool compares, uint64_t now_ms);
void catch_up_close(struct catch_up *catch_up, uint64_t now_ms); // nothing when it is closed

bool catch_up_compares(const struct catch_up *catch_up); // COMPARE_DUE to RECOMPARING
bool catch_up_is_asking(const struct catch_up *catch_up);
bool catch_up_is_idle(const struct catch_up *catch_up); // nothing is under way, due or wanted

// ---- snapshots. They follow each other ever more slowly: each is a list of everything.
bool catch_up_snapshot_is_due(const struct catch_up *catch_up, uint64_t now_ms);
void catch_up_begin_snapshot(struct catch_up *catch_up);
void catch_up_end_snapshot(struct catch_up *catch_up, uint64_t now_ms);
// The platform cannot go on without one (RESYNC). SCHEDULED, or WAIT: one is due, or a comparison.
enum catch_up_step catch_up_schedule_snapshot(struct catch_up *catch_up, uint64_t now_ms);
// The answer to a comparison. BEGIN: the first one is due at once. WAIT: one is under way, or due.
enum catch_up_step catch_up_want_snapshot(struct catch_up *catch_up, uint64_t now_ms);

// ---- comparisons
// is_quiet: what happened before now has been written and acknowledged. wanted: something that the
// last comparison missed is not yet.
bool catch_up_may_compare(const struct catch_up *catch_up, bool is_quiet, bool wanted, uint64_t now_ms);
void catch_up_begin_compare(struct catch_up *catch_up, uint64_t now_ms);
// The platform did not answer in time: true, and it is asked anew.
bool catch_up_give_up(struct catch_up *catch_up, uint64_t now_ms);
// The platform cannot compare now. Returns the wait.
uint64_t catch_up_later(struct catch_up *catch_up, uint64_t now_ms);
// It has compared. differs: objects that it lacked; wanted: those of them that are not on their
// way. True: the gap has been made up for.
bool catch_up_settle(struct catch_up *catch_up, size_t differs, size_t wanted, uint64_t now_ms);

// Idle: kinds can be read that could not be. compares: the platform does.
void catch_up_new_kinds(struct catch_up *catch_up, bool compares, uint64_t now_ms);
// Idle: what found no room on the platform is offered again by comparing. Returns the wait.
uint64_t catch_up_offer_again(struct catch_up *catch_up, uint64_t now_ms);

#endif
