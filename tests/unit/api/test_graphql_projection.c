// projection: the answer has what was asked for, in that order, and nulls go up as far as the types
// say.
#include "api/graphql/projection.h"

#include "graphql_fixture.h"

static const char sdl[] =
    "type Query { a: A must: A! list: [A!] rows: [[Int!]] any: U void: Void free: Free }\n"
    "type A { id: ID! s: String i: Int f: Float b: Boolean e: E strict: String! inner: A must: A! items: [String!]\n"
    "  hard: [String!]! errors: [Error]! }\n"
    "interface Error { title: String! level: E }\n"
    "type SyncError implements Error { title: String! level: E path: String }\n"
    "type HealthError implements Error { title: String! level: E cause: A }\n"
    "union U = A | SyncError enum E { RED BLUE } scalar Void scalar Free\n";

// What the entity becomes: {"data":...,"errors":[...]} without locations, by hand of the same
// functions as execution.
static char *project(const struct gql_schema *schema, const char *query, const char *entity, size_t bytes_max)
{
    struct checked c;
    check(&c, schema, query);
    if (c.problems.count) fail_msg("%s: %s", query, c.problems.list[0].message);
    json_t *root = json_of(entity), *variables = json_of("{\"yes\":true,\"no\":false}");
    struct gql_projection projection = {
        .schema = schema, .variables = variables, .problems = &c.problems, .arena = c.arena, .selections_left = 1000};
    const struct gql_type *type = gql_schema_root(schema, GQL_QUERY);
    struct gql_collection *collection = gql_collect(&projection, type, c.document.operations->selections);
    struct strbuf out;
    strbuf_init(&out, bytes_max);
    bool whole = collection != NULL;
    for (size_t i = 0; whole && i < collection->count; i++) {
        if (i) strbuf_add_byte(&out, ',');
        struct str name = collection->fields[i].field->name;
        whole = gql_project_root(&projection, type, &collection->fields[i], json_object_getn(root, name.at, name.len),
                                 &out);
    }
    if (!whole) strbuf_clear(&out), strbuf_add_c(&out, "null");
    if (out.overflow) strbuf_clear(&out), strbuf_add_c(&out, "overflow");
    out.max += 65536;
    for (size_t i = 0; i < c.problems.count; i++)
        strbuf_addf(&out, " | %s %s", c.problems.list[i].path ? c.problems.list[i].path : "-",
                    c.problems.list[i].message);
    json_decref(root);
    json_decref(variables);
    arena_destroy(c.arena);
    return strbuf_detach(&out);
}

struct projection_case {
    const char *query, *entity, *wanted;
};

static void run(const struct projection_case *cases, size_t count)
{
    struct gql_schema *schema = schema_of(sdl);
    for (size_t i = 0; i < count; i++) {
        char *got = project(schema, cases[i].query, cases[i].entity, 65536);
        if (strcmp(got, cases[i].wanted) != 0)
            fail_msg("%s of %s\n  gives:  %s\n  wanted: %s", cases[i].query, cases[i].entity, got, cases[i].wanted);
        mem_free(got);
    }
    gql_schema_destroy(schema);
}

#define RUN(cases) run(cases, sizeof(cases) / sizeof *(cases))

