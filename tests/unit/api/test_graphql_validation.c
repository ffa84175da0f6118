// validation: a document is refused with graphql-js's words before anything runs; clients match on
// them.
#include "graphql_fixture.h"

static const char sdl[] =
    "type Query { dog(name: String, tags: [String!], first: Int = 3): Dog cat(id: ID!, kind: Kind): Cat pet: Pet any: "
    "Any\n"
    "  find(where: Where!, limit: Int! = 10): [Dog!]! any2(value: Any2, f: Float, b: Boolean): Int names: [String] }\n"
    "type Mutation { feed(id: ID!): Int! }\n"
    "interface Pet { name: String! friends: [Pet] }\n"
    "type Dog implements Pet { name: String! friends: [Pet] barks: Boolean size: Int owner: Human }\n"
    "type Cat implements Pet { name: String! friends: [Pet] meows: Boolean size: String! owner: Human }\n"
    "type Human { id: ID! name: String dog(name: String): Dog pets: [Pet!] }\n"
    "union Any = Dog | Human\n"
    "enum Kind { WILD TAME }\n"
    "scalar Any2\n"
    "input Where { name: String! kind: Kind = TAME size: Int all: [Where!] }\n";

struct validation_case {
    const char *query, *message;
};

static void run(const struct validation_case *cases, size_t count)
{
    struct gql_schema *schema = schema_of(sdl);
    for (size_t i = 0; i < count; i++)
        expect_problem(schema, cases[i].query, cases[i].message);
    gql_schema_destroy(schema);
}

#define RUN(cases) run(cases, sizeof(cases) / sizeof *(cases))

static void test_fields(void **state)
{
    (void)state;
    static const struct validation_case cases[] = {
        {"{ dog { name } }", NULL},
        {"{ __typename dog { __typename } pet { __typename } any { __typename } }", NULL},
        {"{ nope }", "Cannot query field \"nope\" on type \"Query\"."},
        {"{ dog { meows } }", "Cannot query field \"meows\" on type \"Dog\"."},
        {"{ pet { barks } }", "Cannot query field \"barks\" on type \"Pet\"."},
        {"{ any { name } }", "Cannot query field \"name\" on type \"Any\"."},
        {"{ names { x } }", "Field \"names\" must not have a selection since type \"[String]\" has no subfields."},
        {"{ dog { name { x } } }", "Field \"name\" must not have a selection since type \"String!\" has no subfields."},
        {"{ __typename { x } }",
         "Field \"__typename\" must not have a selection since type \"String!\" has no subfields."},
        {"{ dog }", "Field \"dog\" of type \"Dog\" must have a selection of subfields. Did you mean \"dog { ... }\"?"},
        {"{ find(where: {name: \"x\"}) }",
         "Field \"find\" of type \"[Dog!]!\" must have a selection of subfields. Did you mean \"find { ... }\"?"},
        {"subscription { x }", "Schema is not configured to execute subscription operations."},
    };
    RUN(cases);
}

