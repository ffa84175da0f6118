// lexer, parser: what is GraphQL, where it is not, and the limits that hold while reading.
#include "graphql_fixture.h"

static enum error_code parse(const char *text, const struct gql_limits *limits, struct error *err)
{
    struct arena *arena = arena_create(0);
    struct gql_document document;
    enum error_code code = gql_parse(str_c(text), limits ? limits : &default_limits, arena, &document, err);
    arena_destroy(arena);
    return code;
}

static void test_tokens(void **state)
{
    (void)state;
    struct gql_lexer lexer;
    static const char source[] = "\xef\xbb\xbf# words\r\n{ \xef\xbb\xbf"
                                 "a(x: -1.5e+3, y:0) ...on}\r\"t\\\"\"";
    static const struct {
        enum gql_token_kind kind;
        const char *text;
        unsigned line, column;
    } expected[] = {
        {GQL_TOKEN_PUNCTUATOR, "{", 2, 1},  {GQL_TOKEN_NAME, "a", 2, 6},          {GQL_TOKEN_PUNCTUATOR, "(", 2, 7},
        {GQL_TOKEN_NAME, "x", 2, 8},        {GQL_TOKEN_PUNCTUATOR, ":", 2, 9},    {GQL_TOKEN_FLOAT, "-1.5e+3", 2, 11},
        {GQL_TOKEN_NAME, "y", 2, 20},       {GQL_TOKEN_PUNCTUATOR, ":", 2, 21},   {GQL_TOKEN_INT, "0", 2, 22},
        {GQL_TOKEN_PUNCTUATOR, ")", 2, 23}, {GQL_TOKEN_PUNCTUATOR, "...", 2, 25}, {GQL_TOKEN_NAME, "on", 2, 28},
        {GQL_TOKEN_PUNCTUATOR, "}", 2, 30}, {GQL_TOKEN_STRING, "t\\\"", 3, 1},    {GQL_TOKEN_END, "<EOF>", 3, 6},
    };
    assert_int_equal(gql_lexer_init(&lexer, str_c(source), 100, NULL), ERROR_NONE);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(lexer.token.kind, expected[i].kind);
        assert_true(str_eq(lexer.token.text, str_c(expected[i].text)));
        assert_int_equal(lexer.token.at.line, expected[i].line);
        assert_int_equal(lexer.token.at.column, expected[i].column);
        assert_int_equal(gql_lexer_next(&lexer, NULL), ERROR_NONE);
    }
}

static void expect_text(const char *source, const char *wanted)
{
    struct gql_lexer lexer;
    struct error err;
    struct str text;
    struct arena *arena = arena_create(0);
    assert_int_equal(gql_lexer_init(&lexer, str_c(source), 10, &err), ERROR_NONE);
    enum error_code code = gql_token_string(&lexer.token, arena, &text, &err);
    if (!wanted) {
        assert_int_equal(code, ERROR_INVALID);
        assert_non_null(strstr(err.text, "(line 1, column 1)"));
    } else {
        assert_int_equal(code, ERROR_NONE);
        if (!str_eq(text, str_c(wanted))) fail_msg("%s: \"%.*s\", not \"%s\"", source, STR_ARG(text), wanted);
    }
    arena_destroy(arena);
}

static void test_strings(void **state)
{
    (void)state;
    expect_text("\"\"", "");
    expect_text("\"a\\n\\\"\\\\\\/\\b\\f\\r\\t\"", "a\n\"\\/\b\f\r\t");
    expect_text("\"\\u00e9 \\u20AC \\ud83d\\ude00\"", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    static const char *const bad[] = {
        "\"\\x\"",     "\"\\u12\"",          "\"\\u12g4\"", "\"\\ud83d\"", "\"\\ud83d\\u0041\"",
        "\"\\ude00\"", "\"\\ud83d\\ud83d\"", "\"\\u0000\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_text(bad[i], NULL);
    expect_text("\"\"\"\"\"\"", "");
    expect_text("\"\"\" a \"\"\"", " a ");
    expect_text("\"\"\"\n  a\n    b\n\n  c\n  \"\"\"", "a\n  b\n\nc");
    expect_text("\"\"\"\r\n\ta\r\t b\"\"\"", "a\n b");
    expect_text("\"\"\"first\n    \\\"\"\" second\n  \n\"\"\"", "first\n\"\"\" second");
}

// Where it goes wrong is part of the message.
static void test_syntax_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "found \"<EOF>\". (line 1, column 1)"},
        {"{", "Expected Name, found \"<EOF>\". (line 1, column 2)"},
        {"{}", "Expected Name, found \"}\". (line 1, column 2)"},
        {"{ a\n  b(c) }", "Expected \":\", found \")\". (line 2, column 6)"},
        {"{ a() }", "Expected Name, found \")\". (line 1, column 5)"},
        {"{ a(b: ) }", "found \")\". (line 1, column 8)"},
        {"{ a(b: [1, }", "found \"}\". (line 1, column 12)"},
        {"{ a { } }", "Expected Name, found \"}\""},
        {"{ ... }", "Expected \"{\", found \"}\""},
        {"{ ...on }", "Expected Name, found \"}\""},
        {"query Q() { a }", "Expected \"$\", found \")\""},
        {"query ($a) { a }", "Expected \":\", found \")\""},
        {"query ($a: ) { a }", "Expected Name, found \")\""},
        {"query ($a: [X) { a }", "Expected \"]\", found \")\""},
        {"query ($a: X = $b) { a }", "found \"$\""},
        {"fragment on on X { a }", "found \"on\""},
        {"fragment F { a }", "Expected \"on\", found \"{\""},
        {"type X { a: Int }", "found \"type\". (line 1, column 1)"},
        {"{ a } b", "found \"b\". (line 1, column 7)"},
        {"{ a(b: 01) }", "leading zero (line 1, column 8)"},
        {"{ a(b: 1.) }", "after its decimal point (line 1, column 8)"},
        {"{ a(b: 1e) }", "exponent (line 1, column 8)"},
        {"{ a(b: -) }", "without digits (line 1, column 8)"},
        {"{ a(b: 0x1) }", "runs into a name (line 1, column 8)"},
        {"{ a(b: \"x\n\") }", "Unterminated string. (line 1, column 8)"},
        {"{ a(b: \"\"\"x\n\n", "Unterminated string. (line 3, column 1)"},
        {"{ a ? }", "Unexpected character. (line 1, column 5)"},
        {"{ .. }", "Unexpected character. (line 1, column 3)"},
        {"{ a\xff }", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err;
        if (parse(cases[i].text, NULL, &err) != ERROR_INVALID) fail_msg("%s: taken", cases[i].text);
        if (strncmp(err.text, "Syntax Error: ", 14) != 0 || !strstr(err.text, cases[i].says))
            fail_msg("%s\n  says:   %s\n  wanted: %s", cases[i].text, err.text, cases[i].says);
    }
}