static void test_fields(void **state)
{
    (void)state;
    static const struct projection_case cases[] = {
        {"{a{s i}}", "{\"a\":{\"i\":1,\"s\":\"x\",\"id\":\"7\"}}", "\"a\":{\"s\":\"x\",\"i\":1}"},
        {"{x:a{y:s z:s}}", "{\"a\":{\"s\":\"x\"}}", "\"x\":{\"y\":\"x\",\"z\":\"x\"}"},
        {"{a{s} a{i} a{s inner{s}}}", "{\"a\":{\"s\":\"x\",\"i\":1,\"inner\":{\"s\":\"y\"}}}",
         "\"a\":{\"s\":\"x\",\"i\":1,\"inner\":{\"s\":\"y\"}}"},
        {"{a{inner{s} inner{i}} a{inner{b}}}", "{\"a\":{\"inner\":{\"s\":\"x\",\"i\":2,\"b\":true}}}",
         "\"a\":{\"inner\":{\"s\":\"x\",\"i\":2,\"b\":true}}"},
        {"{__typename t:__typename a{__typename}}", "{\"a\":{}}",
         "\"__typename\":\"Query\",\"t\":\"Query\",\"a\":{\"__typename\":\"A\"}"},
        {"{a{...F ...F ...{i} ...on A{b}}} fragment F on A{s}", "{\"a\":{\"s\":\"x\",\"i\":1,\"b\":false}}",
         "\"a\":{\"s\":\"x\",\"i\":1,\"b\":false}"},
        {"{a{s @skip(if:true) i @include(if:false) b @skip(if:false) e @include(if:true)}}",
         "{\"a\":{\"s\":\"x\",\"i\":1,\"b\":true,\"e\":\"RED\"}}", "\"a\":{\"b\":true,\"e\":\"RED\"}"},
        {"{a{...@skip(if:true){s} ...F@include(if:false) i}} fragment F on A{b}",
         "{\"a\":{\"s\":\"x\",\"i\":1,\"b\":true}}", "\"a\":{\"i\":1}"},
        {"{a{s}}", "{}", "\"a\":null"},
        {"{a{s}}", "{\"a\":null}", "\"a\":null"},
        {"{a{s inner{s} items}}", "{\"a\":{}}", "\"a\":{\"s\":null,\"inner\":null,\"items\":null}"},
    };
    RUN(cases);
}

static void test_leaves(void **state)
{
    (void)state;
    static const struct projection_case cases[] = {
        {"{a{id s f b e}}", "{\"a\":{\"id\":7,\"s\":\"\\\"\\n\\u00e9\",\"f\":1.5,\"b\":true,\"e\":\"BLUE\"}}",
         "\"a\":{\"id\":\"7\",\"s\":\"\\\"\\n\xc3\xa9\",\"f\":1.5,\"b\":true,\"e\":\"BLUE\"}"},
        {"{a{s f}}", "{\"a\":{\"s\":12,\"f\":3}}", "\"a\":{\"s\":\"12\",\"f\":3}"},
        {"{a{s}}", "{\"a\":{\"s\":false}}", "\"a\":{\"s\":\"false\"}"},
        {"{a{i}}", "{\"a\":{\"i\":2147483647}}", "\"a\":{\"i\":2147483647}"},
        {"{a{i}}", "{\"a\":{\"i\":2147483648}}",
         "\"a\":{\"i\":null} | [\"a\",\"i\"] The value does not fit type \"Int\"."},
        {"{a{e}}", "{\"a\":{\"e\":\"GREEN\"}}",
         "\"a\":{\"e\":null} | [\"a\",\"e\"] The value does not fit type \"E\"."},
        {"{a{b}}", "{\"a\":{\"b\":1}}", "\"a\":{\"b\":null} | [\"a\",\"b\"] The value does not fit type \"Boolean\"."},
        {"{a{f}}", "{\"a\":{\"f\":\"1\"}}",
         "\"a\":{\"f\":null} | [\"a\",\"f\"] The value does not fit type \"Float\"."},
        {"{a{s}}", "{\"a\":{\"s\":{}}}", "\"a\":{\"s\":null} | [\"a\",\"s\"] The value does not fit type \"String\"."},
        {"{a{s}}", "{\"a\":[]}", "\"a\":null | [\"a\"] The value is not an object of type \"A\"."},
        {"{a{items}}", "{\"a\":{\"items\":\"x\"}}",
         "\"a\":{\"items\":null} | [\"a\",\"items\"] The value is not a list of type \"[String!]\"."},
        {"{void free}", "{\"void\":true,\"free\":{\"b\":[1,2],\"a\":null}}",
         "\"void\":null,\"free\":{\"a\":null,\"b\":[1,2]}"},
        {"{rows}", "{\"rows\":[[1,2],null,[],[3,null]]}",
         "\"rows\":[[1,2],null,[],null] | [\"rows\",3,1] Cannot return null for non-nullable type \"Int!\"."},
    };
    RUN(cases);
}

