// source: acknowledgements follow the oldest report that is not durable, in whatever order they
// end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/intake/source.h"

static struct source *make(void)
{
    struct tunnel_session_info session = {.ref = {1, 2}, .epoch = 3};
    return source_create(&session);
}

static void acknowledges_up_to_the_oldest(void **state)
{
    (void)state;
    struct source *source = make();
    struct in_flight *in_flights[5];
    for (unsigned i = 0; i < 5; i++)
        in_flights[i] = source_enter(source, NULL, i + 1, false);
    assert_ptr_equal(in_flight_leave(in_flights[2], true), source);
    (void)in_flight_leave(in_flights[1], true);
    assert_int_equal(source->acknowledge, 0);
    (void)in_flight_leave(in_flights[0], true);
    assert_int_equal(source->acknowledge, 3);
    (void)in_flight_leave(in_flights[4], true);
    assert_int_equal(source->acknowledge, 3);
    (void)in_flight_leave(in_flights[3], true);
    assert_int_equal(source->acknowledge, 5);
    assert_null(source->first);
    source_destroy(source);
}

static void what_is_lost_is_never_acknowledged(void **state)
{
    (void)state;
    struct source *source = make();
    struct in_flight *one = source_enter(source, NULL, 1, false), *two = source_enter(source, NULL, 2, false),
                     *three = source_enter(source, NULL, 3, false);
    (void)in_flight_leave(one, true);
    (void)in_flight_leave(two, false);
    (void)in_flight_leave(three, true);
    assert_int_equal(source->acknowledge, 1);
    source_destroy(source);
}

static void passages_outlive_their_source(void **state)
{
    (void)state;
    struct source *source = make();
    struct in_flight *one = source_enter(source, NULL, 1, false), *two = source_enter(source, NULL, 2, false);
    (void)in_flight_leave(two, true);
    source_destroy(source);
    assert_null(in_flight_leave(one, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledges_up_to_the_oldest),
        cmocka_unit_test(what_is_lost_is_never_acknowledged),
        cmocka_unit_test(passages_outlive_their_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
