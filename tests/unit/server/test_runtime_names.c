// runtime_names: a set in which each name counts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/chores/runtime_names.h"

enum { NAMES = 5000 };

static struct str name_of(size_t i, char out[16])
{
    return str_of(out, (size_t)snprintf(out, 16, "r-%zu", i));
}

static void names_are_there_as_often_as_they_came(void **state)
{
    (void)state;
    char text[16];
    struct runtime_names names;
    runtime_names_init(&names);
    for (size_t i = 0; i < NAMES; i++)
        for (size_t times = 0; times < 1 + i % 2; times++)
            runtime_names_add(&names, &(struct runtime_key){i % 3 ? STR("a") : STR("b"), name_of(i, text)});
    assert_int_equal(names.count, NAMES);
    for (size_t i = 0; i < NAMES; i++) {
        assert_true(runtime_names_have(&names, &(struct runtime_key){i % 3 ? STR("a") : STR("b"), name_of(i, text)}));
        assert_false(runtime_names_have(&names, &(struct runtime_key){i % 3 ? STR("b") : STR("a"), name_of(i, text)}));
        runtime_names_remove(&names, &(struct runtime_key){i % 3 ? STR("a") : STR("b"), name_of(i, text)});
    }
    for (size_t i = 0; i < NAMES; i++)
        assert_int_equal(
            runtime_names_have(&names, &(struct runtime_key){i % 3 ? STR("a") : STR("b"), name_of(i, text)}), i % 2);
    assert_int_equal(names.count, NAMES / 2);
    assert_false(runtime_names_have(&names, &(struct runtime_key){STR("ar"), STR("-1")}));
    assert_false(runtime_names_have(&names, &(struct runtime_key){STR("a"), STR_EMPTY}));
    runtime_names_finish(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_there_as_often_as_they_came)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
