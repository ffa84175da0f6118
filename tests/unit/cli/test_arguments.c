// Options in any place, and what is wrong with them.
#include "cmocka_cli.h"

#include "cli/arguments.h"

static const struct option_spec options[] = {
    {"output", 'o', "FORMAT", ""}, {"all", 'A', NULL, ""}, {"watch", 'w', NULL, ""}, {NULL, 0, NULL, NULL}};
static const struct option_spec *const tables[] = {options, NULL};

static enum error_code parse(struct arguments *out, struct error *err, size_t count, const char *const *words)
{
    return arguments_parse(out, count, (char *const *)(uintptr_t)words, tables, err);
}

static void options_may_stand_anywhere(void **state)
{
    (void)state;
    static struct arguments a;
    struct error err;
    static const char *const words[] = {"get", "-o", "wide", "apps", "--all", "x", "--", "-y"};
    assert_int_equal(parse(&a, &err, 8, words), ERROR_NONE);
    assert_int_equal(a.word_count, 4);
    assert_string_equal(a.words[2], "x");
    assert_string_equal(a.words[3], "-y");
    assert_string_equal(arguments_get(&a, "output"), "wide");
    assert_true(arguments_has(&a, "all"));
    assert_false(arguments_has(&a, "watch"));
}

static void letters_join_and_values_follow(void **state)
{
    (void)state;
    static const char *const forms[][2] = {{"-Awojson", ""}, {"-Aw", "--output=json"}};
    for (size_t i = 0; i < 2; i++) {
        static struct arguments a;
        struct error err;
        assert_int_equal(parse(&a, &err, *forms[i][1] ? 2 : 1, forms[i]), ERROR_NONE);
        assert_string_equal(arguments_get(&a, "output"), "json");
        assert_true(arguments_has(&a, "all") && arguments_has(&a, "watch"));
    }
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *word, *text;
    } cases[] = {{"--nope", "unknown option --nope"},
                 {"-z", "unknown option -z"},
                 {"--output", "--output needs a value: FORMAT"},
                 {"-o", "-o needs a value: FORMAT"},
                 {"--all=1", "--all takes no value"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct arguments a;
        struct error err;
        assert_int_equal(parse(&a, &err, 1, &cases[i].word), ERROR_INVALID);
        assert_string_equal(err.text, cases[i].text);
    }
}

static void numbers_of_words_are_bounded(void **state)
{
    (void)state;
    static struct arguments a;
    static const char *words[ARGUMENT_WORDS_MAX + 1];
    struct error err;
    for (size_t i = 0; i <= ARGUMENT_WORDS_MAX; i++)
        words[i] = "x";
    assert_int_equal(parse(&a, &err, ARGUMENT_WORDS_MAX, words), ERROR_NONE);
    assert_int_equal(parse(&a, &err, ARGUMENT_WORDS_MAX + 1, words), ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_may_stand_anywhere), cmocka_unit_test(letters_join_and_values_follow),
        cmocka_unit_test(mistakes_are_named), cmocka_unit_test(numbers_of_words_are_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
