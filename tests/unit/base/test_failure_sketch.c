// failure_sketch: what a name failed is never forgotten before its time, whoever else fails
// meanwhile.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/failure_sketch.h"

enum { PER_MINUTE = 60, OTHERS = 1000000 };

static void fail_often(struct failure_sketch *sketch, const char *name, unsigned times, uint64_t now_ms)
{
    for (unsigned i = 0; i < times; i++)
        failure_sketch_add(sketch, str_c(name), now_ms);
}

static void as_many_as_allowed(void **state)
{
    (void)state;
    struct failure_sketch *sketch = failure_sketch_create(PER_MINUTE);
    uint64_t now_ms = 1000;
    assert_int_equal(failure_sketch_wait_s(sketch, STR("a"), now_ms), 0);
    fail_often(sketch, "a", PER_MINUTE - 1, now_ms);
    assert_int_equal(failure_sketch_wait_s(sketch, STR("a"), now_ms), 0);
    fail_often(sketch, "a", 1, now_ms);
    assert_true(failure_sketch_wait_s(sketch, STR("a"), now_ms) > 0);
    assert_int_equal(failure_sketch_wait_s(sketch, STR("b"), now_ms), 0);
    assert_int_equal(failure_sketch_wait_s(sketch, STR("a"), now_ms + 1001), 0); // one a second leaks away
    fail_often(sketch, "a", 10 * PER_MINUTE, now_ms);
    // What it says is enough, and not for ever.
    unsigned wait_s = failure_sketch_wait_s(sketch, STR("a"), now_ms);
    assert_in_range(wait_s, 60, 62);
    assert_true(failure_sketch_wait_s(sketch, STR("a"), now_ms + 50 * 1000) > 0);
    assert_int_equal(failure_sketch_wait_s(sketch, STR("a"), now_ms + wait_s * UINT64_C(1000)), 0);
    // The lower half of the clock turns over.
    now_ms = UINT64_C(1) << 32;
    fail_often(sketch, "c", PER_MINUTE, now_ms - 5);
    assert_true(failure_sketch_wait_s(sketch, STR("c"), now_ms + 5) > 0);
    failure_sketch_destroy(sketch);
}

// T26 of the threats: an attacker with a million names neither gets a victim's failures forgotten
// nor keeps others out.
static void nothing_is_flushed(void **state)
{
    (void)state;
    struct failure_sketch *sketch = failure_sketch_create(PER_MINUTE);
    uint64_t now_ms = 1000;
    fail_often(sketch, "victim", 2 * PER_MINUTE, now_ms);
    for (unsigned i = 0; i < OTHERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%u.%u.%u", i % 251, i, i % 7);
        failure_sketch_add(sketch, str_c(name), now_ms + i / 200); // within 5 s
    }
    assert_true(failure_sketch_wait_s(sketch, STR("victim"), now_ms + 5000) > 0);
    unsigned kept_out = 0;
    for (unsigned i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "somebody else %u", i);
        if (failure_sketch_wait_s(sketch, str_c(name), now_ms + 5000 + 30 * 1000)) kept_out++;
    }
    assert_true(kept_out < 50);
    failure_sketch_destroy(sketch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_many_as_allowed), cmocka_unit_test(nothing_is_flushed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
