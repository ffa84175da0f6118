// sweeper: which steps run in which order, which again, and what a failure does to the others.
#include "server/chores/sweeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ROUND_MS = 1000 };

static struct {
    struct loop *loop;
    struct sweeper *sweeper;
    char trace[512];
    const char *until; // the trace that ends the test
    unsigned many_left, failing_left;
} bench;

static void trace(const char *name)
{
    size_t len = strlen(bench.trace);
    snprintf(bench.trace + len, sizeof bench.trace - len, "%s ", name);
    if (strcmp(bench.trace, bench.until) == 0) loop_stop(bench.loop);
    if (strlen(bench.trace) > strlen(bench.until)) fail_msg("%s\nnot %s", bench.trace, bench.until);
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
    error_set(&err, bench.failing_left ? ERROR_UNAVAILABLE : ERROR_CANCELLED, "fails");
    if (bench.failing_left) bench.failing_left--;
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

static void run_until(const char *until)
{
    memset(bench.trace, 0, sizeof bench.trace);
    bench.until = until;
    bench.loop = loop_create("test", 0);
    bench.sweeper = sweeper_create(bench.loop, &(struct sweeper_options){
                                                   .interval_ms = ROUND_MS,
                                                   .sweeps = sweeps,
                                                   .sweep_count = sizeof sweeps / sizeof *sweeps,
                                                   .keep = {.events_days = 7, .history_days = 8},
                                               });
    loop_run(bench.loop);
    assert_string_equal(bench.trace, until);
    sweeper_destroy(bench.sweeper);
    loop_stop(bench.loop);
    loop_run(bench.loop);
    loop_destroy(bench.loop);
}

static void test_order(void **state)
{
    (void)state;
    bench.many_left = 2;
    bench.failing_left = 1;
    run_until("often first many many many failing walk0 walk1 often ");
}

static void test_a_cancelled_step_ends_it(void **state)
{
    (void)state;
    bench.many_left = bench.failing_left = 0;
    run_until("often first many failing ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_a_cancelled_step_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