static void test_arguments(void **state)
{
    (void)state;
    static const struct validation_case cases[] = {
        {"{ dog(name: \"x\", tags: [\"a\"], first: 1) { name } }", NULL},
        {"{ dog(tags: \"a\", name: null) { name } }", NULL},
        {"{ dog(age: 3) { name } }", "Unknown argument \"age\" on field \"Query.dog\"."},
        {"{ dog { name(x: 1) } }", "Unknown argument \"x\" on field \"Dog.name\"."},
        {"{ dog(name: \"a\", name: \"b\") { name } }", "There can be only one argument named \"name\"."},
        {"{ cat { name } }", "Field \"cat\" argument \"id\" of type \"ID!\" is required, but it was not provided."},
        {"{ find { name } }",
         "Field \"find\" argument \"where\" of type \"Where!\" is required, but it was not provided."},
        {"{ cat(id: null) { name } }", "Expected value of type \"ID!\", found null."},
        {"{ cat(id: 4, kind: WILD) { name } }", NULL},
        {"{ cat(id: 4.5) { name } }", "ID cannot represent a non-string and non-integer value: 4.5"},
        {"{ cat(id: 4, kind: \"WILD\") { name } }", "Enum \"Kind\" cannot represent non-enum value: \"WILD\"."},
        {"{ cat(id: 4, kind: OTHER) { name } }", "Value \"OTHER\" does not exist in \"Kind\" enum."},
        {"{ dog(name: 5) { name } }", "String cannot represent a non string value: 5"},
        {"{ dog(name: [\"a\"]) { name } }", "String cannot represent a non string value: [\"a\"]"},
        {"{ dog(name: {a: [1, $b]}) { name } }", "String cannot represent a non string value: {a: [1, $b]}"},
        {"{ dog(tags: [\"a\", null]) { name } }", "Expected value of type \"String!\", found null."},
        {"{ dog(tags: [\"a\", 1]) { name } }", "String cannot represent a non string value: 1"},
        {"{ dog(first: \"1\") { name } }", "Int cannot represent non-integer value: \"1\""},
        {"{ dog(first: 1.0) { name } }", "Int cannot represent non-integer value: 1.0"},
        {"{ dog(first: 2147483648) { name } }", "Int cannot represent non 32-bit signed integer value: 2147483648"},
        {"{ any2(f: 1, b: true) }", NULL},
        {"{ any2(f: \"1\") }", "Float cannot represent non numeric value: \"1\""},
        {"{ any2(b: 1) }", "Boolean cannot represent a non boolean value: 1"},
        {"{ any2(value: {a: [1, \"x\", {b: ENUM}]}) }", NULL},
        {"{ any2(value: {a: [$x]}) }", "Variable \"$x\" is not defined."},
        {"query ($x: Int) { any2(value: {a: [$x]}) }", NULL},
        {"{ find(where: {name: \"x\", kind: WILD, all: [{name: \"y\"}]}) { name } }", NULL},
        {"{ find(where: {}) { name } }", "Field \"Where.name\" of required type \"String!\" was not provided."},
        {"{ find(where: {name: \"x\", age: 3}) { name } }", "Field \"age\" is not defined by type \"Where\"."},
        {"{ find(where: {name: \"x\", name: \"y\"}) { name } }", "There can be only one input field named \"name\"."},
        {"{ find(where: {name: \"x\", all: {name: 5}}) { name } }", "String cannot represent a non string value: 5"},
        {"{ find(where: 5) { name } }", "Expected value of type \"Where!\", found 5."},
        {"{ find(where: {name: \"x\"}, limit: null) { name } }", "Expected value of type \"Int!\", found null."},
    };
    RUN(cases);
}

