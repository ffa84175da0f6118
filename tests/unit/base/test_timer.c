// timer: closes itself, so that its owner may go at once; and runs on a clock that a test advances.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/loop/timer.h"
#include "base/mem.h"

struct owner {
    struct timer timer, other;
    unsigned runs, *out_runs;
};

static void on_due(void *arg)
{
    struct owner *owner = arg;
    owner->runs++;
    if (owner->runs == 3) timer_stop(&owner->timer);
}

static void on_due_free(void *arg)
{
    struct owner *owner = arg;
    ++*owner->out_runs;
    timer_finish(&owner->timer);
    timer_finish(&owner->other);
    mem_free(owner);
}

static void test_on_libuv(void **state)
{
    (void)state;
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct owner owner = {0};
    timer_stop(&owner.timer); // zeroed: finished
    timer_finish(&owner.timer);
    assert_false(timer_is_active(&owner.timer));
    timer_init(&owner.timer, &loop, on_due, &owner);
    assert_false(timer_is_active(&owner.timer));
    timer_start(&owner.timer, 0, 1);
    assert_true(timer_is_active(&owner.timer));
    uv_run(&loop, UV_RUN_DEFAULT); // until it stops itself
    assert_int_equal(owner.runs, 3);
    assert_false(timer_is_active(&owner.timer));
    assert_int_equal(timer_now_ms(&loop), uv_now(&loop));
    timer_start(&owner.timer, 1000000, 0);
    timer_finish(&owner.timer);
    timer_finish(&owner.timer); // a second time is fine
    owner = (struct owner){0};  // and its memory another's
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(owner.runs, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void run_freed(uv_loop_t *loop, unsigned *runs)
{
    struct owner *owner = mem_zalloc(sizeof *owner);
    owner->out_runs = runs;
    timer_init(&owner->timer, loop, on_due_free, owner);
    timer_init(&owner->other, loop, on_due_free, owner);
    timer_start(&owner->timer, 1, 5);
    timer_start(&owner->other, 2, 5);
}

static void test_owner_freed_in_callback(void **state)
{
    (void)state;
    uv_loop_t loop;
    unsigned runs = 0;
    uv_loop_init(&loop);
    run_freed(&loop, &runs);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(runs, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_simulated(void **state)
{
    (void)state;
    uv_loop_t loop;
    uv_loop_init(&loop);
    clock_simulate(5000 * 1000, 1767225600000);
    assert_int_equal(clock_mono_ms(), 5000);
    assert_int_equal(clock_wall_ms(), 1767225600000);
    struct owner late = {0}, early = {0};
    timer_init(&late.timer, &loop, on_due, &late);
    timer_init(&early.timer, &loop, on_due, &early);
    timer_start(&late.timer, 3600000, 0);
    timer_start(&early.timer, 10, 20);
    assert_false(timer_simulate(5005)); // none yet: the clock goes as far as it may
    assert_int_equal(clock_mono_ms(), 5005);
    assert_true(timer_simulate(5100));
    assert_int_equal(timer_now_ms(&loop), 5010);
    assert_int_equal(early.runs, 1);
    assert_true(timer_is_active(&early.timer));
    timer_set_interval(&early.timer, 50); // counts from the next time on
    assert_true(timer_simulate(5100));
    assert_int_equal(clock_mono_ms(), 5030);
    assert_true(timer_simulate(5100)); // the third: stops itself
    assert_int_equal(clock_mono_ms(), 5080);
    assert_false(timer_simulate(5100));
    assert_true(timer_simulate(UINT32_MAX));
    assert_int_equal(late.runs, 1);
    assert_int_equal(clock_mono_ms(), 3605000);
    assert_int_equal(clock_wall_ms(), 1767225600000 + 3600000);
    timer_finish(&late.timer);
    timer_finish(&early.timer);
    unsigned runs = 0;
    run_freed(&loop, &runs);
    while (timer_simulate(4000000))
        ;
    assert_int_equal(runs, 1);
    clock_simulate_end();
    assert_true(clock_wall_ms() > 1767225600000 + 3600000);
    assert_int_equal(uv_loop_close(&loop), 0); // no handle was made
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on_libuv),
        cmocka_unit_test(test_owner_freed_in_callback),
        cmocka_unit_test(test_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
