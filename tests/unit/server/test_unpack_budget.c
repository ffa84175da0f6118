// unpack_budget: what an account may unpack, and that accounts do not share it. Time is the test's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/intake/unpack_budget.h"

static void on_refill(void *ctx)
{
    (*(unsigned *)ctx)++;
}

static void close_all(struct loop *loop, struct unpack_budget *budget)
{
    unpack_budget_destroy(budget);
    loop_stop(loop);
    loop_run(loop);
    loop_destroy(loop);
}

static void a_burst_then_a_rate(void **state)
{
    (void)state;
    enum { RATE = 1000, FULL = RATE * UNPACK_BUDGET_BURST_SECONDS };
    struct loop *loop = loop_create("test", 0);
    unsigned refills = 0;
    struct unpack_budget *budget = unpack_budget_create(loop, RATE, on_refill, &refills);
    struct str one = STR("one"), two = STR("two");
    uint64_t now = 5000;
    unpack_budget_take(budget, one, FULL - 1, now);
    assert_true(unpack_budget_has_room(budget, one, now));
    unpack_budget_take(budget, one, 1 + FULL, now);
    assert_false(unpack_budget_has_room(budget, one, now));
    assert_true(unpack_budget_has_room(budget, two, now));
    // The debt is paid first, at the rate, however often it is looked at.
    for (uint64_t ms = 0; ms < 1000 * UNPACK_BUDGET_BURST_SECONDS; ms++)
        assert_false(unpack_budget_has_room(budget, one, now + ms));
    now += 1000 * UNPACK_BUDGET_BURST_SECONDS;
    assert_true(unpack_budget_has_room(budget, one, now + 1));
    // Nothing is saved up beyond the burst.
    now += 1000000;
    unpack_budget_take(budget, one, FULL, now);
    assert_false(unpack_budget_has_room(budget, one, now));
    unpack_budget_wait(budget);
    while (!refills)
        uv_run(loop_uv(loop), UV_RUN_NOWAIT);
    close_all(loop, budget);
}

static void without_a_bound(void **state)
{
    (void)state;
    struct loop *loop = loop_create("test", 0);
    unsigned refills = 0;
    struct unpack_budget *budget = unpack_budget_create(loop, 0, on_refill, &refills);
    unpack_budget_take(budget, STR("one"), UINT32_MAX, 1);
    assert_true(unpack_budget_has_room(budget, STR("one"), 1));
    close_all(loop, budget);
    unpack_budget_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_then_a_rate),
        cmocka_unit_test(without_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
