// execution: root fields of a query run at the same time, those of a mutation one after the other; errors have a path
// and a code; what could not run is a 400 without data, and "errors" is never an empty list.
#include "graphql_fixture.h"

static const char sdl[] = "type Query { now(x: Int): Int later(x: Int): Thing strict(x: Int): Int! lacking: Int }\n"
                          "type Mutation { first(x: Int): Int second(x: Int): Int! }\n"
                          "type Thing { name: String! size: Int }\n";

enum { PENDING_MAX = 16 };

// Resolvers that answer when they are told to.
struct desk {
    struct {
        gql_resolved on_resolved;
        void *arg;
        const json_t *arguments;
    } pending[PENDING_MAX];
    size_t pending_count;
    char started[256]; // "later(1) " and so on
    int status;
    size_t answers;
    json_t *answer;
};

static void note(struct desk *desk, const char *name, const json_t *arguments)
{
    size_t used = strlen(desk->started);
    snprintf(desk->started + used, sizeof desk->started - used, "%s(%d) ", name, (int)json_get_int(arguments, "x", -1));
}

static void keep(struct desk *desk, const char *name, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    note(desk, name, arguments);
    assert_true(desk->pending_count < PENDING_MAX);
    desk->pending[desk->pending_count].on_resolved = on_resolved;
    desk->pending[desk->pending_count].arguments = arguments;
    desk->pending[desk->pending_count++].arg = arg;
}

static void resolve_now(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    note(ctx, "now", arguments);
    on_resolved(arg, NULL, json_integer(json_get_int(arguments, "x", 0)));
}

static void resolve_later(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    keep(ctx, "later", arguments, on_resolved, arg);
}

static void resolve_strict(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    keep(ctx, "strict", arguments, on_resolved, arg);
}

static void resolve_first(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    keep(ctx, "first", arguments, on_resolved, arg);
}

static void resolve_second(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    note(ctx, "second", arguments);
    on_resolved(arg, NULL, json_integer(2));
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "now", resolve_now, .access = 1},          {GQL_QUERY, "later", resolve_later, .access = 1},
    {GQL_QUERY, "strict", resolve_strict, .access = 1},    {GQL_MUTATION, "first", resolve_first, .access = 1},
    {GQL_MUTATION, "second", resolve_second, .access = 1},
};

static void on_answered(void *arg, int status, struct str body)
{
    struct desk *desk = arg;
    json_error_t why;
    desk->answers++;
    desk->status = status;
    desk->answer = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, &why);
    if (!desk->answer) fail_msg("%.*s: %s", STR_ARG(body), why.text);
    json_t *errors = json_object_get(desk->answer, "errors");
    assert_true(!errors || json_array_size(errors) > 0);
}

struct run {
    struct gql_schema *schema;
    struct desk desk;
};

static struct desk *execute_with(struct run *run, const char *query, const char *variables, struct gql_request request)
{
    memset(&run->desk, 0, sizeof run->desk);
    run->schema = schema_of(sdl);
    json_t *given = variables ? json_of(variables) : NULL;
    char *text = mem_strdup(query);
    request.query = str_c(text);
    request.variables = given;
    request.schema = run->schema;
    request.resolvers = resolvers;
    request.resolver_count = sizeof resolvers / sizeof *resolvers;
    request.limits = &default_limits;
    if (!request.answer_bytes_max) request.answer_bytes_max = 65536;
    request.ctx = &run->desk;
    gql_execute(&request, on_answered, &run->desk);
    // The request's texts are needed no longer.
    memset(text, 'x', strlen(text));
    mem_free(text);
    json_decref(given);
    return &run->desk;
}

static struct desk *execute(struct run *run, const char *query, const char *variables)
{
    return execute_with(run, query, variables, (struct gql_request){.mutations_allowed = true});
}

