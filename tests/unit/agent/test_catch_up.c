// How the agent brings the platform up to date: what follows what, and when.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>

#include "agent/reports/catch_up.h"

enum { HURRY_MS = 5000, UNANSWERED_MS = 120000, CAP_MS = 300000 };

static struct catch_up opened(bool compares)
{
    struct catch_up c;
    catch_up_init(&c);
    catch_up_open(&c, compares, 1000);
    return c;
}

static struct catch_up compared(void)
{
    struct catch_up c = opened(true);
    assert_true(catch_up_may_compare(&c, true, false, 1000));
    catch_up_begin_compare(&c, 1000);
    return c;
}

static void a_comparison_without_differences_ends_it(void **state)
{
    (void)state;
    struct catch_up c = opened(true);
    c.gap_since_ms = 500;
    assert_true(catch_up_compares(&c));
    // Not before all is quiet, or before the stream is a while old.
    assert_false(catch_up_may_compare(&c, false, false, 1000 + HURRY_MS - 1));
    assert_true(catch_up_may_compare(&c, false, false, 1000 + HURRY_MS));
    catch_up_begin_compare(&c, 2000);
    assert_true(catch_up_is_asking(&c));
    assert_false(catch_up_may_compare(&c, true, false, 2000));
    assert_true(catch_up_settle(&c, 0, 0, 3000));
    assert_true(catch_up_is_idle(&c));
    assert_int_equal(c.gap_since_ms, 0);
}

static void differences_are_compared_again(void **state)
{
    (void)state;
    struct catch_up c = compared();
    assert_false(catch_up_settle(&c, 1, 0, 2000)); // the first time it may be what was missed before
    c = compared();
    assert_false(catch_up_settle(&c, 3, 3, 2000));
    assert_int_equal(c.state, CATCH_UP_RECOMPARE_DUE);
    assert_int_equal(c.gap_since_ms, 2000);
    // Not while what was wanted is under way, unless that takes too long.
    assert_false(catch_up_may_compare(&c, true, true, 3000));
    assert_true(catch_up_may_compare(&c, true, true, 1000 + UNANSWERED_MS));
    assert_true(catch_up_may_compare(&c, true, false, 2000));
    catch_up_begin_compare(&c, 4000);
    assert_int_equal(c.state, CATCH_UP_RECOMPARING);
    assert_false(catch_up_settle(&c, 1, 1, 5000)); // ever more slowly
    assert_in_range(c.due_at_ms, 5000, 5000 + CAP_MS);
    assert_int_equal(c.gap_since_ms, 2000);
    catch_up_begin_compare(&c, c.due_at_ms);
    // The second time, what is on its way already has changed meanwhile.
    assert_true(catch_up_settle(&c, 1, 0, 400000));
    assert_int_equal(c.gap_since_ms, 0);
}

static void an_answer_that_does_not_come_is_asked_for_again(void **state)
{
    (void)state;
    struct catch_up c = compared();
    assert_false(catch_up_give_up(&c, 1000 + UNANSWERED_MS - 1));
    assert_true(catch_up_give_up(&c, 1000 + UNANSWERED_MS));
    assert_int_equal(c.state, CATCH_UP_COMPARE_DUE);
    assert_false(catch_up_give_up(&c, 1000 + UNANSWERED_MS));
    catch_up_begin_compare(&c, 200000);
    uint64_t wait_ms = catch_up_later(&c, 200000);
    assert_int_equal(c.state, CATCH_UP_COMPARE_DUE);
    assert_int_equal(c.due_at_ms, 200000 + wait_ms);
    if (wait_ms) assert_false(catch_up_may_compare(&c, true, false, 200000 + wait_ms - 1));
    assert_true(catch_up_may_compare(&c, true, false, 200000 + wait_ms));
}

static void a_platform_that_does_not_compare_gets_a_snapshot(void **state)
{
    (void)state;
    struct catch_up c = opened(false);
    c.gap_since_ms = 500;
    assert_true(catch_up_snapshot_is_due(&c, 1000));
    catch_up_begin_snapshot(&c);
    assert_false(catch_up_snapshot_is_due(&c, 2000));
    assert_int_equal(catch_up_want_snapshot(&c, 2000), CATCH_UP_WAIT); // it comes already
    catch_up_end_snapshot(&c, 3000);
    assert_true(catch_up_is_idle(&c));
    assert_int_equal(c.gap_since_ms, 0);
}