static void test_abstract(void **state)
{
    (void)state;
    static const char entity[] =
        "{\"a\":{\"errors\":[{\"__typename\":\"SyncError\",\"title\":\"t\",\"path\":\"p\",\"cause\":{\"s\":\"no\"}},"
        "{\"__typename\":\"HealthError\",\"title\":\"h\",\"cause\":{\"s\":\"c\"}},null]}}";
    static const struct projection_case cases[] = {
        {"{a{errors{title}}}", entity, "\"a\":{\"errors\":[{\"title\":\"t\"},{\"title\":\"h\"},null]}"},
        {"{a{errors{__typename ...on SyncError{title path} ...on HealthError{cause{s}} ...on Error{level}}}}", entity,
         "\"a\":{\"errors\":[{\"__typename\":\"SyncError\",\"title\":\"t\",\"path\":\"p\",\"level\":null},"
         "{\"__typename\":\"HealthError\",\"cause\":{\"s\":\"c\"},\"level\":null},null]}"},
        {"{any{__typename ...on A{s} ...on Error{title}}}",
         "{\"any\":{\"__typename\":\"SyncError\",\"title\":\"t\",\"s\":\"x\"}}",
         "\"any\":{\"__typename\":\"SyncError\",\"title\":\"t\"}"},
        {"{any{__typename}}", "{\"any\":{\"__typename\":\"HealthError\"}}",
         "\"any\":null | [\"any\"] The value is not an object of type \"U\"."},
        {"{any{__typename}}", "{\"any\":{}}", "\"any\":null | [\"any\"] The value is not an object of type \"U\"."},
    };
    RUN(cases);
}

static void test_null_propagation(void **state)
{
    (void)state;
    static const struct projection_case cases[] = {
        {"{a{s strict}}", "{\"a\":{\"s\":\"x\"}}",
         "\"a\":null | [\"a\",\"strict\"] Cannot return null for non-nullable type \"String!\"."},
        {"{a{s inner{must{id}}}}", "{\"a\":{\"s\":\"x\",\"inner\":{\"must\":{}}}}",
         "\"a\":{\"s\":\"x\",\"inner\":null} | [\"a\",\"inner\",\"must\",\"id\"] Cannot return null for non-nullable "
         "type "
         "\"ID!\"."},
        {"{a{items}}", "{\"a\":{\"items\":[\"x\",null]}}",
         "\"a\":{\"items\":null} | [\"a\",\"items\",1] Cannot return null for non-nullable type \"String!\"."},
        {"{a{s hard}}", "{\"a\":{\"hard\":[null]}}",
         "\"a\":null | [\"a\",\"hard\",0] Cannot return null for non-nullable type \"String!\"."},
        {"{list{s strict}}", "{\"list\":[{\"strict\":\"x\"},{}]}",
         "\"list\":null | [\"list\",1,\"strict\"] Cannot return null for non-nullable type \"String!\"."},
        {"{a{s} must{s}}", "{\"a\":{\"s\":\"x\"}}",
         "null | [\"must\"] Cannot return null for non-nullable type \"A!\"."},
        {"{a{s} must{x:strict}}", "{\"a\":{\"s\":\"x\"},\"must\":{}}",
         "null | [\"must\",\"x\"] Cannot return null for non-nullable type \"String!\"."},
        {"{a{inner{inner{strict}} s}}", "{\"a\":{\"inner\":{\"inner\":{}},\"s\":\"x\"}}",
         "\"a\":{\"inner\":{\"inner\":null},\"s\":\"x\"} | [\"a\",\"inner\",\"inner\",\"strict\"] Cannot return null "
         "for "
         "non-nullable type \"String!\"."},
    };
    RUN(cases);
}

static void test_too_large(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(sdl);
    static const char entity[] = "{\"a\":{\"s\":\"0123456789\",\"i\":1}}";
    char *got = project(schema, "{a{s i}}", entity, 30);
    assert_string_equal(got, "\"a\":{\"s\":\"0123456789\",\"i\":1}");
    mem_free(got);
    got = project(schema, "{a{s i}}", entity, 27);
    assert_string_equal(got, "overflow");
    mem_free(got);
    gql_schema_destroy(schema);
}