static void resolve(struct desk *desk, size_t i, enum error_code code, const char *text)
{
    struct error err;
    if (code != ERROR_NONE) error_set(&err, code, "%s", text);
    desk->pending[i].on_resolved(desk->pending[i].arg, code != ERROR_NONE ? &err : NULL,
                                 code == ERROR_NONE && text ? json_of(text) : NULL);
}

// Locations are taken out; the rest must be the text.
static void finish(struct run *run, int status, const char *wanted)
{
    struct desk *desk = &run->desk;
    assert_int_equal(desk->answers, 1);
    json_t *errors = json_object_get(desk->answer, "errors"), *one;
    size_t i, len;
    json_array_foreach(errors, i, one) json_object_del(one, "locations");
    char *text = json_canonical(desk->answer, &len);
    if (strcmp(text, wanted) != 0) fail_msg("gives:  %s\n  wanted: %s", text, wanted);
    assert_int_equal(desk->status, status);
    mem_free(text);
    json_decref(desk->answer);
    gql_schema_destroy(run->schema);
}

static void test_at_once(void **state)
{
    (void)state;
    struct run run;
    execute(&run, "{ now(x: 5) __typename n: now }", NULL);
    finish(&run, 200, "{\"data\":{\"__typename\":\"Query\",\"n\":0,\"now\":5}}");
    execute(&run, "query ($x: Int) { now(x: $x) }", "{\"x\": 3}");
    finish(&run, 200, "{\"data\":{\"now\":3}}");
    execute(&run, "{ now @skip(if: true) }", NULL);
    finish(&run, 200, "{\"data\":{}}");
}

static void test_query_in_parallel(void **state)
{
    (void)state;
    struct run run;
    struct desk *desk = execute(&run, "{ a: later(x: 1) {name} now(x: 2) b: later(x: 3) {size} }", NULL);
    assert_string_equal(desk->started, "later(1) now(2) later(3) ");
    assert_int_equal(desk->answers, 0);
    assert_int_equal(json_get_int(desk->pending[0].arguments, "x", 0), 1);
    resolve(desk, 1, ERROR_NONE, "{\"name\":\"b\",\"size\":2}");
    assert_int_equal(desk->answers, 0);
    resolve(desk, 0, ERROR_NONE, "{\"name\":\"a\"}");
    finish(&run, 200, "{\"data\":{\"a\":{\"name\":\"a\"},\"b\":{\"size\":2},\"now\":2}}");
}

static void test_mutation_in_series(void **state)
{
    (void)state;
    struct run run;
    struct desk *desk =
        execute(&run, "mutation { a: first(x: 1) b: second(x: 2) c: first(x: 3) d: first(x: 4) }", NULL);
    assert_string_equal(desk->started, "first(1) ");
    resolve(desk, 0, ERROR_NONE, "1");
    assert_string_equal(desk->started, "first(1) second(2) first(3) ");
    // What failed does not stop what follows.
    resolve(desk, 1, ERROR_CONFLICT, "there already");
    assert_string_equal(desk->started, "first(1) second(2) first(3) first(4) ");
    assert_int_equal(desk->answers, 0);
    resolve(desk, 2, ERROR_NONE, NULL);
    finish(&run, 200,
           "{\"data\":{\"a\":1,\"b\":2,\"c\":null,\"d\":null},\"errors\":[{\"extensions\":{\"code\":\"CONFLICT\"},"
           "\"message\":\"there already\",\"path\":[\"c\"]}]}");
}

