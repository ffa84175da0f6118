#include "agent/reports/catch_up.h"

#include <assert.h>

enum {
    BASE_MS = 1000,
    CAP_MS = 300000,
    QUIET_MS = 600000,      // a snapshot that long after the last one is a new matter
    HURRY_MS = 5000,        // a stream that is never quiet is compared all the same
    UNANSWERED_MS = 120000, // then the platform is asked anew
};

static void set_state(struct catch_up *catch_up, enum catch_up_state state)
{
    enum {
        SNAPSHOTS = 1u << CATCH_UP_SNAPSHOT_DUE | 1u << CATCH_UP_SNAPSHOT,
        END = 1u << CATCH_UP_CLOSED,
    };
    // clang-format off
    static const unsigned allowed[] = {
        [CATCH_UP_CLOSED] = 1u << CATCH_UP_COMPARE_DUE | 1u << CATCH_UP_SNAPSHOT_DUE,
        [CATCH_UP_COMPARE_DUE] = 1u << CATCH_UP_COMPARING | SNAPSHOTS | END,
        [CATCH_UP_COMPARING] = 1u << CATCH_UP_COMPARE_DUE | 1u << CATCH_UP_RECOMPARE_DUE | 1u << CATCH_UP_SYNCED |
                               SNAPSHOTS | END,
        [CATCH_UP_RECOMPARE_DUE] = 1u << CATCH_UP_RECOMPARING | SNAPSHOTS | END,
        [CATCH_UP_RECOMPARING] = 1u << CATCH_UP_RECOMPARE_DUE | 1u << CATCH_UP_SYNCED | SNAPSHOTS | END,
        [CATCH_UP_SNAPSHOT_DUE] = 1u << CATCH_UP_SNAPSHOT | END,
        [CATCH_UP_SNAPSHOT] = 1u << CATCH_UP_SYNCED | 1u << CATCH_UP_SNAPSHOT_DUE | END,
        [CATCH_UP_SYNCED] = 1u << CATCH_UP_COMPARE_DUE | 1u << CATCH_UP_RECOMPARE_DUE | SNAPSHOTS | END,
    };
    // clang-format on
    assert(allowed[catch_up->state] & 1u << state);
    catch_up->state = state;
}

static void note_gap(struct catch_up *catch_up, uint64_t now_ms)
{
    if (!catch_up->gap_since_ms) catch_up->gap_since_ms = now_ms;
}

void catch_up_init(struct catch_up *catch_up)
{
    *catch_up = (struct catch_up){.state = CATCH_UP_CLOSED};
    backoff_init(&catch_up->backoff, BASE_MS, CAP_MS);
}

void catch_up_open(struct catch_up *catch_up, bool compares, uint64_t now_ms)
{
    catch_up->opened_at_ms = now_ms;
    catch_up->due_at_ms = 0;
    set_state(catch_up, compares ? CATCH_UP_COMPARE_DUE : CATCH_UP_SNAPSHOT_DUE);
}

void catch_up_close(struct catch_up *catch_up, uint64_t now_ms)
{
    if (catch_up->state == CATCH_UP_CLOSED) return;
    note_gap(catch_up, now_ms);
    catch_up->due_at_ms = 0;
    catch_up->lacks_room = false;
    set_state(catch_up, CATCH_UP_CLOSED);
}

bool catch_up_compares(const struct catch_up *catch_up)
{
    return catch_up->state >= CATCH_UP_COMPARE_DUE && catch_up->state <= CATCH_UP_RECOMPARING;
}

bool catch_up_is_asking(const struct catch_up *catch_up)
{
    return catch_up->state == CATCH_UP_COMPARING || catch_up->state == CATCH_UP_RECOMPARING;
}

bool catch_up_is_idle(const struct catch_up *catch_up)
{
    return catch_up->state == CATCH_UP_SYNCED;
}

// ---- snapshots -----------------------------------------------------------------------------------

bool catch_up_snapshot_is_due(const struct catch_up *catch_up, uint64_t now_ms)
{
    return catch_up->state == CATCH_UP_SNAPSHOT_DUE && now_ms >= catch_up->due_at_ms;
}

void catch_up_begin_snapshot(struct catch_up *catch_up)
{
    catch_up->due_at_ms = 0;
    set_state(catch_up, CATCH_UP_SNAPSHOT);
}

void catch_up_end_snapshot(struct catch_up *catch_up, uint64_t now_ms)
{
    catch_up->snapshot_at_ms = now_ms;
    catch_up->gap_since_ms = 0;
    set_state(catch_up, catch_up->due_at_ms ? CATCH_UP_SNAPSHOT_DUE : CATCH_UP_SYNCED);
}

