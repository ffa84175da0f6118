#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>

#include "agent/tunnel/redial.h"

enum { TRIES = 2000 };

static void test_full_jitter(void **state)
{
    (void)state;
    static const uint64_t caps[] = {500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000};
    uint64_t most[9] = {0}, least[9];
    for (int n = 0; n < 9; n++)
        least[n] = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        struct redial redial;
        redial_init(&redial);
        for (int n = 0; n < 9; n++) {
            uint64_t wait = redial_after_failure(&redial, 0, -1);
            assert_true(wait <= caps[n]);
            most[n] = wait > most[n] ? wait : most[n];
            least[n] = wait < least[n] ? wait : least[n];
        }
    }
    for (int n = 0; n < 9; n++) { // all of the span is used
        assert_true(most[n] > caps[n] * 9 / 10);
        assert_true(least[n] < caps[n] / 10);
    }
}

static void test_refused_tokens_back_off_to_five_minutes(void **state)
{
    (void)state;
    struct redial redial;
    redial_init(&redial);
    uint64_t most = 0;
    for (int i = 0; i < TRIES; i++) {
        uint64_t wait = redial_after_failure(&redial, i % 2 ? 401 : 403, -1);
        assert_in_range(wait, 2500, 5 * 60 * 1000);
        most = wait > most ? wait : most;
    }
    assert_true(most > 4 * 60 * 1000);
    assert_true(redial_after_failure(&redial, 0, -1) <= 500); // other failures count apart
}

static void test_retry_after_is_obeyed(void **state)
{
    (void)state;
    struct redial redial;
    redial_init(&redial);
    for (int i = 0; i < TRIES; i++) {
        assert_in_range(redial_after_failure(&redial, 503, 8000), 8000, 12500);
        assert_in_range(redial_after_failure(&redial, 429, 0), 0, 500);
        assert_true(redial_after_failure(&redial, 503, INT64_MAX) <= 2 * (uint64_t)REDIAL_RETRY_AFTER_MS_MAX);
    }
    assert_true(redial_after_failure(&redial, 503, -1) <= 500); // not said: the first of the usual waits
}

static void test_good_life_forgets(void **state)
{
    (void)state;
    struct redial redial;
    redial_init(&redial);
    for (int i = 0; i < 20; i++)
        (void)redial_after_failure(&redial, 0, -1);
    redial_lived(&redial, REDIAL_GOOD_LIFE_MS - 1);
    uint64_t most = 0;
    for (int i = 0; i < 100; i++) {
        struct redial copy = redial;
        uint64_t wait = redial_after_failure(&copy, 0, -1);
        most = wait > most ? wait : most;
    }
    assert_true(most > 10000);
    redial_lived(&redial, REDIAL_GOOD_LIFE_MS);
    assert_true(redial_after_failure(&redial, 0, -1) <= 500);
}

static void test_drain_spreads(void **state)
{
    (void)state;
    assert_int_equal(redial_after_drain(0), 0);
    uint64_t most = 0;
    for (int i = 0; i < TRIES; i++) {
        uint64_t wait = redial_after_drain(10000);
        assert_true(wait <= 10000);
        most = wait > most ? wait : most;
        assert_true(redial_after_drain(UINT64_MAX) <= REDIAL_SPREAD_MS_MAX);
    }
    assert_true(most > 9000);
}

static void test_take_over_is_not_answered_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < TRIES; i++)
        assert_in_range(redial_after_takeover(), 5000, 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_jitter),           cmocka_unit_test(test_refused_tokens_back_off_to_five_minutes),
        cmocka_unit_test(test_retry_after_is_obeyed), cmocka_unit_test(test_good_life_forgets),
        cmocka_unit_test(test_drain_spreads),         cmocka_unit_test(test_take_over_is_not_answered_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
