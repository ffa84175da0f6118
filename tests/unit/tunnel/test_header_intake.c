// header_intake: fields come out as they went in, the status apart, and nothing goes in beyond the
// limits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tunnel/session/header_intake.h"

static void fields_keep_their_order(void **state)
{
    (void)state;
    char name[] = "accept", value[] = "text/html";
    struct header_intake *intake = header_intake_create(3, 100);
    assert_true(header_intake_add(intake, STR(":status"), STR("404")));
    assert_true(header_intake_add(intake, str_c(name), str_c(value)));
    assert_true(header_intake_add(intake, STR("x-empty"), STR("")));
    assert_true(header_intake_add(intake, STR("accept"), STR("*/*")));
    name[0] = value[0] = '?'; // the intake has copied them
    struct header_block fields = header_intake_fields(intake);
    assert_int_equal(header_intake_status(intake), 404);
    assert_int_equal(fields.count, 3);
    assert_true(str_eq(fields.at[0].name, STR("accept")) && str_eq(fields.at[0].value, STR("text/html")));
    assert_true(str_eq(fields.at[1].name, STR("x-empty")) && fields.at[1].value.len == 0);
    assert_true(str_eq(fields.at[2].value, STR("*/*")));
    header_block_finish(&fields);
    header_intake_destroy(intake);
}

static void nothing_is_an_empty_block(void **state)
{
    (void)state;
    struct header_intake *intake = header_intake_create(3, 100);
    struct header_block fields = header_intake_fields(intake);
    assert_int_equal(fields.count, 0);
    assert_int_equal(header_intake_status(intake), 0);
    header_block_finish(&fields);
    header_intake_destroy(intake);
    header_intake_destroy(NULL);
}

static void limits_hold(void **state)
{
    (void)state;
    struct header_intake *intake = header_intake_create(2, 10);
    assert_true(header_intake_add(intake, STR("12345"), STR("6789")));
    assert_false(header_intake_add(intake, STR("1"), STR("2"))); // 11 bytes
    assert_true(header_intake_add(intake, STR(":status"), STR("200")));
    header_intake_destroy(intake);
    intake = header_intake_create(2, 10);
    assert_true(header_intake_add(intake, STR("a"), STR("")));
    assert_true(header_intake_add(intake, STR("b"), STR("")));
    assert_false(header_intake_add(intake, STR("c"), STR("")));
    header_intake_destroy(intake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_keep_their_order),
        cmocka_unit_test(nothing_is_an_empty_block),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
