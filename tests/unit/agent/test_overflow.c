// When objects find no room: who is told, and when all is listed again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>

#include "agent/reports/overflow.h"

enum { RETRY_MS = 1000 };

static void test_room_for_all(void **state)
{
    (void)state;
    struct overflow overflow = {0};
    assert_true(overflow_is_over(&overflow, 0));
    assert_int_equal(overflow_look(&overflow, 0, false, 1, RETRY_MS), OVERFLOW_WAIT);
    assert_int_equal(overflow_look(&overflow, 0, true, 2, RETRY_MS), OVERFLOW_WAIT);
    assert_int_equal(overflow.since_ms, 0);
}

static void test_it_is_told_once_and_lists_are_read_again(void **state)
{
    (void)state;
    struct overflow overflow = {0};
    assert_false(overflow_is_over(&overflow, 3));
    assert_int_equal(overflow_look(&overflow, 3, true, 100, RETRY_MS), OVERFLOW_NOTICED);
    assert_int_equal(overflow.since_ms, 100);
    assert_int_equal(overflow_look(&overflow, 4, true, 100 + RETRY_MS - 1, RETRY_MS), OVERFLOW_WAIT);
    assert_int_equal(overflow_look(&overflow, 4, true, 100 + RETRY_MS, RETRY_MS), OVERFLOW_LIST_AGAIN);
    // Until the lists are complete nobody knows whether it is over.
    assert_int_equal(overflow_look(&overflow, 4, false, 1200, RETRY_MS), OVERFLOW_WAIT);
    assert_int_equal(overflow.since_ms, 100);
    assert_int_equal(overflow_look(&overflow, 4, true, 1300, RETRY_MS), OVERFLOW_WAIT);
    assert_int_equal(overflow.since_ms, 0);
    assert_true(overflow_is_over(&overflow, 4));
}

static void test_it_goes_on(void **state)
{
    (void)state;
    struct overflow overflow = {0};
    assert_int_equal(overflow_look(&overflow, 1, true, 100, RETRY_MS), OVERFLOW_NOTICED);
    assert_int_equal(overflow_look(&overflow, 1, true, 1100, RETRY_MS), OVERFLOW_LIST_AGAIN);
    // Of the lists that were read anew some found no room again: it lasts since the first moment.
    assert_int_equal(overflow_look(&overflow, 2, false, 1200, RETRY_MS), OVERFLOW_NOTICED);
    assert_int_equal(overflow.since_ms, 100);
    assert_int_equal(overflow_look(&overflow, 2, true, 2199, RETRY_MS), OVERFLOW_WAIT);
    assert_int_equal(overflow_look(&overflow, 2, true, 2200, RETRY_MS), OVERFLOW_LIST_AGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_for_all),
        cmocka_unit_test(test_it_is_told_once_and_lists_are_read_again),
        cmocka_unit_test(test_it_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
