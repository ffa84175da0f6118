// sweeper: which steps run when and in which order, which again, and what a failure does to the others.
#include "server/chores/sweeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/loop/timer.h"

enum { ROUND_MS = 40000, BEGIN_MS = 1000 };

static struct {
    char trace[512]; // "name@milliseconds "
    unsigned many_left;
    enum error_code failure;
} bench;

static void trace(const char *name)
{
    size_t len = strlen(bench.trace);
    snprintf(bench.trace + len, sizeof bench.trace - len, "%s@%llu ", name,
             (unsigned long long)clock_mono_ms() - BEGIN_MS);
    assert_true(strlen(bench.trace) < sizeof bench.trace - 1);
}

static void step_once(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep, store_count_done on_done,
                      void *arg)
{
    (void)pg;
    assert_int_equal(keep->events_days, 7);
    assert_int_equal(keep->history_days, 8);
    trace(sweep->name);
    on_done(arg, NULL, 1000); // not by rows, so that no number asks for another step
}

static void step_many(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep, store_count_done on_done,
                      void *arg)
{
    (void)pg, (void)keep;
    trace(sweep->name);
    uint64_t rows = bench.many_left ? sweep->rows : sweep->rows - 1;
    if (bench.many_left) bench.many_left--;
    on_done(arg, NULL, rows);
}

static void step_failing(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                         store_count_done on_done, void *arg)
{
    (void)pg, (void)keep;
    struct error err;
    trace(sweep->name);
    error_set(&err, bench.failure, "fails");
    on_done(arg, &err, 0);
}

// Two places, then the end.
static void walk(struct pg *pg, unsigned rows, const struct sweep_place *place, sweep_walked on_done, void *arg)
{
    (void)pg;
    char name[16];
    assert_int_equal(rows, 9);
    snprintf(name, sizeof name, "walk%u", place->slice);
    trace(name);
    struct sweep_place next = {.slice = place->slice + 1};
    on_done(arg, NULL, rows, place->slice < 1 ? &next : NULL);
}

// clang-format off
static const struct sweep sweeps[] = {
    {"many", SWEEP_ROUND, SWEEP_COUNTS_ROWS, .rows = 5, .step = step_many},
    {"often", SWEEP_OFTEN, SWEEP_COUNTS_NOTHING, .step = step_once},
    {"failing", SWEEP_ROUND, SWEEP_COUNTS_ROWS, .rows = 5, .step = step_failing},
    {"walk", SWEEP_ROUND, SWEEP_COUNTS_ROWS, .rows = 9, .walk = walk},
    {"first", SWEEP_FIRST, SWEEP_COUNTS_PARTITIONS, .step = step_once},
};
// clang-format on

static void run_for(uint64_t ms, const char *expected)
{
    memset(bench.trace, 0, sizeof bench.trace);
    clock_simulate(BEGIN_MS * 1000, 1767225600000);
    struct loop *loop = loop_create("test", 0);
    struct sweeper *sweeper = sweeper_create(loop, &(struct sweeper_options){
                                                       .interval_ms = ROUND_MS,
                                                       .sweeps = sweeps,
                                                       .sweep_count = sizeof sweeps / sizeof *sweeps,
                                                       .keep = {.events_days = 7, .history_days = 8},
                                                   });
    while (timer_simulate(BEGIN_MS + ms))
        continue;
    assert_string_equal(bench.trace, expected);
    sweeper_destroy(sweeper);
    loop_destroy(loop);
    clock_simulate_end();
}

static void test_order(void **state)
{
    (void)state;
    bench.many_left = 2;
    bench.failure = ERROR_UNAVAILABLE;
    run_for(41250, "often@0 first@0 many@0 many@200 many@400 failing@600 walk0@800 walk1@1000 "
                   "often@16000 often@31000 "
                   "often@41000 first@41000 many@41000 failing@41200 ");
}

static void test_a_cancelled_step_ends_it(void **state)
{
    (void)state;
    bench.many_left = 0;
    bench.failure = ERROR_CANCELLED;
    run_for(100000, "often@0 first@0 many@0 failing@200 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_a_cancelled_step_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
