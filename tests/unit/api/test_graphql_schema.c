// schema: SDL that is understood, SDL that is refused with the reason, and the schema of the
// product.
#include "graphql_fixture.h"

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *sdl, *says;
    } cases[] = {
        {"", "type Query is missing"},
        {"type A { a: Int }", "type Query is missing"},
        {"scalar Query", "type Query is missing"},
        {"type Query { a: A }", "Query refers to the unknown type A"},
        {"type Query { a(b: B): Int }", "Query refers to the unknown type B"},
        {"type Query { a(b: Query): Int }", "Query uses Query in an invalid position"},
        {"type Query { a: I } input I { b: Int }", "Query uses I in an invalid position"},
        {"type Query { a: Int a: Int }", "Query has a duplicate a"},
        {"type Query { a(b: Int b: Int): Int }", "Query has a duplicate b"},
        {"type Query { a: Int } input I { b: Int b: Int }", "I has a duplicate b"},
        {"type Query { a: Int } enum E { A B A }", "E has a duplicate A"},
        {"type Query { a: Int } type Query { b: Int }", "line 1: duplicate type Query"},
        {"type Query { a: Int } scalar Int", "duplicate type Int"},
        {"type Query implements I { a: Int }", "Query refers to the unknown type I"},
        {"type Query implements A { a: Int } type A { a: Int }", "Query uses A in an invalid position"},
        {"type Query implements I { a: Int } interface I { b: Int }", "Query does not have the field b of I"},
        {"type Query { a: U } union U = B", "U refers to the unknown type B"},
        {"type Query { a: U } union U = I interface I { b: Int }", "U uses I in an invalid position"},
        {"type Query {\n a Int }", "line 2: expected \":\", found \"Int\""},
        {"type Query { a: Int = }", "expected a name, found \"=\""},
        {"type Query { a(b: Int = [1]): Int }", "expected \"a plain default value\""},
        {"extend type Query { a: Int }", "expected \"a type definition\", found \"extend\""},
        {"type Query { a: Int", "expected a name, found \"<EOF>\""},
        {"input I = 1", "expected \"{\", found \"=\""},
        {"type Query { a: \"x }", "Unterminated string."},
        {"type Query { a: [[[[[[[[[[Int]]]]]]]]]] }", "a type of fewer lists"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err;
        struct gql_schema *schema = gql_schema_create(str_c(cases[i].sdl), &err);
        if (schema) fail_msg("%s: taken", cases[i].sdl);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s\n  says:   %s\n  wanted: %s", cases[i].sdl, err.text, cases[i].says);
    }
}

static void test_read(void **state)
{
    (void)state;
    struct gql_schema *schema =
        schema_of("\"\"\"All.\"\"\" type Query implements & Named & Aged {\n"
                  "  \"name\" name: String! age(unit: Unit = YEARS, of: [ID!]! , x: Boolean = true): [Int!]\n"
                  "}\n"
                  "interface Named { name: String! } interface Aged { age(unit: Unit): [Int!] }\n"
                  "enum Unit { \"d\" DAYS YEARS } union Any = | Query | Other type Other { id: ID }\n"
                  "input In { a: Int = -1 b: Float = 1.5 c: String = \"s\" d: Boolean = null }\n");
    const struct gql_type *query = gql_schema_root(schema, GQL_QUERY);
    struct arena *arena = arena_create(0);
    const struct gql_field_def *age = gql_type_field(query, STR("age"));
    assert_string_equal(gql_type_ref_text(&age->type, arena), "[Int!]");
    assert_string_equal(gql_type_ref_text(&gql_input_find(age->arguments, STR("of"))->type, arena), "[ID!]!");
    assert_int_equal(gql_input_find(age->arguments, STR("unit"))->def.kind, GQL_VALUE_ENUM);
    assert_true(gql_input_find(age->arguments, STR("x"))->def.boolean);
    assert_null(gql_input_find(age->arguments, STR("y")));
    const struct gql_type *in = gql_schema_type(schema, STR("In"));
    assert_true(str_eq(gql_input_find(in->inputs, STR("c"))->def.text, STR("s")));
    assert_int_equal(gql_input_find(in->inputs, STR("d"))->def.kind, GQL_VALUE_NULL);
    assert_true(gql_type_covers(gql_schema_type(schema, STR("Named")), query));
    assert_true(gql_type_covers(gql_schema_type(schema, STR("Any")), query));
    assert_false(gql_type_covers(gql_schema_type(schema, STR("Named")), gql_schema_type(schema, STR("Other"))));
    assert_null(gql_schema_root(schema, GQL_MUTATION));
    assert_null(gql_schema_type(schema, STR("Nothing")));
    arena_destroy(arena);
    gql_schema_destroy(schema);
    gql_schema_destroy(NULL);
}

static void test_product(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(schema_sdl);
    assert_int_equal(strlen(schema_sdl), schema_sdl_bytes);
    assert_non_null(gql_schema_root(schema, GQL_MUTATION));
    assert_non_null(gql_schema_root(schema, GQL_SUBSCRIPTION));
    gql_schema_destroy(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
