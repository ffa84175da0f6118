// variables: values from the request's JSON and from literals, as the schema's types want them.
#include "graphql_fixture.h"

static const char sdl[] =
    "type Query { f(i: Int, r: Float, s: String, b: Boolean, id: ID, e: E, l: [Int], ll: [[Int]], o: In, n: Int! = 7,\n"
    "  os: [In!], a: Anything): Int }\n"
    "enum E { RED BLUE } scalar Anything\n"
    "input In { x: Int! y: E = BLUE z: [String!] in: In w: Boolean! = true }\n";

// The arguments of the operation's first field; NULL and *out_message when they are refused.
static json_t *arguments_of(const struct gql_schema *schema, const char *query, const char *variables, char *message)
{
    struct checked c;
    check(&c, schema, query);
    if (c.problems.count) fail_msg("%s: %s", query, c.problems.list[0].message);
    json_t *given = variables ? json_of(variables) : NULL;
    json_t *values = gql_coerce_variables(schema, c.document.operations, given, &c.problems), *out = NULL;
    struct error err = {0};
    message[0] = '\0';
    if (values) {
        const struct gql_selection *field = c.document.operations->selections;
        const struct gql_field_def *def = gql_type_field(gql_schema_root(schema, GQL_QUERY), field->name);
        out = gql_coerce_arguments(schema, def, field->arguments, values, &err);
        if (!out) strcpy(message, err.text);
    } else {
        assert_true(c.problems.count > 0);
        assert_string_equal(c.problems.list[0].code, "BAD_USER_INPUT");
        snprintf(message, ERROR_TEXT_BYTES, "%s", c.problems.list[0].message);
    }
    json_decref(values);
    json_decref(given);
    arena_destroy(c.arena);
    return out;
}

struct coercion_case {
    const char *query, *variables, *wanted; // wanted: the arguments as JSON, or a part of the message
};

static void run(const struct coercion_case *cases, size_t count)
{
    struct gql_schema *schema = schema_of(sdl);
    for (size_t i = 0; i < count; i++) {
        char message[ERROR_TEXT_BYTES];
        json_t *got = arguments_of(schema, cases[i].query, cases[i].variables, message);
        size_t len;
        char *text = got ? json_canonical(got, &len) : mem_strdup(message);
        bool fits = cases[i].wanted[0] == '{' ? got && strcmp(text, cases[i].wanted) == 0
                                              : !got && strstr(text, cases[i].wanted) != NULL;
        if (!fits)
            fail_msg("%s %s\n  gives:  %s\n  wanted: %s", cases[i].query, cases[i].variables ? cases[i].variables : "",
                     text, cases[i].wanted);
        mem_free(text);
        json_decref(got);
    }
    gql_schema_destroy(schema);
}

#define RUN(cases) run(cases, sizeof(cases) / sizeof *(cases))