static void test_variables(void **state)
{
    (void)state;
    static const struct validation_case cases[] = {
        {"query ($n: String) { dog(name: $n) { name } }", NULL},
        {"query ($n: String!) { dog(name: $n, tags: [$n]) { name } }", NULL},
        {"{ dog(name: $n) { name } }", "Variable \"$n\" is not defined."},
        {"query Q { dog(name: $n) { name } }", "Variable \"$n\" is not defined by operation \"Q\"."},
        {"query ($n: String) { dog { name } }", "Variable \"$n\" is never used."},
        {"query Q($n: String) { dog { name } }", "Variable \"$n\" is never used in operation \"Q\"."},
        {"query ($n: Int) { dog(name: $n) { name } }",
         "Variable \"$n\" of type \"Int\" used in position expecting type \"String\"."},
        {"query ($n: String) { cat(id: $n) { name } }",
         "Variable \"$n\" of type \"String\" used in position expecting type \"ID!\"."},
        {"query ($n: ID) { cat(id: $n) { name } }",
         "Variable \"$n\" of type \"ID\" used in position expecting type \"ID!\"."},
        {"query ($n: ID = 4) { cat(id: $n) { name } }", NULL},
        {"query ($n: ID = null) { cat(id: $n) { name } }",
         "Variable \"$n\" of type \"ID\" used in position expecting type \"ID!\"."},
        {"query ($n: Int) { find(where: {name: \"x\"}, limit: $n) { name } }", NULL},
        {"query ($n: String) { dog(tags: $n) { name } }",
         "Variable \"$n\" of type \"String\" used in position expecting type \"[String!]\"."},
        {"query ($n: [String]) { dog(tags: $n) { name } }",
         "Variable \"$n\" of type \"[String]\" used in position expecting type \"[String!]\"."},
        {"query ($n: [String!]!) { dog(tags: $n) { name } }", NULL},
        {"query ($n: String) { dog(tags: [$n]) { name } }",
         "Variable \"$n\" of type \"String\" used in position expecting type \"String!\"."},
        {"query ($n: String) { find(where: {name: $n}) { name } }",
         "Variable \"$n\" of type \"String\" used in position expecting type \"String!\"."},
        {"query ($w: Where!) { find(where: $w) { name } }", NULL},
        {"query ($n: Dog) { dog { name } }", "Variable \"$n\" cannot be non-input type \"Dog\"."},
        {"query ($n: Nope) { dog { name } }", "Unknown type \"Nope\"."},
        {"query ($n: Int = \"x\") { dog(first: $n) { name } }", "Int cannot represent non-integer value: \"x\""},
        {"query ($n: Int! = null) { dog(first: $n) { name } }", "Expected value of type \"Int!\", found null."},
        {"query ($n: Int, $n: Int) { dog(first: $n) { name } }", "There can be only one variable named \"$n\"."},
        {"query ($b: Boolean!) { dog @skip(if: $b) { name } }", NULL},
        {"query ($b: Boolean) { dog @skip(if: $b) { name } }",
         "Variable \"$b\" of type \"Boolean\" used in position expecting type \"Boolean!\"."},
        {"query ($n: String) { ...F } fragment F on Query { dog(name: $n) { name } }", NULL},
        {"query A($n: String) { ...F } query B { ...F } fragment F on Query { dog(name: $n) { name } }",
         "Variable \"$n\" is not defined by operation \"B\"."},
        {"query A($n: String) { ...F } fragment F on Query { dog { name } }",
         "Variable \"$n\" is never used in operation \"A\"."},
    };
    RUN(cases);
}

// More variables than any machine word has bits.
static void test_many_variables(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(sdl);
    struct strbuf query;
    strbuf_init(&query, 1024 * 1024);
    strbuf_add_c(&query, "query (");
    for (int i = 0; i < 100; i++)
        strbuf_addf(&query, "$v%d: String!", i);
    strbuf_add_c(&query, ") { dog(tags: [");
    for (int i = 0; i < 99; i++)
        strbuf_addf(&query, "$v%d ", i);
    strbuf_add_c(&query, "]) { name } }");
    expect_problem(schema, query.at, "Variable \"$v99\" is never used.");
    strbuf_finish(&query);
    gql_schema_destroy(schema);
}

static void test_fragments(void **state)
{
    (void)state;
    static const struct validation_case cases[] = {
        {"{ dog { ...F } } fragment F on Dog { barks }", NULL},
        {"{ pet { ...F ... on Cat { meows } ... on Any { ... on Dog { size } } } } fragment F on Dog { barks }", NULL},
        {"{ any { ... on Pet { name } ... on Human { id } } }", NULL},
        {"{ dog { ...F } }", "Unknown fragment \"F\"."},
        {"{ dog { name } } fragment F on Dog { barks }", "Fragment \"F\" is never used."},
        {"{ dog { ...F } } fragment F on Dog { barks } fragment F on Dog { name }",
         "There can be only one fragment named \"F\"."},
        {"{ dog { ...F } } fragment F on Nope { barks }", "Unknown type \"Nope\"."},
        {"{ dog { ... on Nope { barks } } }", "Unknown type \"Nope\"."},
        {"{ dog { ... on String { barks } } }", "Fragment cannot condition on non composite type \"String\"."},
        {"{ dog { ...F } } fragment F on Where { barks }",
         "Fragment \"F\" cannot condition on non composite type \"Where\"."},
        {"{ dog { ... on Cat { meows } } }",
         "Fragment cannot be spread here as objects of type \"Dog\" can never be of type \"Cat\"."},
        {"{ any { ...F } } fragment F on Cat { meows }",
         "Fragment \"F\" cannot be spread here as objects of type \"Any\" can never be of type \"Cat\"."},
        {"{ dog { ...F } } fragment F on Dog { ...F }", "Cannot spread fragment \"F\" within itself."},
        {"{ dog { ...A } } fragment A on Dog { ...B } fragment B on Dog { ...C } fragment C on Dog { ...A }",
         "Cannot spread fragment \"A\" within itself via \"B\", \"C\"."},
        {"{ dog { ...A } } fragment A on Dog { friends { ...A } }", "Cannot spread fragment \"A\" within itself."},
        {"{ dog { ...A } } fragment A on Dog { nope }", "Cannot query field \"nope\" on type \"Dog\"."},
    };
    RUN(cases);
}

