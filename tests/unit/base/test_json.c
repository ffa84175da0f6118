// json: the limits hold before jansson runs, and errors say where.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "base/json/json_canonical.h"
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

static bool is_canonical(const char *text, const struct json_canonical_look *look)
{
    return json_canonical_check(str_c(text), 64, 1000, look);
}

// Strings longer and shorter than the eight bytes that are looked at at once, with what ends them
// at each place.
static void test_canonical_check(void **state)
{
    (void)state;
    const char *const good[] = {
        "{}",
        "{\"a\":\"\",\"b\":\"1234567\",\"c\":\"12345678\",\"d\":\"123456789 and more\"}",
        "{\"a\":\"1234567\\n12345678\\\"\",\"b\":[true,false,null,-1,0,\"\xc3\xa9\"]}",
    };
    const char *const bad[] = {
        "",
        "[]",
        "{\"b\":1,\"a\":1}",
        "{\"a\":1,\"a\":1}",
        "{\"a\":1} ",
        "{\"a\": 1}",
        "{\"a\":01}",
        "{\"a\":1.0}",
        "{\"a\":\"\\u00e9\"}",
        "{\"a\\n\":1}",
        "{\"a\":\"1234567\n\"}",
        "{\"a\":\"12345678",
        "{\"a\":\"1234567\xc3\"}",
        "{\"a\":\"\xff 123456789\"}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(is_canonical(good[i], NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(is_canonical(bad[i], NULL));
    assert_false(json_canonical_check(STR("{\"a\":{\"b\":{}}}"), 2, 1000, NULL));
    assert_true(json_canonical_check(STR("{\"a\":{\"b\":{}}}"), 3, 1000, NULL));
    assert_false(json_canonical_check(STR("{\"a\":[1,2]}"), 64, 4, NULL));
    assert_true(json_canonical_check(STR("{\"a\":[1,2]}"), 64, 5, NULL));
}

static void test_canonical_look(void **state)
{
    (void)state;
    const struct str words[] = {STR("secret")};
    struct json_canonical_part parts[] = {{.key = STR("b")}, {.key = STR("c")}, {.key = STR("d")}};
    const struct json_canonical_look look = {.words = words, .word_count = 1, .parts = parts, .part_count = 3};
    assert_true(is_canonical("{\"a\":{\"b\":1},\"b\":[\"x\",{\"d\":2}],\"c\":\"secrets\",\"e\":{\"d\":3}}", &look));
    assert_true(str_eq(parts[0].value, STR("[\"x\",{\"d\":2}]"))); // the outermost alone
    assert_true(str_eq(parts[1].value, STR("\"secrets\"")));
    assert_int_equal(parts[2].value.len, 0);
    assert_true(is_canonical("{\"d\":{}}", &look));
    assert_int_equal(parts[0].value.len, 0); // nothing is left of the text before
    assert_true(str_eq(parts[2].value, STR("{}")));
    assert_false(is_canonical("{\"a\":[{\"b\":\"secret\"}]}", &look));
    assert_false(is_canonical("{\"a\":{\"secret\":1}}", &look));
    assert_true(is_canonical("{\"a\":\"a secret\",\"b\":\"\\\"secret\\\"\"}", &look));
}

// What nobody wants is checked all the same.
static void test_skip(void **state)
{
    (void)state;
    const struct str skip[] = {STR("env")};
    const struct json_limits limits = {.skip = skip, .skip_count = 1, .depth_max = 5, .tokens_max = 20};
    json_t *value;
    assert_int_equal(json_decode(STR("{\"a\":[{\"env\":[1,{\"x\":\"\xc3\xa9\"}],\"z\":2}],\"env\":\"test\"}"), &limits,
                                 &value, NULL),
                     ERROR_NONE);
    const json_t *inner = json_array_get(json_object_get(value, "a"), 0);
    assert_true(json_is_null(json_object_get(inner, "env")));
    assert_int_equal(json_get_int(inner, "z", 0), 2);
    assert_string_equal(json_string_value(json_object_get(value, "env")), "test"); // no object and no array
    json_decref(value);
    const char *const bad[] = {
        "{\"env\":[],\"env\":[]}",
        "{\"env\":[1,]}",
        "{\"env\":{\"b\":1,\"b\":1}}",
        "{\"env\":[\"\xff 234567890\"]}",
        "{\"env\":[[[[[]]]]]}",
        "{\"env\":[1",
        "{\"env\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_not_equal(json_decode(str_c(bad[i]), &limits, &value, NULL), ERROR_NONE);
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
        cmocka_unit_test(test_canonical_check),
        cmocka_unit_test(test_canonical_look),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_invalid_utf8_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