static void one_snapshot_follows_another_ever_more_slowly(void **state)
{
    (void)state;
    struct catch_up c = compared();
    assert_int_equal(catch_up_want_snapshot(&c, 2000), CATCH_UP_BEGIN_SNAPSHOT); // the first
    catch_up_begin_snapshot(&c);
    assert_int_equal(catch_up_schedule_snapshot(&c, 2500), CATCH_UP_SCHEDULED); // RESYNC while it is written
    assert_int_equal(c.state, CATCH_UP_SNAPSHOT);
    catch_up_end_snapshot(&c, 3000);
    assert_int_equal(c.state, CATCH_UP_SNAPSHOT_DUE);
    assert_int_equal(catch_up_schedule_snapshot(&c, 3000), CATCH_UP_WAIT);
    assert_int_equal(catch_up_want_snapshot(&c, 3000), CATCH_UP_WAIT);
    assert_true(catch_up_snapshot_is_due(&c, c.due_at_ms));
    catch_up_begin_snapshot(&c);
    catch_up_end_snapshot(&c, 400000);
    assert_int_equal(catch_up_want_snapshot(&c, 400000), CATCH_UP_SCHEDULED);
    assert_in_range(c.due_at_ms, 400000, 400000 + CAP_MS);
}

static void a_comparison_that_is_due_answers_a_resync(void **state)
{
    (void)state;
    struct catch_up c = compared();
    assert_int_equal(catch_up_schedule_snapshot(&c, 2000), CATCH_UP_WAIT);
    assert_false(catch_up_settle(&c, 1, 1, 2000));
    assert_int_equal(catch_up_schedule_snapshot(&c, 2000), CATCH_UP_WAIT);
    assert_int_equal(c.state, CATCH_UP_RECOMPARE_DUE);
}

static void want_of_room_and_new_kinds_begin_anew(void **state)
{
    (void)state;
    struct catch_up c = compared();
    c.lacks_room = true;
    assert_true(catch_up_settle(&c, 0, 0, 2000));
    uint64_t wait_ms = catch_up_offer_again(&c, 3000);
    assert_int_equal(c.state, CATCH_UP_RECOMPARE_DUE);
    assert_int_equal(c.due_at_ms, 3000 + wait_ms);
    assert_int_equal(c.gap_since_ms, 3000);
    assert_false(c.lacks_room);
    catch_up_begin_compare(&c, 100000);
    assert_true(catch_up_settle(&c, 0, 0, 100001));
    catch_up_new_kinds(&c, true, 100002);
    assert_int_equal(c.state, CATCH_UP_COMPARE_DUE);
    assert_int_equal(c.gap_since_ms, 100002);
}

static void what_ends_leaves_a_gap(void **state)
{
    (void)state;
    struct catch_up c = compared();
    c.lacks_room = true;
    catch_up_close(&c, 2000);
    catch_up_close(&c, 9000);
    assert_int_equal(c.state, CATCH_UP_CLOSED);
    assert_int_equal(c.gap_since_ms, 2000);
    assert_false(c.lacks_room);
    assert_false(catch_up_snapshot_is_due(&c, 10000));
    catch_up_open(&c, false, 10000);
    catch_up_begin_snapshot(&c);
    catch_up_end_snapshot(&c, 11000);
    catch_up_new_kinds(&c, false, 12000);
    assert_int_equal(c.state, CATCH_UP_SNAPSHOT_DUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comparison_without_differences_ends_it),
        cmocka_unit_test(differences_are_compared_again),
        cmocka_unit_test(an_answer_that_does_not_come_is_asked_for_again),
        cmocka_unit_test(a_platform_that_does_not_compare_gets_a_snapshot),
        cmocka_unit_test(one_snapshot_follows_another_ever_more_slowly),
        cmocka_unit_test(a_comparison_that_is_due_answers_a_resync),
        cmocka_unit_test(want_of_room_and_new_kinds_begin_anew),
        cmocka_unit_test(what_ends_leaves_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
