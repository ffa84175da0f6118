// The end of a worker: each step waits for the one before. What is done is up to its parts.
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "server/drain_settings.h"
#include "server/worker.h"
#include "server/worker_part.h"

enum { IDLE_POLL_MS = 20 };

struct worker_drain {
    struct worker *worker;
    uv_timer_t idle_poll;
    uint64_t deadline_ms, lame_duck_ms;
    unsigned draining;                     // parts that are
    unsigned listeners;                    // that are not closed yet
    const struct worker_part *const *part; // the one after the one that is closed next
    bool is_retired, is_late;
};

// ---- the parts' ends, the last one first --------------------------------------------------------

static void close_next(void *arg)
{
    struct worker_drain *drain = arg;
    struct worker *worker = drain->worker;
    while (drain->part != worker_parts) {
        const struct worker_part *part = *--drain->part;
        if (part->destroy) part->destroy(worker);
        if (!part->close) continue;
        part->close(worker, close_next, drain); // goes on from there
        return;
    }
    mem_free(drain);
    loop_stop(worker->loop);
}

static void on_listener_closed(void *arg)
{
    struct worker_drain *drain = arg;
    if (--drain->listeners > 0) return;
    for (drain->part = worker_parts; *drain->part; drain->part++)
        if ((*drain->part)->stop) (*drain->part)->stop(drain->worker);
    close_next(drain);
}

static void on_idle_poll_closed(uv_handle_t *handle)
{
    struct worker_drain *drain = handle->data;
    drain->listeners = 1;
    for (const struct worker_part *const *part = worker_parts; *part; part++) {
        if (!(*part)->close_listener) continue;
        drain->listeners++;
        (*part)->close_listener(drain->worker, on_listener_closed, drain);
    }
    on_listener_closed(drain);
}

// ---- until all are idle -------------------------------------------------------------------------

static bool is_idle(const struct worker *worker)
{
    for (const struct worker_part *const *part = worker_parts; *part; part++)
        if ((*part)->is_idle && !(*part)->is_idle(worker)) return false;
    return true;
}

static void on_idle_poll(uv_timer_t *timer)
{
    struct worker_drain *drain = timer->data;
    struct worker *worker = drain->worker;
    bool late = clock_mono_ms() >= drain->deadline_ms;
    if (!drain->draining && !drain->is_retired) {
        drain->is_retired = true;
        for (const struct worker_part *const *part = worker_parts; *part; part++)
            if ((*part)->retire) (*part)->retire(worker);
        if (!late) return; // what was sent to peers must leave
    }
    if (!late && !(!drain->draining && is_idle(worker))) return;
    if (late && !drain->is_late && !is_idle(worker)) log_warn("worker", "drain_deadline_passed");
    drain->is_late |= late;
    if (drain->draining) return; // the node keeps to the same deadline by itself
    uv_close((uv_handle_t *)timer, on_idle_poll_closed);
}

static void on_drained(void *arg)
{
    ((struct worker_drain *)arg)->draining--;
}

static void on_lame_duck_over(uv_timer_t *timer)
{
    struct worker_drain *drain = timer->data;
    struct worker *worker = drain->worker;
    const struct drain_settings *settings = drain_settings_of(worker->server->config);
    drain->deadline_ms = clock_mono_ms() + (uint64_t)settings->deadline_ms;
    for (const struct worker_part *const *part = worker_parts; *part; part++)
        if ((*part)->stop_accepting) (*part)->stop_accepting(worker);
    uv_timer_start(&drain->idle_poll, on_idle_poll, 0, IDLE_POLL_MS);
    for (const struct worker_part *const *part = worker_parts; *part; part++) {
        if (!(*part)->drain) continue;
        drain->draining++;
        (*part)->drain(worker, on_drained, drain);
    }
}

static void begin(void *arg)
{
    struct worker_drain *drain = arg;
    struct worker *worker = drain->worker;
    uv_timer_init(loop_uv(worker->loop), &drain->idle_poll);
    drain->idle_poll.data = drain;
    for (const struct worker_part *const *part = worker_parts; *part && drain->lame_duck_ms; part++)
        if ((*part)->wind_down) (*part)->wind_down(worker);
    uv_timer_start(&drain->idle_poll, on_lame_duck_over, drain->lame_duck_ms, 0);
}

void worker_drain(struct worker *worker, uint64_t lame_duck_ms)
{
    struct worker_drain *drain = mem_zalloc(sizeof *drain);
    drain->worker = worker;
    drain->lame_duck_ms = lame_duck_ms;
    loop_post(worker->loop, begin, drain);
}
