// timer: one timeout or interval of a loop, a value inside its owner. timer_finish() closes it, and
// its owner may be freed at once, also inside the timer's own callback: libuv's handle has memory
// of its own, which goes when libuv has closed it. A zeroed timer is one that is finished. With a
// simulated clock (base/clock.h) a timer has no libuv handle: timer_simulate() runs what is due. On
// its loop's thread.
//
//   finished --init--> stopped --start--> active --due, interval 0--> stopped
//                         ^----------stop---'
#ifndef CULVERT_BASE_LOOP_TIMER_H
#define CULVERT_BASE_LOOP_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

typedef void (*timer_fn)(void *arg);

struct timer {
    uv_timer_t *handle; // NULL: finished, or the clock is simulated
    timer_fn on_due;
    void *arg;
    uint64_t interval_ms;
    // Of a simulated timer: its place among those that are active, by the time they are due.
    bool is_simulated;
    uint64_t due_ms;
    struct timer *next, **link; // link NULL: stopped
};

void timer_init(struct timer *timer, uv_loop_t *loop, timer_fn on_due, void *arg);
// Due after_ms from now, then every interval_ms (0: once). One that is active starts anew.
void timer_start(struct timer *timer, uint64_t after_ms, uint64_t interval_ms);
// The interval from the next time on that it is due.
void timer_set_interval(struct timer *timer, uint64_t interval_ms);
void timer_stop(struct timer *timer); // a finished one, too
bool timer_is_active(const struct timer *timer);
bool timer_is_open(const struct timer *timer); // initialized, and not finished
void timer_finish(struct timer *timer);        // a finished one, too

// The loop's time, monotonic: when its current turn began, or the simulated clock's.
uint64_t timer_now_ms(const uv_loop_t *loop);

// With a simulated clock: advances it to when the next timer of this thread is due, but not beyond
// until_ms, and runs that timer. False: none was due by then, and the clock stands at until_ms (or
// is past it already).
bool timer_simulate(uint64_t until_ms);

#endif
