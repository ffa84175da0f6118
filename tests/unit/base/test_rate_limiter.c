// rate_limiter: a name gets its rate and its burst, a debt is worked off, and other names get it no
// more.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rate_limiter.h"

enum { RATE = 5, BURST_SECONDS = 10, BURST = RATE * BURST_SECONDS, OTHERS = 200000 };

static unsigned taken(struct rate_limiter *limiter, const char *name, unsigned tries, uint64_t now_ms)
{
    unsigned count = 0;
    for (unsigned i = 0; i < tries; i++)
        count += rate_limiter_take(limiter, str_c(name), now_ms) == 0;
    return count;
}

static void rate_and_burst(void **state)
{
    (void)state;
    struct rate_limiter *limiter = rate_limiter_create(RATE, BURST_SECONDS);
    uint64_t now_ms = 1000;
    assert_int_equal(taken(limiter, "a", 2 * BURST, now_ms), BURST);
    assert_int_equal(rate_limiter_take(limiter, STR("a"), now_ms), 200);
    assert_int_equal(taken(limiter, "b", 2 * BURST, now_ms), BURST);
    assert_int_equal(taken(limiter, "a", 10, now_ms + 199), 0);
    assert_int_equal(rate_limiter_take(limiter, STR("a"), now_ms + 199), 1);
    assert_int_equal(taken(limiter, "a", 10, now_ms + 200), 1);
    // The clock of another thread, a little behind.
    assert_int_equal(taken(limiter, "a", 10, now_ms + 100), 0);
    assert_int_equal(taken(limiter, "a", 2 * BURST, now_ms + 1200), RATE);
    assert_int_equal(taken(limiter, "a", 2 * BURST, now_ms + 3600 * 1000), BURST);
    rate_limiter_destroy(limiter);
}

static void a_debt_is_worked_off(void **state)
{
    (void)state;
    struct rate_limiter *limiter = rate_limiter_create(RATE, BURST_SECONDS);
    uint64_t now_ms = 1000;
    assert_int_equal(taken(limiter, "a", 1, now_ms), 1);
    rate_limiter_charge(limiter, STR("a"), BURST - 2, now_ms);
    assert_int_equal(taken(limiter, "a", 3, now_ms), 1);
    rate_limiter_charge(limiter, STR("a"), 5, now_ms);
    assert_int_equal(rate_limiter_take(limiter, STR("a"), now_ms), 1200);
    rate_limiter_charge(limiter, STR("a"), UINT64_MAX, now_ms); // no deeper than ten seconds
    assert_int_equal(rate_limiter_take(limiter, STR("a"), now_ms), 10200);
    rate_limiter_charge(limiter, STR("a"), 1, now_ms);
    assert_int_equal(rate_limiter_take(limiter, STR("a"), now_ms), 10200);
    assert_int_equal(taken(limiter, "a", 10, now_ms + 10200), 1);
    rate_limiter_destroy(limiter);
}

// T26 of the threats: names that come and go, far more than there are buckets, do not give a name
// its burst again.
static void nothing_is_flushed(void **state)
{
    (void)state;
    struct rate_limiter *limiter = rate_limiter_create(RATE, BURST_SECONDS);
    char name[32];
    uint64_t now_ms = 1000;
    assert_int_equal(taken(limiter, "victim", BURST, now_ms), BURST);
    for (unsigned i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof name, "%u", i);
        taken(limiter, name, 1, now_ms);
    }
    assert_int_equal(taken(limiter, "victim", BURST, now_ms), 0);
    assert_in_range(taken(limiter, "victim", 2 * BURST, now_ms + 1000), 0, RATE);
    rate_limiter_destroy(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_and_burst),
        cmocka_unit_test(a_debt_is_worked_off),
        cmocka_unit_test(nothing_is_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