static void test_leaves(void **state)
{
    (void)state;
    static const struct coercion_case cases[] = {
        {"query ($v: Int) { f(i: $v) }", "{\"v\":5}", "{\"i\":5,\"n\":7}"},
        {"query ($v: Int) { f(i: $v) }", "{\"v\":1.0}", "{\"i\":1,\"n\":7}"},
        {"query ($v: Int) { f(i: $v) }", "{\"v\":1.5}", "Variable \"$v\" got invalid value"},
        {"query ($v: Int) { f(i: $v) }", "{\"v\":2147483648}", "Variable \"$v\" got invalid value"},
        {"query ($v: Int) { f(i: $v) }", "{\"v\":1e300}", "Variable \"$v\" got invalid value"},
        {"query ($v: Int) { f(i: $v) }", "{\"v\":\"5\"}", "Variable \"$v\" got invalid value"},
        {"query ($v: Int) { f(i: $v) }", "{\"v\":true}", "Variable \"$v\" got invalid value"},
        {"query ($v: Float) { f(r: $v) }", "{\"v\":5}", "{\"n\":7,\"r\":5}"},
        {"query ($v: Float) { f(r: $v) }", "{\"v\":\"5\"}", "Variable \"$v\" got invalid value"},
        {"query ($v: String) { f(s: $v) }", "{\"v\":\"x\"}", "{\"n\":7,\"s\":\"x\"}"},
        {"query ($v: String) { f(s: $v) }", "{\"v\":5}", "Variable \"$v\" got invalid value"},
        {"query ($v: Boolean) { f(b: $v) }", "{\"v\":false}", "{\"b\":false,\"n\":7}"},
        {"query ($v: Boolean) { f(b: $v) }", "{\"v\":0}", "Variable \"$v\" got invalid value"},
        {"query ($v: ID) { f(id: $v) }", "{\"v\":\"x\"}", "{\"id\":\"x\",\"n\":7}"},
        {"query ($v: ID) { f(id: $v) }", "{\"v\":5}", "{\"id\":\"5\",\"n\":7}"},
        {"query ($v: ID) { f(id: $v) }", "{\"v\":5.5}", "Variable \"$v\" got invalid value"},
        {"query ($v: E) { f(e: $v) }", "{\"v\":\"RED\"}", "{\"e\":\"RED\",\"n\":7}"},
        {"query ($v: E) { f(e: $v) }", "{\"v\":\"GREEN\"}", "Variable \"$v\" got invalid value"},
        {"query ($v: Anything) { f(a: $v) }", "{\"v\":{\"a\":[1,null]}}", "{\"a\":{\"a\":[1,null]},\"n\":7}"},
        // Literals
        {"{ f(i: -5, r: 1, s: \"x\", b: true, id: 5, e: RED) }", NULL,
         "{\"b\":true,\"e\":\"RED\",\"i\":-5,\"id\":\"5\",\"n\":7,\"r\":1,\"s\":\"x\"}"},
        {"{ f(r: 1.5, id: \"5\", s: null, n: 8) }", NULL, "{\"id\":\"5\",\"n\":8,\"r\":1.5,\"s\":null}"},
        {"{ f(r: 100000000000000000000) }", NULL, "{\"n\":7,\"r\":1e20}"},
        {"query ($x: Int) { f(a: {a: [1, \"x\", RED, null, $x], b: $x, c: {}}) }", "{}",
         "{\"a\":{\"a\":[1,\"x\",\"RED\",null,null],\"c\":{}},\"n\":7}"},
    };
    RUN(cases);
}

static void test_nulls_and_defaults(void **state)
{
    (void)state;
    static const struct coercion_case cases[] = {
        {"query ($v: Int) { f(i: $v) }", "{}", "{\"n\":7}"},
        {"query ($v: Int) { f(i: $v) }", NULL, "{\"n\":7}"},
        {"query ($v: Int) { f(i: $v) }", "{\"v\":null}", "{\"i\":null,\"n\":7}"},
        {"query ($v: Int = 3) { f(i: $v) }", "{}", "{\"i\":3,\"n\":7}"},
        {"query ($v: Int = 3) { f(i: $v) }", "{\"v\":null}", "{\"i\":null,\"n\":7}"},
        {"query ($v: Int = null) { f(i: $v) }", "{}", "{\"i\":null,\"n\":7}"},
        {"query ($v: Int!) { f(i: $v) }", "{}", "Variable \"$v\" of required type \"Int!\" was not provided."},
        {"query ($v: Int!) { f(i: $v) }", "{\"v\":null}",
         "Variable \"$v\" of non-null type \"Int!\" must not be null."},
        {"query ($v: [Int!]) { f(l: $v) }", "{\"v\":[1,null]}", "Variable \"$v\" got invalid value"},
        // A nullable variable may stand where the argument has a default, but its null may not.
        {"query ($v: Int) { f(n: $v) }", "{}", "{\"n\":7}"},
        {"query ($v: Int) { f(n: $v) }", "{\"v\":null}", "Argument \"n\" has null where its type does not permit it."},
        {"query ($v: Int = 3) { f(n: $v) }", "{\"v\":null}",
         "Argument \"n\" has null where its type does not permit it."},
        {"query ($v: Int = 3) { f(o: {x: $v}) }", "{\"v\":null}", "Argument \"o\" has null"},
        {"query ($v: Boolean) { f(o: {x: 1, w: $v}) }", "{\"v\":null}", "Argument \"o\" has null"},
        {"query ($v: [Int] = 3, $e: E = RED) { f(l: $v, e: $e) }", "{}", "{\"e\":\"RED\",\"l\":[3],\"n\":7}"},
        {"query ($v: In = {x: 1}) { f(o: $v) }", "{}", "{\"n\":7,\"o\":{\"w\":true,\"x\":1,\"y\":\"BLUE\"}}"},
    };
    RUN(cases);
}

