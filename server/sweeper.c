#include "server/sweeper.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/report_store.h"

enum { STEP_ROWS = 5000, NEXT_STEP_MS = 200 };

struct sweeper {
    struct pg *pg;
    uv_timer_t *timer;
    uint64_t interval_ms;
    bool busy;
    struct metric *removed;
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
    uv_timer_start(sweeper->timer, on_timer, more ? NEXT_STEP_MS : sweeper->interval_ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct sweeper *sweeper = timer->data;
    if (sweeper->busy) return;
    sweeper->busy = true;
    report_store_sweep(sweeper->pg, STEP_ROWS, on_swept, sweeper);
}

struct sweeper *sweeper_create(struct loop *loop, struct pg *pg, uint64_t interval_ms)
{
    struct sweeper *sweeper = mem_zalloc(sizeof *sweeper);
    sweeper->pg = pg;
    sweeper->interval_ms = interval_ms;
    sweeper->removed = metric_with(
        metrics_counter("culvert_swept_rows_total", "Unused manifests and old tombstones that were removed.", NULL));
    sweeper->timer = mem_zalloc(sizeof *sweeper->timer);
    sweeper->timer->data = sweeper;
    uv_timer_init(loop_uv(loop), sweeper->timer);
    uv_timer_start(sweeper->timer, on_timer, interval_ms, 0);
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
