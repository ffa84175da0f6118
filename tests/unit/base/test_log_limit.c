// log: events that others cause write one line a key and interval, which says how many there were.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/log/log.h"

static void one_line_an_interval(void **state)
{
    (void)state;
    uint64_t key = log_key("event", STR("a"), STR("b")), other = log_key("event", STR("ab"), STR_EMPTY), count = 0;
    uint64_t now = 1;
    assert_int_not_equal(key, other);
    assert_int_equal(key, log_key("event", STR("a"), STR("b")));
    assert_true(log_limit_take(key, now, &count));
    assert_int_equal(count, 1);
    for (int i = 0; i < 99; i++)
        assert_false(log_limit_take(key, now + (uint64_t)i, &count));
    assert_true(log_limit_take(other, now, &count));
    assert_int_equal(count, 1);
    now += LOG_LIMIT_MS;
    assert_true(log_limit_take(key, now, &count));
    assert_int_equal(count, 100);
    assert_false(log_limit_take(key, now + LOG_LIMIT_MS - 1, &count));
}

// Whatever the keys are: who makes them up does not get a line each.
static void keys_are_bounded(void **state)
{
    (void)state;
    uint64_t count = 0, now = 1000 * LOG_LIMIT_MS, lines = 0, events = 100000;
    char text[24];
    for (uint64_t i = 0; i < events; i++) {
        int len = snprintf(text, sizeof text, "%llu", (unsigned long long)i);
        lines += log_limit_take(log_key("made-up", str_of(text, (size_t)len), STR_EMPTY), now, &count);
    }
    assert_in_range(lines, 1, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_an_interval),
        cmocka_unit_test(keys_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