static void test_lists_and_objects(void **state)
{
    (void)state;
    static const struct coercion_case cases[] = {
        {"query ($v: [Int]) { f(l: $v) }", "{\"v\":[1,null,2.0]}", "{\"l\":[1,null,2],\"n\":7}"},
        {"query ($v: [Int]) { f(l: $v) }", "{\"v\":4}", "{\"l\":[4],\"n\":7}"},
        {"query ($v: [[Int]]) { f(ll: $v) }", "{\"v\":[[1],2,null]}", "{\"ll\":[[1],[2],null],\"n\":7}"},
        {"query ($v: [Int]) { f(l: $v) }", "{\"v\":[\"a\"]}", "Variable \"$v\" got invalid value"},
        {"query ($v: Int) { f(l: [1, $v]) }", "{}", "{\"l\":[1,null],\"n\":7}"},
        {"{ f(l: 4, ll: 5) }", NULL, "{\"l\":[4],\"ll\":[[5]],\"n\":7}"},
        {"query ($v: In) { f(o: $v) }", "{\"v\":{\"x\":1,\"z\":\"one\"}}",
         "{\"n\":7,\"o\":{\"w\":true,\"x\":1,\"y\":\"BLUE\",\"z\":[\"one\"]}}"},
        {"query ($v: In) { f(o: $v) }", "{\"v\":{\"x\":1,\"in\":{\"x\":2,\"y\":null,\"w\":false}}}",
         "{\"n\":7,\"o\":{\"in\":{\"w\":false,\"x\":2,\"y\":null},\"w\":true,\"x\":1,\"y\":\"BLUE\"}}"},
        {"query ($v: In) { f(o: $v) }", "{\"v\":{}}", "a required field was not provided: x"},
        {"query ($v: In) { f(o: $v) }", "{\"v\":{\"x\":1,\"q\":2}}", "Field \"q\" is not defined by type In"},
        {"query ($v: In) { f(o: $v) }", "{\"v\":5}", "expected an object of type In"},
        {"query ($v: In) { f(o: $v) }", "{\"v\":{\"x\":1,\"y\":\"GREEN\"}}",
         "it does not fit type E, which has RED, BLUE."},
        {"query ($v: In) { f(o: $v) }", "{\"v\":{\"x\":null}}", "it must not be null: Int!"},
        {"query ($v: [In!]) { f(os: $v) }", "{\"v\":{\"x\":1}}",
         "{\"n\":7,\"os\":[{\"w\":true,\"x\":1,\"y\":\"BLUE\"}]}"},
        {"query ($z: String!) { f(o: {x: 1, y: RED, z: [$z]}) }", "{\"z\":\"a\"}",
         "{\"n\":7,\"o\":{\"w\":true,\"x\":1,\"y\":\"RED\",\"z\":[\"a\"]}}"},
    };
    RUN(cases);
}

// Thousands of objects stay within the request's arena.
static void test_large_list(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(sdl);
    struct strbuf text;
    strbuf_init(&text, 4 * 1024 * 1024);
    strbuf_add_c(&text, "{\"v\":[{\"x\":1}");
    for (int i = 0; i < 40000; i++)
        strbuf_add_c(&text, ",{\"x\":1}");
    strbuf_add_c(&text, "]}");
    char message[ERROR_TEXT_BYTES];
    json_t *got = arguments_of(schema, "query ($v: [In!]) { f(os: $v) }", text.at, message);
    assert_int_equal(json_array_size(json_get_array(got, "os")), 40001);
    json_decref(got);
    strbuf_finish(&text);
    gql_schema_destroy(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_nulls_and_defaults),
        cmocka_unit_test(test_lists_and_objects),
        cmocka_unit_test(test_large_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