static void test_resolver_errors(void **state)
{
    (void)state;
    struct run run;
    struct desk *desk = execute(&run, "{ a: later {name} now(x: 1) }", NULL);
    resolve(desk, 0, ERROR_NOT_FOUND, "no \"such\" thing");
    finish(&run, 200,
           "{\"data\":{\"a\":null,\"now\":1},\"errors\":[{\"extensions\":{\"code\":\"NOT_FOUND\"},"
           "\"message\":\"no \\\"such\\\" thing\",\"path\":[\"a\"]}]}");

    // Where null may not be, all of data is null; the one error says why.
    desk = execute(&run, "{ now(x: 1) strict }", NULL);
    resolve(desk, 0, ERROR_FORBIDDEN, "no");
    finish(&run, 200,
           "{\"data\":null,\"errors\":[{\"extensions\":{\"code\":\"FORBIDDEN\"},\"message\":\"no\",\"path\":["
           "\"strict\"]}]}");
    desk = execute(&run, "{ now(x: 1) strict }", NULL);
    resolve(desk, 0, ERROR_NONE, NULL);
    finish(
        &run, 200,
        "{\"data\":null,\"errors\":[{\"extensions\":{\"code\":\"INTERNAL_SERVER_ERROR\"},\"message\":\"Cannot return "
        "null for non-nullable type \\\"Int!\\\".\",\"path\":[\"strict\"]}]}");

    // What is inside stays inside.
    desk = execute(&run, "{ a: later {name} b: later {name} }", NULL);
    resolve(desk, 0, ERROR_INTERNAL, "column secret of table users");
    resolve(desk, 1, ERROR_UNAVAILABLE, "connection to 10.0.0.5 refused");
    finish(&run, 200,
           "{\"data\":{\"a\":null,\"b\":null},\"errors\":[{\"extensions\":{\"code\":\"INTERNAL_SERVER_ERROR\"},"
           "\"message\":\"An internal error; the log has it.\",\"path\":[\"a\"]},"
           "{\"extensions\":{\"code\":\"SERVICE_UNAVAILABLE\"},"
           "\"message\":\"The platform cannot answer right now, try again.\",\"path\":[\"b\"]}]}");

    execute(&run, "{ lacking now(x: 1) }", NULL);
    finish(&run, 200,
           "{\"data\":{\"lacking\":null,\"now\":1},\"errors\":[{\"extensions\":{\"code\":\"BAD_USER_INPUT\"},"
           "\"message\":\"\\\"lacking\\\" is not offered by this platform\",\"path\":[\"lacking\"]}]}");
}

// Nothing ran: 400, errors without data.
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *query, *variables, *name, *wanted;
    } cases[] = {
        {"{", NULL, NULL,
         "{\"errors\":[{\"extensions\":{\"code\":\"GRAPHQL_PARSE_FAILED\"},\"message\":\"Syntax Error: Expected Name, "
         "found "
         "\\\"<EOF>\\\". (line 1, column 2)\"}]}"},
        {"{ nope }", NULL, NULL,
         "{\"errors\":[{\"extensions\":{\"code\":\"GRAPHQL_VALIDATION_FAILED\"},\"message\":\"Cannot query field "
         "\\\"nope\\\" on type \\\"Query\\\".\"}]}"},
        {"query ($x: Int!) { now(x: $x) }", NULL, NULL,
         "{\"errors\":[{\"extensions\":{\"code\":\"BAD_USER_INPUT\"},\"message\":\"Variable \\\"$x\\\" of required "
         "type "
         "\\\"Int!\\\" was not provided.\"}]}"},
        {"query A { now } query B { now }", NULL, NULL,
         "{\"errors\":[{\"extensions\":{\"code\":\"OPERATION_RESOLUTION_FAILURE\"},\"message\":\"Must provide "
         "operation name "
         "if query contains multiple operations.\"}]}"},
        {"query A { now }", NULL, "C",
         "{\"errors\":[{\"extensions\":{\"code\":\"OPERATION_RESOLUTION_FAILURE\"},\"message\":\"Unknown operation "
         "named "
         "\\\"C\\\".\"}]}"},
        {"mutation { first }", NULL, NULL,
         "{\"errors\":[{\"extensions\":{\"code\":\"BAD_REQUEST\"},\"message\":\"Mutations are taken with POST "
         "only.\"}]}"},
        {"{a{a{a{a{a{a{a{a{a{a{a{a{a}}}}}}}}}}}}}", NULL, NULL,
         "{\"errors\":[{\"extensions\":{\"code\":\"QUERY_TOO_LARGE\"},\"message\":\"The document is nested deeper than "
         "12. "
         "(line 1, column 25)\"}]}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run run;
        struct desk *desk = execute_with(&run, cases[i].query, cases[i].variables,
                                         (struct gql_request){.operation_name = str_c(cases[i].name)});
        assert_string_equal(desk->started, "");
        finish(&run, str_starts(str_c(cases[i].query), STR("mutation")) ? 405 : 400, cases[i].wanted);
    }
}

