// schedule: the chance and the time of one simulated run. Everything that happens by chance comes
// from one seed, also what the programs under test draw (id_random), and time is the simulated
// clock's, so that a seed always gives the same run. One thread.
#ifndef CULVERT_TESTS_SIM_SCHEDULE_H
#define CULVERT_TESTS_SIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop/timer.h"

// Begins a run: the clock stands at its start, and all that is drawn from here on follows from the
// seed.
void schedule_begin(uint64_t seed);

uint64_t schedule_below(uint64_t bound); // 0 to bound - 1
static inline bool schedule_percent(unsigned percent)
{
    return schedule_below(100) < percent;
}
// For most of the time a few, sometimes many: min to max.
uint64_t schedule_spread(uint64_t min, uint64_t max);

// Runs once, after_ms from now. Frees itself; schedule_end() drops those that have not run.
void schedule_after(uint64_t after_ms, timer_fn fn, void *arg);
void schedule_forget(void *arg); // those with this arg will not run
void schedule_end(void);

// Lets the simulated clock go on by so much.
void schedule_run_ms(uint64_t ms);

#endif
