#include "base/loop/timer.h"

#include <assert.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/mem.h"

// The active timers of a simulation: a thread has one, for all its loops.
static __thread struct timer *simulated_first;

// ---- on the simulated clock ---------------------------------------------------------------------

static void simulated_remove(struct timer *timer)
{
    if (!timer->link) return;
    *timer->link = timer->next;
    if (timer->next) timer->next->link = timer->link;
    timer->next = NULL;
    timer->link = NULL;
}

// Behind those that are due at the same time.
static void simulated_insert(struct timer *timer, uint64_t due_ms)
{
    assert(!timer->link);
    struct timer **link = &simulated_first;
    while (*link && (*link)->due_ms <= due_ms)
        link = &(*link)->next;
    timer->due_ms = due_ms;
    timer->next = *link;
    timer->link = link;
    if (timer->next) timer->next->link = &timer->next;
    *link = timer;
}

static void simulated_advance(uint64_t to_ms)
{
    uint64_t now_us = clock_mono_us();
    if (to_ms * 1000 > now_us) clock_advance_us(to_ms * 1000 - now_us);
}

bool timer_simulate(uint64_t until_ms)
{
    assert(clock_is_simulated());
    struct timer *timer = simulated_first;
    if (!timer || timer->due_ms > until_ms) {
        simulated_advance(until_ms);
        return false;
    }
    simulated_advance(timer->due_ms);
    simulated_remove(timer);
    if (timer->interval_ms) simulated_insert(timer, clock_mono_ms() + timer->interval_ms);
    timer->on_due(timer->arg);
    return true;
}

// ---- on libuv's ---------------------------------------------------------------------------------

static void on_handle_due(uv_timer_t *handle)
{
    struct timer *timer = handle->data;
    timer->on_due(timer->arg);
}

static void on_handle_closed(uv_handle_t *handle)
{
    mem_free(handle);
}

void timer_init(struct timer *timer, uv_loop_t *loop, timer_fn on_due, void *arg)
{
    *timer = (struct timer){.on_due = on_due, .arg = arg, .is_simulated = clock_is_simulated()};
    if (timer->is_simulated) return;
    timer->handle = mem_zalloc(sizeof *timer->handle);
    uv_timer_init(loop, timer->handle);
    timer->handle->data = timer;
}

void timer_start(struct timer *timer, uint64_t after_ms, uint64_t interval_ms)
{
    assert(timer_is_open(timer));
    timer->interval_ms = interval_ms;
    if (timer->is_simulated) {
        simulated_remove(timer);
        simulated_insert(timer, clock_mono_ms() + after_ms);
    } else {
        uv_timer_start(timer->handle, on_handle_due, after_ms, interval_ms);
    }
}

void timer_set_interval(struct timer *timer, uint64_t interval_ms)
{
    timer->interval_ms = interval_ms;
    if (timer->handle) uv_timer_set_repeat(timer->handle, interval_ms);
}

void timer_stop(struct timer *timer)
{
    simulated_remove(timer);
    if (timer->handle) uv_timer_stop(timer->handle);
}

bool timer_is_active(const struct timer *timer)
{
    if (timer->is_simulated) return timer->link != NULL;
    return timer->handle && uv_is_active((const uv_handle_t *)timer->handle);
}

bool timer_is_open(const struct timer *timer)
{
    return timer->handle || timer->is_simulated;
}

void timer_finish(struct timer *timer)
{
    simulated_remove(timer);
    timer->is_simulated = false;
    if (!timer->handle) return;
    uv_close((uv_handle_t *)timer->handle, on_handle_closed);
    timer->handle = NULL;
}

uint64_t timer_now_ms(const uv_loop_t *loop)
{
    return clock_is_simulated() ? clock_mono_ms() : uv_now(loop);
}