static void test_operation_name(void **state)
{
    (void)state;
    struct run run;
    struct desk *desk = execute_with(&run, "query A { now(x: 1) } query B { now(x: 2) } mutation C { first }", NULL,
                                     (struct gql_request){.operation_name = STR("B")});
    assert_string_equal(desk->started, "now(2) ");
    finish(&run, 200, "{\"data\":{\"now\":2}}");
}

static void test_variable_in_directive(void **state)
{
    (void)state;
    struct run run;
    execute(&run, "query ($skip: Boolean = true) { now @skip(if: $skip) a: now(x: 1) }", "{\"skip\": false}");
    finish(&run, 200, "{\"data\":{\"a\":1,\"now\":0}}");
}

// Never cut in the middle: data goes, the reason stays.
static void test_too_large(void **state)
{
    (void)state;
    for (size_t most = 1; most < 90; most++) {
        struct run run;
        struct desk *desk =
            execute_with(&run, "{ later {name} strict }", NULL, (struct gql_request){.answer_bytes_max = most});
        resolve(desk, 0, ERROR_NONE, "{\"name\":\"0123456789012345678901234567890123456789\"}");
        resolve(desk, 1, ERROR_NONE, "1");
        bool fits = json_is_object(json_object_get(desk->answer, "data"));
        assert_true(fits ==
                    (most >= strlen("{\"data\":{\"later\":{\"name\":\"0123456789012345678901234567890123456789\"},"
                                    "\"strict\":1}")));
        if (!fits) {
            json_t *error = json_array_get(json_object_get(desk->answer, "errors"), 0);
            assert_string_equal(json_string_value(json_path(error, "extensions", "code", NULL)), "RESPONSE_TOO_LARGE");
            assert_true(json_is_null(json_object_get(desk->answer, "data")));
        }
        assert_int_equal(desk->answers, 1);
        json_decref(desk->answer);
        gql_schema_destroy(run.schema);
    }
    // Errors that are longer than the answer may be still come whole.
    struct run run;
    struct desk *desk = execute_with(&run, "{ a: later {name} }", NULL, (struct gql_request){.answer_bytes_max = 30});
    resolve(desk, 0, ERROR_NOT_FOUND, "a message that is longer than thirty bytes");
    finish(
        &run, 200,
        "{\"data\":{\"a\":null},\"errors\":[{\"extensions\":{\"code\":\"NOT_FOUND\"},\"message\":\"a message that is "
        "longer than thirty bytes\",\"path\":[\"a\"]}]}");
}

// A path that does not fit is left out.
static void test_long_alias(void **state)
{
    (void)state;
    struct run run;
    struct strbuf query;
    strbuf_init(&query, 65536);
    strbuf_add_byte(&query, '{');
    for (int i = 0; i < 10000; i++)
        strbuf_add_byte(&query, 'x');
    strbuf_add_c(&query, ": later {name}}");
    struct desk *desk = execute(&run, query.at, NULL);
    resolve(desk, 0, ERROR_NOT_FOUND, "gone");
    json_t *error = json_array_get(json_object_get(desk->answer, "errors"), 0);
    assert_null(json_object_get(error, "path"));
    json_decref(desk->answer);
    gql_schema_destroy(run.schema);
    strbuf_finish(&query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_query_in_parallel),
        cmocka_unit_test(test_mutation_in_series),
        cmocka_unit_test(test_resolver_errors),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_operation_name),
        cmocka_unit_test(test_variable_in_directive),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_long_alias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
