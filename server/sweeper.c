#include "server/sweeper.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/cloud_event_store.h"
#include "storage/report_store.h"

enum { STEP_ROWS = 5000, NEXT_STEP_MS = 200 };

struct sweeper {
    struct sweeper_options options;
    uv_timer_t *timer;
    bool busy;
    struct metric *removed, *dropped;
};

static void on_timer(uv_timer_t *timer);

static void on_swept(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    sweeper->busy = false;
    if (err && err->code == ERROR_CANCELLED) return;
    if (err) log_warn("sweeper", "sweep_failed", log_err(err));
    if (!err) metric_add(sweeper->removed, count);
    // A full step means that more is waiting.
    bool more = !err && count >= STEP_ROWS;
    uv_timer_start(sweeper->timer, on_timer, more ? NEXT_STEP_MS : sweeper->options.interval_ms, 0);
}

static void on_partitions(void *arg, const struct error *err, uint64_t count)
{
    struct sweeper *sweeper = arg;
    if (err && err->code == ERROR_CANCELLED) {
        sweeper->busy = false;
        return;
    }
    if (err) log_warn("sweeper", "partitions_failed", log_err(err));
    if (!err) metric_add(sweeper->dropped, count);
    report_store_sweep(sweeper->options.pg, STEP_ROWS, on_swept, sweeper);
}

static void on_timer(uv_timer_t *timer)
{
    struct sweeper *sweeper = timer->data;
    if (sweeper->busy) return;
    sweeper->busy = true;
    cloud_event_store_partitions(sweeper->options.pg, sweeper->options.events_keep_days, on_partitions, sweeper);
}

struct sweeper *sweeper_create(struct loop *loop, const struct sweeper_options *options)
{
    struct sweeper *sweeper = mem_zalloc(sizeof *sweeper);
    sweeper->options = *options;
    sweeper->removed = metric_with(
        metrics_counter("culvert_swept_rows_total", "Unused manifests and old tombstones that were removed.", NULL));
    sweeper->dropped = metric_with(
        metrics_counter("culvert_dropped_partitions_total", "Partitions of events whose time was over.", NULL));
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