static void test_directives_and_operations(void **state)
{
    (void)state;
    static const struct validation_case cases[] = {
        {"{ dog @skip(if: true) @include(if: false) { name ... @skip(if: false) { size } } }", NULL},
        {"{ dog @nope { name } }", "Unknown directive \"@nope\"."},
        {"query @nope { dog { name } }", "Unknown directive \"@nope\"."},
        {"query ($n: String @nope) { dog(name: $n) { name } }", "Unknown directive \"@nope\"."},
        {"query @skip(if: true) { dog { name } }", "Directive \"@skip\" may not be used on QUERY."},
        {"mutation @include(if: true) { feed(id: 1) }", "Directive \"@include\" may not be used on MUTATION."},
        {"{ dog { ...F } } fragment F on Dog @skip(if: true) { name }",
         "Directive \"@skip\" may not be used on FRAGMENT_DEFINITION."},
        {"{ dog @skip { name } }",
         "Directive \"@skip\" argument \"if\" of type \"Boolean!\" is required, but it was not provided."},
        {"{ dog @skip(if: 1) { name } }", "Boolean cannot represent a non boolean value: 1"},
        {"{ dog @skip(if: true, x: 1) { name } }", "Unknown argument \"x\" on directive \"@skip\"."},
        {"{ dog @skip(if: true) @skip(if: true) { name } }",
         "The directive \"@skip\" can only be used once at this location."},
        {"{ dog { name } } query B { dog { name } }", "This anonymous operation must be the only defined operation."},
        {"query A { dog { name } } query A { dog { name } }", "There can be only one operation named \"A\"."},
        {"query A { dog { name } } mutation B { feed(id: 1) }", NULL},
        {"fragment F on Dog { name }", "Fragment \"F\" is never used."},
    };
    RUN(cases);
}

#define ALIASES " Use different aliases on the fields to fetch both if this was intentional."

static void test_conflicts(void **state)
{
    (void)state;
    static const struct validation_case cases[] = {
        {"{ dog { name name a: size a: size } dog { barks } }", NULL},
        {"{ dog { a: name a: size } }",
         "Fields \"a\" conflict because \"name\" and \"size\" are different fields." ALIASES},
        {"{ dog { name: __typename name } }",
         "Fields \"name\" conflict because \"__typename\" and \"name\" are different fields." ALIASES},
        {"{ dog(name: \"a\") { name } dog(name: \"b\") { name } }",
         "Fields \"dog\" conflict because they have differing arguments." ALIASES},
        {"{ dog(name: \"a\") { name } dog { name } }",
         "Fields \"dog\" conflict because they have differing arguments." ALIASES},
        {"{ dog(name: \"a\", first: 1) { name } dog(first: 1, name: \"a\") { name } }", NULL},
        {"query ($n: String) { dog(name: $n) { name } dog(name: $n) { size } }", NULL},
        {"{ find(where: {name: \"a\", size: 1}) { name } find(where: {size: 1, name: \"a\"}) { name } }", NULL},
        {"{ find(where: {name: \"a\", size: 1}) { name } find(where: {size: 2, name: \"a\"}) { name } }",
         "Fields \"find\" conflict because they have differing arguments." ALIASES},
        {"{ dog { a: name } dog { a: size } }", "Fields \"dog\" conflict because subfields \"a\" conflict because "
                                                "\"name\" and \"size\" are different fields." ALIASES},
        {"{ dog { owner { a: id } } dog { owner { a: name } } }",
         "Fields \"dog\" conflict because subfields \"owner\" conflict because subfields \"a\" conflict because \"id\" "
         "and "
         "\"name\" are different fields." ALIASES},
        {"{ dog { a: name ...F } } fragment F on Dog { a: size }",
         "Fields \"a\" conflict because \"name\" and \"size\" are different fields." ALIASES},
        // Never in one object: the names may differ, the shapes may not.
        {"{ pet { ... on Dog { a: barks } ... on Cat { a: meows } } }", NULL},
        {"{ pet { ... on Dog { size } ... on Cat { size } } }",
         "Fields \"size\" conflict because they return conflicting types \"Int\" and \"String!\"." ALIASES},
        {"{ pet { ... on Dog { a: owner { x: id } } ... on Cat { a: owner { x: name } } } }",
         "Fields \"a\" conflict because subfields \"x\" conflict because they return conflicting types \"ID!\" and "
         "\"String\"." ALIASES},
        {"{ pet { ... on Dog { a: owner { dog(name: \"x\") { name } } } ... on Cat { a: owner { dog { name } } } } }",
         NULL},
        // An interface's field meets with those of every object.
        {"{ pet { a: name ... on Dog { a: barks } } }",
         "Fields \"a\" conflict because \"name\" and \"barks\" are different fields." ALIASES},
    };
    RUN(cases);
}