// A platform that is never content gets its snapshots ever more slowly.
static void schedule(struct catch_up *catch_up, uint64_t now_ms)
{
    if (catch_up->snapshot_at_ms && now_ms - catch_up->snapshot_at_ms > QUIET_MS) backoff_reset(&catch_up->backoff);
    catch_up->due_at_ms = now_ms + backoff_next_ms(&catch_up->backoff);
    if (catch_up->state != CATCH_UP_SNAPSHOT) set_state(catch_up, CATCH_UP_SNAPSHOT_DUE); // behind the one under way
}

enum catch_up_step catch_up_schedule_snapshot(struct catch_up *catch_up, uint64_t now_ms)
{
    assert(catch_up->state != CATCH_UP_CLOSED);
    bool is_due = catch_up->state == CATCH_UP_SNAPSHOT_DUE || catch_up->due_at_ms;
    if (is_due || catch_up_compares(catch_up)) return CATCH_UP_WAIT;
    schedule(catch_up, now_ms);
    return CATCH_UP_SCHEDULED;
}

enum catch_up_step catch_up_want_snapshot(struct catch_up *catch_up, uint64_t now_ms)
{
    assert(catch_up->state != CATCH_UP_CLOSED);
    if (catch_up->state == CATCH_UP_SNAPSHOT || catch_up->state == CATCH_UP_SNAPSHOT_DUE) return CATCH_UP_WAIT;
    if (!catch_up->snapshot_at_ms) return CATCH_UP_BEGIN_SNAPSHOT;
    schedule(catch_up, now_ms);
    return CATCH_UP_SCHEDULED;
}

// ---- comparisons ---------------------------------------------------------------------------------

bool catch_up_may_compare(const struct catch_up *catch_up, bool is_quiet, bool wanted, uint64_t now_ms)
{
    bool again = catch_up->state == CATCH_UP_RECOMPARE_DUE;
    if (catch_up->state != CATCH_UP_COMPARE_DUE && !again) return false;
    if (now_ms < catch_up->due_at_ms) return false;
    if (again && wanted) return now_ms >= catch_up->asked_at_ms + UNANSWERED_MS;
    return is_quiet || now_ms >= catch_up->opened_at_ms + HURRY_MS;
}

void catch_up_begin_compare(struct catch_up *catch_up, uint64_t now_ms)
{
    bool again = catch_up->state == CATCH_UP_RECOMPARE_DUE;
    catch_up->due_at_ms = 0;
    catch_up->asked_at_ms = now_ms;
    set_state(catch_up, again ? CATCH_UP_RECOMPARING : CATCH_UP_COMPARING);
}

static void stop_asking(struct catch_up *catch_up)
{
    assert(catch_up_is_asking(catch_up));
    set_state(catch_up, catch_up->state == CATCH_UP_RECOMPARING ? CATCH_UP_RECOMPARE_DUE : CATCH_UP_COMPARE_DUE);
}

bool catch_up_give_up(struct catch_up *catch_up, uint64_t now_ms)
{
    if (!catch_up_is_asking(catch_up) || now_ms < catch_up->asked_at_ms + UNANSWERED_MS) return false;
    stop_asking(catch_up);
    return true;
}

uint64_t catch_up_later(struct catch_up *catch_up, uint64_t now_ms)
{
    uint64_t wait_ms = backoff_next_ms(&catch_up->backoff);
    stop_asking(catch_up);
    catch_up->due_at_ms = now_ms + wait_ms;
    return wait_ms;
}

bool catch_up_settle(struct catch_up *catch_up, size_t differs, size_t wanted, uint64_t now_ms)
{
    bool again = catch_up->state == CATCH_UP_RECOMPARING;
    assert(catch_up_is_asking(catch_up));
    assert(wanted <= differs);
    // Found outdated is only what changed meanwhile, and is on its way.
    if (differs == 0 || (again && wanted == 0)) {
        catch_up->gap_since_ms = 0;
        backoff_reset(&catch_up->backoff);
        set_state(catch_up, CATCH_UP_SYNCED);
        return true;
    }
    note_gap(catch_up, now_ms);
    if (again) catch_up->due_at_ms = now_ms + backoff_next_ms(&catch_up->backoff);
    set_state(catch_up, CATCH_UP_RECOMPARE_DUE);
    return false;
}

void catch_up_new_kinds(struct catch_up *catch_up, bool compares, uint64_t now_ms)
{
    assert(catch_up_is_idle(catch_up));
    note_gap(catch_up, now_ms);
    if (compares)
        set_state(catch_up, CATCH_UP_COMPARE_DUE);
    else
        schedule(catch_up, now_ms);
}

uint64_t catch_up_offer_again(struct catch_up *catch_up, uint64_t now_ms)
{
    uint64_t wait_ms = backoff_next_ms(&catch_up->backoff);
    assert(catch_up->lacks_room);
    note_gap(catch_up, now_ms);
    catch_up->lacks_room = false;
    catch_up->due_at_ms = now_ms + wait_ms;
    set_state(catch_up, CATCH_UP_RECOMPARE_DUE);
    return wait_ms;
}