// A path that does not fit is left out, not cut in the middle of its JSON.
static void test_long_alias(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(sdl);
    struct strbuf query;
    strbuf_init(&query, 65536);
    strbuf_add_c(&query, "{a{");
    for (int i = 0; i < 5000; i++)
        strbuf_add_byte(&query, 'x');
    strbuf_add_c(&query, ":strict}}");
    char *got = project(schema, query.at, "{\"a\":{}}", 65536);
    assert_string_equal(got, "\"a\":null | - Cannot return null for non-nullable type \"String!\".");
    mem_free(got);
    strbuf_finish(&query);
    gql_schema_destroy(schema);
}

// Many objects, many selections of the same key, many wrong values: the request's arena does not
// grow with them.
static void test_memory(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(sdl);
    struct arena *arena = arena_create(2 * 1024 * 1024);
    struct strbuf query;
    strbuf_init(&query, 1024 * 1024);
    strbuf_add_c(&query, "{list{e");
    for (int i = 0; i < 900; i++)
        strbuf_add_c(&query, " inner{s}");
    strbuf_add_c(&query, "}}");
    struct gql_document document;
    struct gql_problems problems;
    gql_problems_init(&problems, arena);
    assert_int_equal(gql_parse(strbuf_str(&query), &(struct gql_limits){.tokens_max = 10000, .depth_max = 5}, arena,
                               &document, NULL),
                     ERROR_NONE);
    json_t *list = json_array();
    for (int i = 0; i < 20000; i++)
        json_array_append_new(list, json_of("{\"e\":\"WRONG\",\"inner\":{\"s\":\"x\"}}"));
    struct gql_projection projection = {
        .schema = schema, .problems = &problems, .arena = arena, .selections_left = 10000};
    const struct gql_type *type = gql_schema_root(schema, GQL_QUERY);
    struct gql_collection *collection = gql_collect(&projection, type, document.operations->selections);
    struct strbuf out;
    strbuf_init(&out, 16 * 1024 * 1024);
    assert_true(gql_project_root(&projection, type, &collection->fields[0], list, &out));
    assert_int_equal(problems.count, GQL_PROBLEMS_MAX);
    assert_true(str_ends(strbuf_str(&out), STR("{\"e\":null,\"inner\":{\"s\":\"x\"}}]")));
    json_decref(list);
    strbuf_finish(&out);
    strbuf_finish(&query);
    arena_destroy(arena);
    gql_schema_destroy(schema);
}

// Fragments of fragments: the merging is bounded even where the validation is not asked.
static void test_bounded(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(sdl);
    struct arena *arena = arena_create(0);
    struct strbuf query;
    strbuf_init(&query, 65536);
    strbuf_add_c(&query, "{a{...F0}}");
    for (int i = 0; i < 30; i++)
        strbuf_addf(&query, " fragment F%d on A{...F%d ...F%d inner{...F%d} }", i, i + 1, i + 1, i + 1);
    strbuf_add_c(&query, " fragment F30 on A{s}");
    struct gql_document document;
    struct gql_problems problems;
    gql_problems_init(&problems, arena);
    assert_int_equal(gql_parse(strbuf_str(&query), &default_limits, arena, &document, NULL), ERROR_NONE);
    // An entity that goes on for as deep as anybody asks.
    json_t *value = json_of("{\"s\":\"x\"}");
    for (int i = 0; i < 40; i++)
        value = json_pack("{s:o}", "inner", value);
    struct gql_projection projection = {
        .schema = schema, .problems = &problems, .arena = arena, .selections_left = 500};
    const struct gql_type *type = gql_schema_root(schema, GQL_QUERY);
    struct gql_collection *collection = gql_collect(&projection, type, document.operations->selections);
    struct strbuf out;
    strbuf_init(&out, 1024 * 1024);
    assert_true(gql_project_root(&projection, type, &collection->fields[0], value, &out));
    assert_true(problems.count > 0);
    assert_string_equal(problems.list[0].code, "QUERY_TOO_LARGE");
    assert_int_equal(projection.selections_left, 0);
    json_decref(value);
    strbuf_finish(&out);
    strbuf_finish(&query);
    arena_destroy(arena);
    gql_schema_destroy(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),           cmocka_unit_test(test_leaves),    cmocka_unit_test(test_abstract),
        cmocka_unit_test(test_null_propagation), cmocka_unit_test(test_too_large), cmocka_unit_test(test_long_alias),
        cmocka_unit_test(test_memory),           cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
