// json: the limits hold before jansson runs, and errors say where.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"

static enum error_code decode(struct str text, const struct json_limits *limits, struct error *err)
{
    json_t *value = NULL;
    enum error_code code = json_decode(text, limits, &value, err);
    json_decref(value);
    return code;
}

static void test_limits(void **state)
{
    (void)state;
    struct error err;
    const struct json_limits limits = {.bytes_max = 64, .depth_max = 3, .tokens_max = 5};
    assert_int_equal(decode(STR("[[[]]]"), &limits, &err), ERROR_NONE);
    assert_int_equal(decode(STR("[[[[]]]]"), &limits, &err), ERROR_TOO_LARGE);
    assert_non_null(strstr(err.text, "line 1 column 4"));
    assert_int_equal(decode(STR("[1,2,3,4]"), &limits, &err), ERROR_NONE);
    assert_int_equal(decode(STR("[1,2,3,4,5]"), &limits, &err), ERROR_TOO_LARGE);
    assert_int_equal(decode(STR("{\"[[[[[[\":\"{{{{\"}"), &limits, &err), ERROR_NONE);
    char long_text[100];
    memset(long_text, ' ', sizeof long_text);
    assert_int_equal(decode(str_of(long_text, sizeof long_text), &limits, &err), ERROR_TOO_LARGE);
}

static void test_refused(void **state)
{
    (void)state;
    struct error err;
    const char *const bad[] = {"",      "{",     "{\"a\":1,\"a\":2}", "[1,]", "nul", "\"text\"", "{\"a\":\"\\ud800\"}",
                               "[1] x", "\xff[]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(decode(str_c(bad[i]), NULL, &err), ERROR_INVALID);
    assert_int_equal(decode(STR("{\"a\":\n  x}"), NULL, &err), ERROR_INVALID);
    assert_non_null(strstr(err.text, "line 2"));
}

static void test_canonical(void **state)
{
    (void)state;
    json_t *value;
    assert_int_equal(json_decode(STR("{ \"b\": 1, \"a\": {\"d\": null, \"c\": [true]} }"), NULL, &value, NULL),
                     ERROR_NONE);
    size_t len;
    char *text = json_canonical(value, &len);
    assert_string_equal(text, "{\"a\":{\"c\":[true],\"d\":null},\"b\":1}");
    assert_int_equal(len, strlen(text));
    assert_true(json_is_true(json_array_get(json_path(value, "a", "c", NULL), 0)));
    assert_null(json_path(value, "a", "x", "y", NULL));
    mem_free(text);
    json_decref(value);
}

static void test_invalid_utf8_is_replaced(void **state)
{
    (void)state;
    json_t *value = json_new_str(str_of("a\xff\xc3\xa9", 4));
    assert_string_equal(json_string_value(value), "a\xef\xbf\xbd\xc3\xa9");
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_invalid_utf8_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
