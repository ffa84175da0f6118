#include "server/sweeper.h"

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/cloud_event_store.h"
#include "storage/deployment_store.h"
#include "storage/report_store.h"

// A step is one short transaction. Deployments are looked at again soon after they were made, the rest in rounds.
enum { STEP_ROWS = 5000, SETTLE_ROWS = 100, NEXT_STEP_MS = 200, SETTLE_MS = 15000 };

struct sweeper {
    struct sweeper_options options;
    uv_timer_t *timer;
    bool busy;
    bool has_more;      // a step of this round was full
    bool is_sweeping;   // manifests, slice by slice
    unsigned slice;     // the one that is next
    uint64_t due_in_ms; // until the next round
    struct metric *removed, *dropped, *settled;
    struct metric_family *history;
};

static void on_timer(uv_timer_t *timer);

// False: the pool is closing, and nothing goes on.
static bool goes_on(struct sweeper *sweeper, const struct error *err, const char *event)
{
    if (err && err->code == ERROR_CANCELLED) {
        sweeper->busy = false;
        return false;
    }
    if (err) log_warn("sweeper", event, log_err(err));
    return true;
}

static void wait(struct sweeper *sweeper, bool is_round_over)
{
    sweeper->busy = false;
    if (is_round_over) sweeper->due_in_ms = sweeper->has_more ? NEXT_STEP_MS : sweeper->options.interval_ms;
    uint64_t ms = sweeper->due_in_ms < SETTLE_MS ? sweeper->due_in_ms : SETTLE_MS;
    sweeper->due_in_ms -= ms;
    uv_timer_start(sweeper->timer, on_timer, ms, 0);
}

// ---- a round -------------------------------------------------------------------------------------------------------

static void on_swept(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "sweep_failed")) return;
    if (!err) metric_add(sweeper->removed, count);
    if (err || count < STEP_ROWS) sweeper->slice = (sweeper->slice + 1) % REPORT_SWEEP_SLICES;
    if (sweeper->slice || (!err && count >= STEP_ROWS)) {
        sweeper->busy = false;
        uv_timer_start(sweeper->timer, on_timer, NEXT_STEP_MS, 0);
        return;
    }
    sweeper->is_sweeping = false;
    wait(sweeper, true);
}

static void sweep_slice(struct sweeper *sweeper)
{
    report_store_sweep(sweeper->options.pg, STEP_ROWS, sweeper->slice, on_swept, sweeper);
}

static void on_history(void *arg, const struct error *err, struct str node)
{
    struct sweeper *sweeper = arg;
    json_t *counts = NULL;
    if (!goes_on(sweeper, err, "history_sweep_failed")) return;
    if (!err && node.len && json_decode(node, NULL, &counts, NULL) == ERROR_NONE) {
        const char *kind;
        json_t *count;
        json_object_foreach(counts, kind, count)
        {
            metric_add(metric_with(sweeper->history, kind), (uint64_t)json_integer_value(count));
            if (json_integer_value(count) >= STEP_ROWS) sweeper->has_more = true;
        }
        json_decref(counts);
    }
    sweeper->is_sweeping = true;
    sweep_slice(sweeper);
}

static void on_months(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "months_failed")) return;
    if (!err) metric_add(sweeper->dropped, count);
    deployment_store_sweep(sweeper->options.pg, sweeper->options.history_keep_days, STEP_ROWS, on_history, sweeper);
}

static void on_partitions(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "partitions_failed")) return;
    if (!err) metric_add(sweeper->dropped, count);
    deployment_store_partitions(sweeper->options.pg, on_months, sweeper);
}

static void on_settled(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (!goes_on(sweeper, err, "settle_failed")) return;
    if (!err) metric_add(sweeper->settled, count);
    if (sweeper->due_in_ms > 0) {
        wait(sweeper, false);
        return;
    }
    sweeper->has_more = false;
    cloud_event_store_partitions(sweeper->options.pg, sweeper->options.events_keep_days, on_partitions, sweeper);
}

static void on_timer(uv_timer_t *timer)
{
    struct sweeper *sweeper = timer->data;
    if (sweeper->busy) return;
    sweeper->busy = true;
    if (sweeper->is_sweeping)
        sweep_slice(sweeper);
    else
        deployment_store_settle(sweeper->options.pg, SETTLE_ROWS, on_settled, sweeper);
}

// ---- life ----------------------------------------------------------------------------------------------------------

struct sweeper *sweeper_create(struct loop *loop, const struct sweeper_options *options)
{
    struct sweeper *sweeper = mem_zalloc(sizeof *sweeper);
    sweeper->options = *options;
    sweeper->removed = metric_with(
        metrics_counter("culvert_swept_rows_total", "Unused manifests and old tombstones that were removed.", NULL));
    sweeper->dropped = metric_with(metrics_counter("culvert_dropped_partitions_total",
                                                   "Partitions of events and history whose time was over.", NULL));
    sweeper->settled = metric_with(metrics_counter("culvert_settled_deployments_total",
                                                   "Deployments whose manifests were looked at again.", NULL));
    sweeper->history = metrics_counter("culvert_swept_history_rows_total",
                                       "Rows of history that their accounts keep no longer.", "kind", NULL);
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
