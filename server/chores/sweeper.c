#include "server/chores/sweeper.h"

#include <string.h>

#include "api/access/runtime_token_store.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "modules/deployments/deployment_store.h"
#include "modules/events/cloud_event_store.h"
#include "storage/reports/report_store.h"
#include "storage/reports/storage_usage_store.h"

// A step is one short transaction. Deployments are looked at again soon after they were made, the rest in rounds.
enum {
    STEP_ROWS = 5000,
    MANIFEST_ROWS = 20000,
    SETTLE_ROWS = 100,
    FOLD_ROWS = 10000,
    NEXT_STEP_MS = 200,
    SETTLE_MS = 15000,
    FAILURES_MAX = 16
};

// Of a round, each as often as there is something left to do in it.
enum sweeper_step { STEP_NONE, STEP_HISTORY, STEP_TOKENS, STEP_TOMBSTONES, STEP_MANIFESTS };

struct sweeper {
    struct sweeper_options options;
    uv_timer_t *timer;
    bool busy;
    enum sweeper_step step;
    size_t kind;                     // of history
    struct report_sweep_place place; // among the manifests
    unsigned failures;               // there, in this round
    uint64_t due_in_ms;              // until the next round
    struct metric *removed, *dropped, *settled;
    struct metric_family *history, *failed;
};

static void on_timer(uv_timer_t *timer);

// False: the pool is closing, and nothing goes on.
static bool goes_on(struct sweeper *sweeper, const struct error *err, const char *step)
{
    if (err && err->code == ERROR_CANCELLED) {
        sweeper->busy = false;
        return false;
    }
    if (err) {
        metric_add(metric_with(sweeper->failed, step), 1);
        log_warn("sweeper", "step_failed", log_c("step", step), log_err(err));
    }
    return true;
}

static void step_later(struct sweeper *sweeper)
{
    sweeper->busy = false;
    uv_timer_start(sweeper->timer, on_timer, NEXT_STEP_MS, 0);
}

static void wait(struct sweeper *sweeper, bool is_round_over)
{
    sweeper->busy = false;
    if (is_round_over) sweeper->due_in_ms = sweeper->options.interval_ms;
    uint64_t ms = sweeper->due_in_ms < SETTLE_MS ? sweeper->due_in_ms : SETTLE_MS;
    sweeper->due_in_ms -= ms;
    uv_timer_start(sweeper->timer, on_timer, ms, 0);
}

// ---- a round -------------------------------------------------------------------------------------------------------

static void on_swept(void *arg, const struct error *err, uint64_t count, const struct report_sweep_place *next)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "manifests")) return;
    metric_add(sweeper->removed, count);
    if (err) // what cannot be done now is left out, so that the rest gets its turn
        sweeper->place.slice++;
    else if (next)
        sweeper->place = *next;
    if (next || (err && sweeper->failures++ < FAILURES_MAX)) {
        step_later(sweeper);
        return;
    }
    sweeper->step = STEP_NONE;
    wait(sweeper, true);
}

static void on_tombstones(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "tombstones")) return;
    metric_add(sweeper->removed, count);
    if (err || count < STEP_ROWS) {
        sweeper->step = STEP_MANIFESTS;
        sweeper->place = (struct report_sweep_place){0};
        sweeper->failures = 0;
    }
    step_later(sweeper);
}

static void on_tokens(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "runtime_tokens")) return;
    metric_add(sweeper->removed, count);
    if (err || count < STEP_ROWS) sweeper->step = STEP_TOMBSTONES;
    step_later(sweeper);
}

static void on_history(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    const char *kind = deployment_store_kinds[sweeper->kind];
    if (!goes_on(sweeper, err, kind)) return;
    if (strcmp(kind, "kept_deployments") != 0) metric_add(metric_with(sweeper->history, kind), count);
    if ((err || count < STEP_ROWS) && !deployment_store_kinds[++sweeper->kind]) sweeper->step = STEP_TOKENS;
    step_later(sweeper);
}

static void on_months(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "months")) return;
    if (!err) metric_add(sweeper->dropped, count);
    sweeper->step = STEP_HISTORY;
    sweeper->kind = 0;
    step_later(sweeper);
}

static void on_partitions(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "partitions")) return;
    if (!err) metric_add(sweeper->dropped, count);
    deployment_store_partitions(sweeper->options.pg, on_months, sweeper);
}

static void on_folded(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "usage")) return;
    if (!err && count >= FOLD_ROWS) {
        step_later(sweeper);
        return;
    }
    if (sweeper->due_in_ms > 0) {
        wait(sweeper, false);
        return;
    }
    cloud_event_store_partitions(sweeper->options.pg, sweeper->options.events_keep_days, on_partitions, sweeper);
}

static void on_settled(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "settle")) return;
    if (!err) metric_add(sweeper->settled, count);
    storage_usage_store_fold(sweeper->options.pg, FOLD_ROWS, on_folded, sweeper);
}

static void on_timer(uv_timer_t *timer)
{
    struct sweeper *sweeper = timer->data;
    if (sweeper->busy) return;
    sweeper->busy = true;
    struct pg *pg = sweeper->options.pg;
    switch (sweeper->step) {
    case STEP_HISTORY:
        deployment_store_sweep(pg, deployment_store_kinds[sweeper->kind], sweeper->options.history_keep_days, STEP_ROWS,
                               on_history, sweeper);
        break;
    case STEP_TOKENS: runtime_token_store_sweep(pg, STEP_ROWS, on_tokens, sweeper); break;
    case STEP_TOMBSTONES: report_store_sweep_tombstones(pg, STEP_ROWS, on_tombstones, sweeper); break;
    case STEP_MANIFESTS: report_store_sweep(pg, MANIFEST_ROWS, &sweeper->place, on_swept, sweeper); break;
    case STEP_NONE: deployment_store_settle(pg, SETTLE_ROWS, on_settled, sweeper); break;
    }
}

// ---- life ----------------------------------------------------------------------------------------------------------

struct sweeper *sweeper_create(struct loop *loop, const struct sweeper_options *options)
{
    struct sweeper *sweeper = mem_zalloc(sizeof *sweeper);
    sweeper->options = *options;
    sweeper->removed = metric_with(
        metrics_counter("culvert_swept_rows_total", "Unused manifests and old tombstones that were removed.", NULL));
    sweeper->dropped = metric_with(metrics_counter(
        "culvert_dropped_partitions_total", "Expired partitions of events and history that were dropped.", NULL));
    sweeper->settled = metric_with(metrics_counter("culvert_settled_deployments_total",
                                                   "Deployments whose manifests were recorded a second time.", NULL));
    sweeper->history =
        metrics_counter("culvert_swept_history_rows_total", "Expired rows of history that were removed.", "kind", NULL);
    sweeper->failed =
        metrics_counter("culvert_sweep_failures_total", "Steps of housekeeping that failed.", "step", NULL);
    sweeper->timer = mem_zalloc(sizeof *sweeper->timer);
    sweeper->timer->data = sweeper;
    uv_timer_init(loop_uv(loop), sweeper->timer);
    // At once: a platform that stood still for weeks lacks the partitions of today.
    uv_timer_start(sweeper->timer, on_timer, 0, 0);
    return sweeper;
}

static void free_timer(uv_handle_t *timer)
{
    mem_free(timer);
}

void sweeper_destroy(struct sweeper *sweeper)
{
    if (!sweeper) return;
    uv_close((uv_handle_t *)sweeper->timer, free_timer);
    mem_free(sweeper);
}
