// How objects are named.
#include "cmocka_cli.h"

#include "cli/reference.h"

static void names_have_places(void **state)
{
    (void)state;
    static const struct {
        const char *noun, *text, *runtime, *namespace, *name;
    } cases[] = {
        {"app", "a", "", "", "a"},
        {"apps", "n/a", "", "n", "a"},
        {"APPLICATION", "r/n/a", "r", "n", "a"},
        {"cluster", "c", "", "", "c"},
        {"cluster", "r/c", "r", "", "c"},
        {"rt", "x", "", "", "x"},
        {"image", "reg.io/a/b:1", "", "", "reg.io/a/b:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reference r;
        struct error err;
        if (reference_parse(noun_find(cases[i].noun), cases[i].text, &r, &err) != ERROR_NONE)
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_true(str_eq(r.runtime, str_c(cases[i].runtime)));
        assert_true(str_eq(r.namespace, str_c(cases[i].namespace)));
        assert_true(str_eq(r.name, str_c(cases[i].name)));
    }
}

static void wrong_names_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *noun, *text;
    } cases[] = {{"app", ""},     {"app", "a/b/c/d"},   {"app", "/a"}, {"app", "a/"},
                 {"app", "r//a"}, {"cluster", "a/b/c"}, {"rt", "a/b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reference r;
        if (reference_parse(noun_find(cases[i].noun), cases[i].text, &r, NULL) != ERROR_INVALID)
            fail_msg("%s %s should be refused", cases[i].noun, cases[i].text);
    }
}

static void words_are_of_one_type(void **state)
{
    (void)state;
    struct reference out[2];
    const struct noun *noun;
    size_t count;
    struct error err;
    static const char *const plain[] = {"apps", "a", "n/b"}, *const joined[] = {"app/a", "application/n/b"},
                             *const mixed[] = {"app/a", "rt/b"};
    assert_int_equal(reference_words(plain, 3, &noun, out, 2, &count, &err), ERROR_NONE);
    assert_int_equal(count, 2);
    assert_int_equal(reference_words(joined, 2, &noun, out, 2, &count, &err), ERROR_NONE);
    assert_int_equal(count, 2);
    assert_true(str_eq(out[1].namespace, STR("n")));
    assert_int_equal(reference_words(mixed, 2, &noun, out, 2, &count, &err), ERROR_INVALID);
    assert_int_equal(reference_words(plain, 0, &noun, out, 2, &count, &err), ERROR_INVALID);
    assert_int_equal(reference_words(plain, 3, &noun, out, 1, &count, &err), ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_have_places), cmocka_unit_test(wrong_names_are_refused),
                                       cmocka_unit_test(words_are_of_one_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