// Fragments that spread the next twice would be 2^20 selections.
static void test_bounded(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(sdl);
    struct strbuf query;
    strbuf_init(&query, 1024 * 1024);
    strbuf_add_c(&query, "{ dog { owner { ...F0 } } }");
    for (int i = 0; i < 8; i++) {
        strbuf_addf(&query, " fragment F%d on Human {", i);
        for (int k = 0; k < 5; k++)
            strbuf_addf(&query, "...F%d ", i + 1);
        strbuf_add_byte(&query, '}');
    }
    strbuf_add_c(&query, " fragment F8 on Human { id }");
    expect_problem(schema, query.at, "The document has more than 20000 selections, with its fragments.");
    strbuf_finish(&query);

    // Depth holds through fragments, too.
    strbuf_init(&query, 1024 * 1024);
    strbuf_add_c(&query, "{ pet { ...F0 } }");
    for (int i = 0; i < 11; i++)
        strbuf_addf(&query, " fragment F%d on Pet { friends { ...F%d } }", i, i + 1);
    strbuf_add_c(&query, " fragment F11 on Pet { name }");
    expect_problem(schema, query.at, "The document is nested deeper than 12 with its fragments.");
    strbuf_finish(&query);

    // So does the number of root fields.
    strbuf_init(&query, 1024 * 1024);
    strbuf_add_c(&query, "{ ...F }  fragment F on Query {");
    for (int i = 0; i < 21; i++)
        strbuf_addf(&query, " a%d: names", i);
    strbuf_add_byte(&query, '}');
    expect_problem(schema, query.at, "The operation has more than 20 root fields.");
    strbuf_finish(&query);
    gql_schema_destroy(schema);
}

// No more than GQL_PROBLEMS_MAX are kept, each with its place.
static void test_places(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(sdl);
    struct checked c;
    check(&c, schema, "{\n  a b c d e f g h i j k l m n o p q r s t u v w x y z\n}");
    assert_int_equal(c.problems.count, GQL_PROBLEMS_MAX);
    assert_int_equal(c.problems.list[1].at.line, 2);
    assert_int_equal(c.problems.list[1].at.column, 5);
    assert_string_equal(c.problems.list[1].message, "Cannot query field \"b\" on type \"Query\".");
    assert_string_equal(c.problems.list[1].code, "GRAPHQL_VALIDATION_FAILED");
    struct strbuf text;
    strbuf_init(&text, GQL_PROBLEMS_BYTES_MAX);
    gql_problems_write(&c.problems, &text);
    json_t *list = json_of(text.at);
    assert_int_equal(json_array_size(list), GQL_PROBLEMS_MAX);
    json_decref(list);
    strbuf_finish(&text);
    arena_destroy(c.arena);
    gql_schema_destroy(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),    cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_variables), cmocka_unit_test(test_many_variables),
        cmocka_unit_test(test_fragments), cmocka_unit_test(test_directives_and_operations),
        cmocka_unit_test(test_conflicts), cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