static void test_taken(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{a}",
        "query{a}",
        "{ query mutation fragment on: on true null }",
        "query Q($a: [Int!]! = [1, 2] @skip(if: true), $b: X = {c: {d: [null, ENUM, \"s\", 1.5, true]}}) @x(y: $a) { a "
        "}",
        "mutation { a(b: \"\"\"block\"\"\") } subscription S { a }",
        "{ ...F ...on X { a } ... { b } ... @include(if: $c) { d } } fragment F on X @y { e }",
    };
    struct error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (parse(good[i], NULL, &err) != ERROR_NONE) fail_msg("%s: %s", good[i], err.text);
}

// count times text, between before and after.
static char *repeated(const char *before, const char *text, size_t count, const char *after)
{
    struct strbuf out;
    strbuf_init(&out, 4 * 1024 * 1024);
    strbuf_add_c(&out, before);
    for (size_t i = 0; i < count; i++)
        strbuf_add_c(&out, text);
    strbuf_add_c(&out, after);
    return strbuf_detach(&out);
}

static void expect_limit(enum error_code wanted, char *text)
{
    static const struct gql_limits small = {
        .tokens_max = 100, .depth_max = 5, .aliases_max = 3, .directives_max = 4, .root_fields_max = 2};
    struct error err;
    enum error_code code = parse(text, &small, &err);
    if (code != wanted) fail_msg("%.100s: %d, not %d", text, code, wanted);
    mem_free(text);
}

static void test_limits(void **state)
{
    (void)state;
    expect_limit(ERROR_NONE, repeated("{", " a", 98, "}"));
    expect_limit(ERROR_TOO_LARGE, repeated("{", " a", 99, "}"));
    expect_limit(ERROR_NONE, repeated("", "{a", 5, "}}}}}"));
    expect_limit(ERROR_TOO_LARGE, repeated("", "{a", 6, "}}}}}}"));
    expect_limit(ERROR_TOO_LARGE, repeated("", "{...", 6, "}}}}}}"));
    expect_limit(ERROR_NONE, repeated("{a(b:", "[", 4, "]]]])}"));
    expect_limit(ERROR_TOO_LARGE, repeated("{a(b:", "[", 6, "]]]]]])}"));
    expect_limit(ERROR_TOO_LARGE, repeated("{a(b:", "{c:", 6, "1}}}}}})}"));
    expect_limit(ERROR_NONE, repeated("{", " x: a", 3, "}"));
    expect_limit(ERROR_TOO_LARGE, repeated("{", " x: a", 4, "}"));
    expect_limit(ERROR_NONE, repeated("{a", " @skip", 4, "}"));
    expect_limit(ERROR_TOO_LARGE, repeated("{a", " @skip", 5, "}"));
    expect_limit(ERROR_INVALID, repeated("query($a:", "[", 20, "X]){a}"));
    // Far past the limits: refused at the limit, not at the end.
    expect_limit(ERROR_TOO_LARGE, repeated("", "{a", 500000, ""));
    expect_limit(ERROR_TOO_LARGE, repeated("{a(b:", "[", 1000000, ""));
}

static void test_spreads_are_bound(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0);
    struct gql_document document;
    assert_int_equal(gql_parse(STR("{ ...B ...C ...A } fragment A on X { a } fragment B on X { b }"), &default_limits,
                               arena, &document, NULL),
                     ERROR_NONE);
    const struct gql_selection *spread = document.operations->selections;
    assert_ptr_equal(spread->fragment, document.fragments->next);
    assert_null(spread->next->fragment);
    assert_ptr_equal(spread->next->next->fragment, document.fragments);
    assert_int_equal(document.fragment_count, 2);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens), cmocka_unit_test(test_strings), cmocka_unit_test(test_syntax_errors),
        cmocka_unit_test(test_taken),  cmocka_unit_test(test_limits),  cmocka_unit_test(test_spreads_are_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
