#include "server/chores/sweeper.h"

#include <assert.h>

#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { NEXT_STEP_MS = 200, OFTEN_MS = 15000, FAILURES_MAX = 16, SWEEP_COUNTERS = SWEEP_COUNTS_SETTLED + 1 };

struct sweeper {
    struct sweeper_options options;
    struct timer timer;
    bool busy;
    enum sweep_when phase;
    size_t at;                // the sweep whose turn it is
    struct sweep_place place; // in it
    unsigned failures;        // of it, in this round
    uint64_t due_in_ms;       // until the next round
    struct metric_family *counters[SWEEP_COUNTERS], *failed;
};

static void step_later(struct sweeper *sweeper)
{
    sweeper->busy = false;
    timer_start(&sweeper->timer, NEXT_STEP_MS, 0);
}

static void wait_for(struct sweeper *sweeper)
{
    sweeper->busy = false;
    sweeper->phase = SWEEP_OFTEN;
    sweeper->at = 0;
    uint64_t ms = sweeper->due_in_ms < OFTEN_MS ? sweeper->due_in_ms : OFTEN_MS;
    sweeper->due_in_ms -= ms;
    timer_start(&sweeper->timer, ms, 0);
}

// ---- a step --------------------------------------------------------------------------------------------------------

// The sweep whose turn it is in this phase; NULL: the phase is over.
static const struct sweep *current(struct sweeper *sweeper)
{
    while (sweeper->at < sweeper->options.sweep_count) {
        if (sweeper->options.sweeps[sweeper->at].when == sweeper->phase) return &sweeper->options.sweeps[sweeper->at];
        sweeper->at++;
    }
    return NULL;
}

static void count_rows(struct sweeper *sweeper, const struct sweep *sweep, uint64_t rows)
{
    struct metric_family *counter = sweeper->counters[sweep->counter];
    if (sweep->counter == SWEEP_COUNTS_HISTORY)
        metric_add(metric_with(counter, sweep->name), rows);
    else if (counter)
        metric_add(metric_with(counter), rows);
}

// False: the pool is closing, and nothing goes on.
static bool note(struct sweeper *sweeper, const struct sweep *sweep, const struct error *err, uint64_t rows)
{
    if (err && err->code == ERROR_CANCELLED) {
        sweeper->busy = false;
        return false;
    }
    if (err) {
        metric_add(metric_with(sweeper->failed, sweep->name), 1);
        log_warn("sweeper", "step_failed", log_c("step", sweep->name), log_err(err));
    } else {
        count_rows(sweeper, sweep, rows);
    }
    return true;
}

static void run(struct sweeper *sweeper);

// What fails is left out until the next round, so that the rest gets its turn.
static void step_done(struct sweeper *sweeper, bool has_more)
{
    if (has_more) {
        step_later(sweeper);
        return;
    }
    sweeper->at++;
    sweeper->place = (struct sweep_place){0};
    sweeper->failures = 0;
    if (sweeper->phase == SWEEP_ROUND && current(sweeper))
        step_later(sweeper);
    else
        run(sweeper);
}

static void on_stepped(void *arg, const struct error *err, uint64_t rows)
{
    struct sweeper *sweeper = arg;
    const struct sweep *sweep = current(sweeper);
    if (!note(sweeper, sweep, err, rows)) return;
    step_done(sweeper, !err && sweep->rows && rows >= sweep->rows);
}

static void on_walked(void *arg, const struct error *err, uint64_t rows, const struct sweep_place *next)
{
    struct sweeper *sweeper = arg;
    const struct sweep *sweep = current(sweeper);
    if (!note(sweeper, sweep, err, rows)) return;
    if (err)
        sweeper->place.slice++;
    else if (next)
        sweeper->place = *next;
    step_done(sweeper, next || (err && sweeper->failures++ < FAILURES_MAX));
}

// Takes the next step, or goes on to the next phase.
static void run(struct sweeper *sweeper)
{
    const struct sweep *sweep = current(sweeper);
    while (!sweep) {
        bool is_round_due = sweeper->due_in_ms == 0;
        if (sweeper->phase == SWEEP_ROUND) sweeper->due_in_ms = sweeper->options.interval_ms;
        if (sweeper->phase == SWEEP_ROUND || (sweeper->phase == SWEEP_OFTEN && !is_round_due)) {
            wait_for(sweeper);
            return;
        }
        sweeper->phase = sweeper->phase == SWEEP_OFTEN ? SWEEP_FIRST : SWEEP_ROUND;
        sweeper->at = 0;
        sweep = current(sweeper);
    }
    assert(!sweep->step != !sweep->walk);
    if (sweep->step)
        sweep->step(sweeper->options.pg, sweep, &sweeper->options.keep, on_stepped, sweeper);
    else
        sweep->walk(sweeper->options.pg, sweep->rows, &sweeper->place, on_walked, sweeper);
}

static void on_timer(void *arg)
{
    struct sweeper *sweeper = arg;
    if (sweeper->busy) return;
    sweeper->busy = true;
    run(sweeper);
}

// ---- life ----------------------------------------------------------------------------------------------------------

struct sweeper *sweeper_create(struct loop *loop, const struct sweeper_options *options)
{
    struct sweeper *sweeper = mem_zalloc(sizeof *sweeper);
    sweeper->options = *options;
    sweeper->counters[SWEEP_COUNTS_ROWS] =
        metrics_counter("culvert_swept_rows_total", "Unused manifests and old tombstones that were removed.", NULL);
    sweeper->counters[SWEEP_COUNTS_PARTITIONS] = metrics_counter(
        "culvert_dropped_partitions_total", "Expired partitions of events and history that were dropped.", NULL);
    sweeper->counters[SWEEP_COUNTS_SETTLED] = metrics_counter(
        "culvert_settled_deployments_total", "Deployments whose manifests were recorded a second time.", NULL);
    sweeper->counters[SWEEP_COUNTS_MERGED] = metrics_counter(
        "culvert_merged_transitions_total",
        "Changes of objects beyond transitions.object_per_hour_max that were merged into the newest transition.", NULL);
    sweeper->counters[SWEEP_COUNTS_HISTORY] =
        metrics_counter("culvert_swept_history_rows_total", "Expired rows of history that were removed.", "kind", NULL);
    for (int i = 0; i < SWEEP_COUNTERS; i++) // without a label they are shown from the start
        if (sweeper->counters[i] && i != SWEEP_COUNTS_HISTORY) metric_with(sweeper->counters[i]);
    sweeper->failed =
        metrics_counter("culvert_sweep_failures_total", "Steps of housekeeping that failed.", "step", NULL);
    timer_init(&sweeper->timer, loop_uv(loop), on_timer, sweeper);
    // At once: a platform that stood still for weeks lacks the partitions of today.
    timer_start(&sweeper->timer, 0, 0);
    return sweeper;
}

void sweeper_destroy(struct sweeper *sweeper)
{
    if (!sweeper) return;
    timer_finish(&sweeper->timer);
    mem_free(sweeper);
}
