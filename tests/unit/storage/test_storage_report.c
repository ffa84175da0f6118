// report: a copy has every text, and none of them is the original's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storage/reports/report.h"

static void test_copy(void **state)
{
    (void)state;
    char name[] = "guestbook", runtime[] = "production", date[] = "2024-05-01", errors[] = "[]", unread[] = "/Pod\n";
    const struct report report = {
        .type = REPORT_DELETED,
        .epoch = 7,
        .count = 3,
        .runtime = str_c(runtime),
        .ref.name = str_c(name),
        .commit_date = str_c(date),
        .errors = str_c(errors),
        .unread = str_c(unread),
        .ref.kind = str_of("", 0),
    };
    size_t bytes = report_text_bytes(&report);
    assert_int_equal(bytes, strlen(name) + strlen(runtime) + strlen(date) + strlen(errors) + strlen(unread));
    char *texts = mem_alloc(bytes);
    struct report copy;
    assert_ptr_equal(report_copy_into(&copy, &report, texts), texts + bytes);
    memset(name, 'x', sizeof name);
    memset(runtime, 'x', sizeof runtime);
    memset(date, 'x', sizeof date);
    memset(errors, 'x', sizeof errors);
    memset(unread, 'x', sizeof unread);
    assert_int_equal(copy.type, REPORT_DELETED);
    assert_int_equal(copy.epoch, 7);
    assert_int_equal(copy.count, 3);
    assert_true(str_eq(copy.ref.name, STR("guestbook")));
    assert_true(str_eq(copy.runtime, STR("production")));
    assert_true(str_eq(copy.commit_date, STR("2024-05-01")));
    assert_true(str_eq(copy.errors, STR("[]")));
    assert_true(str_eq(copy.unread, STR("/Pod\n")));
    assert_null(copy.ref.kind.at);
    assert_int_equal(report_text_bytes(&copy), bytes);
    mem_free(texts);
}

// A report without texts needs no room.
static void test_none(void **state)
{
    (void)state;
    const struct report report = {.type = REPORT_OBJECT};
    char nothing;
    struct report copy;
    assert_int_equal(report_text_bytes(&report), 0);
    assert_ptr_equal(report_copy_into(&copy, &report, &nothing), &nothing);
    assert_int_equal(report_text_bytes(&copy), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
