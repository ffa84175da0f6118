// A read-only noun made of two text files, widgets/widgets.graphql and widgets/widgets.sql, and one
// line in modules.c: its lists, filters, orders, pages and single rows are answered by GraphQL from
// PostgreSQL, under row-level security. And what storage/sql/reads.awk refuses, with file and line.
#include <libpq-fe.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../api/graphql_fixture.h"
#include "api/http/request.h"
#include "base/clock.h"
#include "migrations/migrations.h"
#include "modules/modules.h"
#include "private_server.h"

#define ACCOUNT "0123456789abcdef01234567"
#define OTHER   "0123456789abcdef0123ffff"

static struct private_server server;
static PGconn *owner;
static struct loop *loop;
static struct pg *pg;
static struct plan_cache *plans;
static struct count_cache *counts;
static struct gql_schema *schema;
static struct module_tables tables;

static void run(const char *sql)
{
    PGresult *result = PQexec(owner, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail_msg("%s: %s", sql, PQerrorMessage(owner));
    PQclear(result);
}

static void make_widgets(void)
{
    run("SET search_path = culvert");
    run("CREATE TABLE widgets (account_id text NOT NULL, runtime text NOT NULL, name text NOT NULL,"
        " size integer NOT NULL, made_at timestamptz NOT NULL, labels jsonb NOT NULL, is_deleted boolean NOT NULL,"
        " PRIMARY KEY (account_id, name, runtime))");
    run("ALTER TABLE widgets ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY");
    run("CREATE POLICY account ON widgets USING (account_id = current_setting('app.account_id', true))");
    run("GRANT SELECT ON widgets TO culvert_app");
    run("INSERT INTO accounts (account_id, name) VALUES ('" ACCOUNT "', 'one'), ('" OTHER "', 'two')");
    run("INSERT INTO runtimes (account_id, runtime, runtime_id) VALUES ('" ACCOUNT "', 'prod', 'p'),"
        " ('" ACCOUNT "', 'test', 't'), ('" OTHER "', 'prod', 'o')");
    run("INSERT INTO widgets SELECT '" ACCOUNT "', 'prod', 'w' || i, i % 3 * 100, '2026-01-01'::timestamptz"
        " + i * interval '1 hour', jsonb_build_object('n', i::text), false FROM generate_series(1, 6) i");
    run("INSERT INTO widgets VALUES ('" ACCOUNT "', 'test', 'w3', 7, '2026-02-01', '{}', false),"
        " ('" ACCOUNT "', 'prod', 'gone', 7, '2026-02-01', '{}', true),"
        " ('" OTHER "', 'prod', 'w1', 1, '2026-02-01', '{}', false),"
        " ('" OTHER "', 'prod', 'q\"\\,{} ', 2, '2026-02-01', '{}', false)");
}

static struct gql_schema *schema_with_widgets(void)
{
    static char text[1 << 20];
    FILE *file = fopen(SCHEMA_FILE, "r");
    assert_non_null(file);
    size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    struct error err;
    struct gql_schema *made = gql_schema_create(str_of(text, len), &err);
    if (!made) fail_msg("%s", err.text);
    return made;
}

static int setup(void **state)
{
    (void)state;
    struct error err;
    if (!private_server_start(&server)) return 0;
    if (migrations_apply(server.url, NULL, NULL, &err) != ERROR_NONE) fail_msg("%s", err.text);
    owner = PQconnectdb(server.superuser_url);
    make_widgets();
    schema = schema_with_widgets();
    module_tables_init(&tables, modules);
    loop = loop_create("test", 0);
    plans = plan_cache_create(64);
    counts = count_cache_create(16, 0);
    pg = pg_create(loop,
                   &(struct pg_options){
                       .conninfo = server.app_url, .connections = 1, .queue_max = 100, .statement_timeout_ms = 10000});
    return 0;
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

static int teardown(void **state)
{
    (void)state;
    if (!owner) return 0;
    bool is_closed = false;
    pg_close(pg, set_true, &is_closed);
    while (!is_closed)
        uv_run(loop_uv(loop), UV_RUN_ONCE);
    plan_cache_destroy(plans);
    count_cache_destroy(counts);
    loop_destroy(loop);
    gql_schema_destroy(schema);
    module_tables_finish(&tables);
    PQfinish(owner);
    private_server_destroy(&server);
    return 0;
}

struct answer {
    bool is_done;
    json_t *value;
};

static void on_answered(void *arg, int status, struct str body)
{
    struct answer *answer = arg;
    (void)status;
    answer->value = json_loadb(body.at, body.len, 0, NULL);
    answer->is_done = true;
}

// The answer's value (the caller's).
static json_t *ask(const char *account_id, const char *query)
{
    struct api api = {.options.pg = pg, .plans = plans, .counts = counts};
    struct api_request request = {.api = &api, .arena = arena_create(0), .principal.kind = PRINCIPAL_USER};
    snprintf(request.principal.account_id, sizeof request.principal.account_id, "%s", account_id);
    const struct gql_request gql = {.query = str_c(query),
                                    .schema = schema,
                                    .resolvers = tables.resolvers,
                                    .resolver_count = tables.resolver_count,
                                    .limits = &default_limits,
                                    .answer_bytes_max = 1 << 20,
                                    .ctx = &request};
    struct answer answer = {0};
    gql_execute(&gql, on_answered, &answer);
    uint64_t until = clock_mono_ms() + 20000;
    while (!answer.is_done && clock_mono_ms() < until)
        uv_run(loop_uv(loop), UV_RUN_ONCE);
    assert_true(answer.is_done);
    arena_destroy(request.arena);
    return answer.value;
}

static void expect_of(const char *account_id, const char *query, const char *wanted)
{
    json_t *value = ask(account_id, query);
    char *text = json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (strcmp(text, wanted) != 0) fail_msg("%s\n  answers: %s\n  wanted:  %s", query, text, wanted);
    free(text);
    json_decref(value);
}

static void expect_error(const char *query, const char *wanted)
{
    json_t *value = ask(ACCOUNT, query);
    struct str message = json_get_str(json_array_get(json_get_array(value, "errors"), 0), "message");
    if (!str_eq(message, str_c(wanted))) fail_msg("%s\n  error: %.*s\n  wanted: %s", query, STR_ARG(message), wanted);
    json_decref(value);
}

// "name" or "name@test" of the nodes, in their order; pages by `size`, forward or back, until there
// is no more.
static void expect_pages(const char *arguments, unsigned size, bool is_back, const char *wanted)
{
    char cursor[512] = "", query[1024], found[512] = "";
    for (int page = 0; page < 10; page++) {
        snprintf(
            query, sizeof query,
            "{widgets(%s, pagination: {%s: %u%s%s%s}) {edges {node {name runtime}} pageInfo {hasNextPage hasPrevPage"
            " startCursor endCursor}}}",
            arguments, is_back ? "last" : "first", size, *cursor ? (is_back ? ", before: \"" : ", after: \"") : "",
            cursor, *cursor ? "\"" : "");
        json_t *value = ask(ACCOUNT, query);
        const json_t *slice = json_path(value, "data", "widgets", NULL), *info = json_get_object(slice, "pageInfo");
        if (!slice) fail_msg("%s: %s", query, json_dumps(value, 0));
        char names[512] = "";
        for (size_t i = 0; i < json_array_size(json_get_array(slice, "edges")); i++) {
            const json_t *node = json_get_object(json_array_get(json_get_array(slice, "edges"), i), "node");
            struct str name = json_get_str(node, "name");
            bool is_prod = str_eq(json_get_str(node, "runtime"), STR("prod"));
            snprintf(names + strlen(names), sizeof names - strlen(names), "%.*s%s ", STR_ARG(name),
                     is_prod ? "" : "@test");
        }
        char before[512];
        snprintf(before, sizeof before, "%s", found);
        snprintf(found, sizeof found, "%.250s%.250s", is_back ? names : before, is_back ? before : names);
        struct str next = json_get_str(info, is_back ? "startCursor" : "endCursor");
        snprintf(cursor, sizeof cursor, "%.*s", STR_ARG(next));
        bool has_more = json_get_bool(info, is_back ? "hasPrevPage" : "hasNextPage", false);
        json_decref(value);
        if (!has_more) break;
    }
    if (strcmp(found, wanted) != 0) fail_msg("%s\n  found:  %s\n  wanted: %s", arguments, found, wanted);
}

static void one_row_is_found_by_its_arguments(void **state)
{
    (void)state;
    if (!owner) skip();
    expect_of(ACCOUNT,
              "{widget(name: \"w4\") {name size runtime madeAt freshness metadata {isLarge labels {key value}}}}",
              "{\"data\":{\"widget\":{\"name\":\"w4\",\"size\":100,\"runtime\":\"prod\",\"madeAt\":\"2026-01-01T04:00:"
              "00.000Z\","
              "\"freshness\":\"disconnected\",\"metadata\":{\"isLarge\":true,\"labels\":[{\"key\":\"n\",\"value\":"
              "\"4\"}]}}}}");
    expect_of(ACCOUNT, "{widget(name: \"w3\", runtime: \"test\") {size}}", "{\"data\":{\"widget\":{\"size\":7}}}");
    expect_of(ACCOUNT, "{widget(name: \"gone\") {size}}", "{\"data\":{\"widget\":null}}");
}

static void lists_have_orders_and_pages(void **state)
{
    (void)state;
    if (!owner) skip();
    static const struct {
        const char *arguments, *wanted;
    } cases[] = {
        {"filters: {}", "w1 w2 w3 w3@test w4 w5 w6 "},
        {"orderBy: {field: KEY, direction: desc}", "w6 w5 w4 w3@test w3 w2 w1 "},
        {"orderBy: {field: SIZE}", "w2 w5 w1 w4 w3@test w3 w6 "},
        {"orderBy: {field: SIZE, direction: desc}", "w6 w3 w3@test w4 w1 w5 w2 "},
        {"orderBy: {field: NEWEST}", "w3@test w6 w5 w4 w3 w2 w1 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned size = 1; size <= 8; size++)
            for (int is_back = 0; is_back < 2; is_back++)
                expect_pages(cases[i].arguments, size, is_back, cases[i].wanted);
}

static void filters_hold_together(void **state)
{
    (void)state;
    if (!owner) skip();
    static const struct {
        const char *filters, *wanted;
    } cases[] = {
        {"runtimes: []", "w1 w2 w3 w3@test w4 w5 w6 "},
        {"runtimes: [\"test\"]", "w3@test "},
        {"runtimes: [\"prod\", \"nowhere\"]", "w1 w2 w3 w4 w5 w6 "},
        {"runtimes: [\"nowhere\"]", ""},
        {"names: [\"w2\", \"w3\"], runtimes: [\"prod\"]", "w2 w3 "},
        {"namePart: \"3\"", "w3 w3@test "},
        {"namePart: \"\"", "w1 w2 w3 w3@test w4 w5 w6 "},
        {"minSize: 200", "w2 w5 "},
        {"isLarge: false, namePart: \"w3\"", "w3 w3@test "},
        {"isLarge: true, minSize: 101", "w2 w5 "},
        {"madeAfter: \"2026-01-01T05:00:00Z\"", "w3@test w6 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "filters: {%s}", cases[i].filters);
        expect_pages(arguments, 2, false, cases[i].wanted);
    }
}

static void accounts_are_apart(void **state)
{
    (void)state;
    if (!owner) skip();
    expect_of(OTHER, "{widgets(filters: {names: [\"x\", \"q\\\"\\\\,{} \"]}) {edges {node {size}}}}",
              "{\"data\":{\"widgets\":{\"edges\":[{\"node\":{\"size\":2}}]}}}");
    expect_of(
        OTHER,
        "{widgets(filters: {minSize: 1, names: [\"w1\"]}) {edges {node {name size}}} widget(name: \"w4\") {size}}",
        "{\"data\":{\"widgets\":{\"edges\":[{\"node\":{\"name\":\"w1\",\"size\":1}}]},\"widget\":null}}");
    // They are read as culvertd's login, to which row-level security applies.
    run("ALTER POLICY account ON widgets USING (false)");
    expect_of(ACCOUNT, "{widgets {edges {cursor}} widget(name: \"w4\") {size}}",
              "{\"data\":{\"widgets\":{\"edges\":[]},\"widget\":null}}");
    run("ALTER POLICY account ON widgets USING (account_id = current_setting('app.account_id', true))");
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    if (!owner) skip();
    json_t *value = ask(ACCOUNT, "{widgets(pagination: {first: 1}) {pageInfo {endCursor}}}");
    const char *cursor = json_string_value(json_path(value, "data", "widgets", "pageInfo", "endCursor", NULL));
    assert_non_null(cursor);
    char query[512];
    snprintf(query, sizeof query,
             "{widgets(orderBy: {field: SIZE}, pagination: {first: 1, after: \"%s\"}) {pageInfo {endCursor}}}", cursor);
    expect_error(query, "invalid cursor: must come from pageInfo or edges of an earlier answer");
    snprintf(query, sizeof query,
             "{widgets(orderBy: {field: NEWEST}, pagination: {first: 1, after: \"%s\"}) {pageInfo {endCursor}}}",
             cursor);
    expect_error(query, "invalid cursor: must come from pageInfo or edges of an earlier answer");
    json_decref(value);
    expect_error("{widgets(filters: {madeAfter: \"today\"}) {pageInfo {endCursor}}}",
                 "madeAfter: must be an RFC 3339 time");
    expect_error("{widgets(pagination: {first: 0}) {pageInfo {endCursor}}}",
                 "pagination.first must be between 1 and 10000");
}

// The value at the keys of the answer, as text.
static char *value_at(const char *query, const char *field, const char *key)
{
    json_t *answer = ask(ACCOUNT, query);
    const json_t *value = json_path(answer, "data", field, NULL);
    if (key) value = json_object_get(value, key);
    if (!value) fail_msg("%s: %s", query, json_dumps(answer, 0));
    char *text = json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_ENCODE_ANY);
    json_decref(answer);
    return text;
}

static void expect_at(const char *query, const char *field, const char *key, const char *wanted)
{
    char *text = value_at(query, field, key);
    if (strcmp(text, wanted) != 0) fail_msg("%s\n  answers: %s\n  wanted:  %s", query, text, wanted);
    free(text);
}

// 120 more rows, so that there are three fences at the smallest distance.
static void fences_lead_to_every_row(void **state)
{
    (void)state;
    if (!owner) skip();
    expect_at("{widgetsIndex {total fences {position cursor label}}}", "widgetsIndex", NULL,
              "{\"total\":7,\"fences\":[{\"position\":0,\"cursor\":\"\",\"label\":\"w1\"}]}");
    expect_at("{widgetsIndex(filters: {runtimes: [\"nowhere\"]}) {total fences {label}}}", "widgetsIndex", NULL,
              "{\"total\":0,\"fences\":[]}");
    run("INSERT INTO widgets SELECT '" ACCOUNT "', 'prod', 'x' || to_char(i, 'FM000'), 1000 + i,"
        " '2026-03-01', '{}', false FROM generate_series(1, 120) i");
    expect_at("{widgetsIndex {total}}", "widgetsIndex", "total", "127");
    static const char *const orders[] = {"{field: KEY}", "{field: KEY, direction: desc}", "{field: SIZE}"};
    for (size_t i = 0; i < 3; i++) {
        char query[512];
        snprintf(query, sizeof query, "{widgetsIndex(orderBy: %s, every: 50) {total fences {position cursor label}}}",
                 orders[i]);
        json_t *answer = ask(ACCOUNT, query);
        const json_t *index = json_path(answer, "data", "widgetsIndex", NULL),
                     *fences = json_get_array(index, "fences");
        assert_int_equal(json_get_int(index, "total", 0), 127);
        assert_int_equal(json_array_size(fences), 3);
        for (size_t k = 0; k < 3; k++) {
            const json_t *fence = json_array_get(fences, k);
            assert_int_equal(json_get_int(fence, "position", -1), 50 * (int)k);
            snprintf(query, sizeof query,
                     "{a: widgets(orderBy: %s, pagination: {first: 1, after: \"%.*s\"}) {edges {node {name}}}"
                     " b: widgets(orderBy: %s, pagination: {first: 1, after: \"%.*s\", skip: 3}) {edges {node {name}}}"
                     " all: widgets(orderBy: %s, pagination: {first: 127}) {edges {node {name}}}}",
                     orders[i], STR_ARG(json_get_str(fence, "cursor")), orders[i],
                     STR_ARG(json_get_str(fence, "cursor")), orders[i]);
            json_t *pages = ask(ACCOUNT, query);
            const json_t *all = json_path(pages, "data", "all", "edges", NULL);
            assert_true(json_equal(json_array_get(json_path(pages, "data", "a", "edges", NULL), 0),
                                   json_array_get(all, 50 * k)));
            assert_true(json_equal(json_array_get(json_path(pages, "data", "b", "edges", NULL), 0),
                                   json_array_get(all, 50 * k + 3)));
            struct str name = json_get_str(json_get_object(json_array_get(all, 50 * k), "node"), "name");
            assert_true(i == 2 || str_eq(name, json_get_str(fence, "label")));
            json_decref(pages);
        }
        json_decref(answer);
    }
    run("DELETE FROM widgets WHERE name LIKE 'x%'");
    expect_error("{widgetsIndex(every: 49) {total}}", "every must be between 50 and 10000");
    expect_error("{widgets(pagination: {skip: 501}) {edges {cursor}}}", "pagination.skip must be between 0 and 500");
}

static void facets_leave_out_their_own_filters(void **state)
{
    (void)state;
    if (!owner) skip();
    static const struct {
        const char *arguments, *wanted;
    } cases[] = {
        {"dimensions: [RUNTIME]",
         "[{\"dimension\":\"RUNTIME\",\"values\":[{\"value\":\"prod\",\"count\":6},{\"value\":\"test\",\"count\":1}],"
         "\"more\":0}]"},
        {"dimensions: [RUNTIME, LARGE], filters: {runtimes: [\"test\"], isLarge: false}",
         "[{\"dimension\":\"RUNTIME\",\"values\":[{\"value\":\"prod\",\"count\":2},{\"value\":\"test\",\"count\":1}],"
         "\"more\":0},"
         "{\"dimension\":\"LARGE\",\"values\":[{\"value\":\"false\",\"count\":1}],\"more\":0}]"},
        {"dimensions: [RUNTIME], top: 1",
         "[{\"dimension\":\"RUNTIME\",\"values\":[{\"value\":\"prod\",\"count\":6}],\"more\":1}]"},
        {"dimensions: [RUNTIME], search: \"ES\"",
         "[{\"dimension\":\"RUNTIME\",\"values\":[{\"value\":\"test\",\"count\":1}],\"more\":0}]"},
        {"dimensions: [LABEL]", "[{\"dimension\":\"LABEL\",\"values\":[{\"value\":\"n\",\"count\":6}],\"more\":0}]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char query[512];
        snprintf(query, sizeof query, "{widgetFacets(%s) {dimension values {value count} more}}", cases[i].arguments);
        expect_at(query, "widgetFacets", NULL, cases[i].wanted);
    }
    expect_error("{widgetFacets(dimensions: [RUNTIME], top: 0) {more}}", "top must be between 1 and 100");
    expect_of(OTHER, "{widgetsIndex {total} widgetFacets(dimensions: [RUNTIME]) {values {count}}}",
              "{\"data\":{\"widgetsIndex\":{\"total\":2},\"widgetFacets\":[{\"values\":[{\"count\":2}]}]}}");
}

// Kept for an hour: the second answer is of the first count; accounts and values are apart.
static void counts_are_shared_for_their_interval(void **state)
{
    (void)state;
    if (!owner) skip();
    struct count_cache *without = counts;
    counts = count_cache_create(2, 3600 * 1000);
    char *first = value_at("{widgetsIndex {countedAt}}", "widgetsIndex", "countedAt");
    run("INSERT INTO widgets VALUES ('" ACCOUNT "', 'prod', 'x', 1, '2026-03-01', '{}', false)");
    expect_at("{widgetsIndex {total}}", "widgetsIndex", "total", "7");
    expect_at("{a: widgetsIndex {countedAt}}", "a", "countedAt", first);
    expect_at("{widgetsIndex(filters: {runtimes: [\"prod\"]}) {total}}", "widgetsIndex", "total", "7");
    expect_at("{widgetsIndex(filters: {runtimes: [\"test\"]}) {total}}", "widgetsIndex", "total", "1");
    expect_of(OTHER, "{widgetsIndex {total}}", "{\"data\":{\"widgetsIndex\":{\"total\":2}}}");
    // Two are kept, and the first was not among the last ones.
    expect_at("{widgetsIndex {total}}", "widgetsIndex", "total", "8");
    // One statement for both aliases.
    expect_of(ACCOUNT, "{a: widgetsIndex(every: 60) {total} b: widgetsIndex(every: 60) {total}}",
              "{\"data\":{\"a\":{\"total\":8},\"b\":{\"total\":8}}}");
    count_cache_destroy(counts);
    counts = without;
    run("DELETE FROM widgets WHERE name = 'x'");
    free(first);
}

// ---- the generator -----------------------------------------------------------------------------

static void replace(char *text, size_t text_bytes, const char *from, const char *to)
{
    char after[16384];
    char *at = strstr(text, from);
    if (!at) fail_msg("there is no \"%s\"", from);
    snprintf(after, sizeof after, "%s", at + strlen(from));
    snprintf(at, text_bytes - (size_t)(at - text), "%s%s", to, after);
}

// What the generator writes to stderr for widgets.sql with `from` replaced; it must fail.
static void expect_refusal(const char *from, const char *to, const char *reason)
{
    char text[16384], path[] = "/tmp/culvert_widgets_XXXXXX", command[1024], output[1024];
    FILE *file = fopen(CULVERT_SOURCE_DIR "/tests/unit/modules/widgets/widgets.sql", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    replace(text, sizeof text, from, to);
    int made = mkstemp(path);
    assert_true(made >= 0);
    assert_int_equal(write(made, text, strlen(text)), (ssize_t)strlen(text));
    close(made);
    snprintf(command, sizeof command,
             "cd %s && awk -v part=c -f storage/sql/reads.awk api/common.graphql"
             " tests/unit/modules/widgets/widgets.graphql modules/runtimes/runtime_store.sql %s 2>&1 >/dev/null",
             CULVERT_SOURCE_DIR, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    int status = pclose(pipe);
    unlink(path);
    if (WEXITSTATUS(status) != 1 || !strstr(output, reason))
        fail_msg("\"%s\": status %d, %s\n  wanted: %s", to, WEXITSTATUS(status), output, reason);
}

static void wrong_declarations_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *reason;
    } cases[] = {
        {"-- access: widget", "-- callers: all", ":5: callers \"all\": expected users"},
        {"-- from:", "-- table:", ":2: unknown key \"-- table:\"; type, from, key, group, scope"},
        {"-- scope: w", "-- group: w.name\n-- scope: w", ":1: type Widget is grouped: it takes no join"},
        {"-- access: widget", "-- access: widget\n-- versioned: no", ":6: versioned \"no\": expected yes"},
        {"-- key: w.name, w.runtime\n", "", ":1: type Widget has no line \"-- key:\""},
        {"-- scope: w", "-- key: w", ":4: a second \"-- key:\", the first is at line 3"},
        {"-- type: Widget", "-- type: Gadget", ":1: the schema has no type Gadget with fields"},
        {"-- field: size = w.size\n", "", ":1: field size of type Widget is not bound"},
        {"field: size = ", "field: weight = ", ": type Widget of the schema has no field weight"},
        {"field: size = w.size", "field: size", "expected NAME = EXPRESSION, found \"size\""},
        {"metadata.isLarge =", "metadata.isTall =", ": type WidgetMetadata of the schema has no field isTall"},
        {"minSize bigint =", "minSize number =", "filter \"minSize number\": expected NAME TYPE"},
        {"minSize bigint =", "maxSize bigint =", "filter maxSize: Query.widgets of the schema does not take it"},
        {"-- filter: minSize bigint = w.size >= :value\n", "", "field minSize of WidgetFilterArgs is no filter"},
        {"w.size >= :value", "w.size >= 1", "filter minSize: its condition has no :value"},
        {"order: SIZE =", "order: MASS =", "order MASS: Query.widgets(orderBy) of the schema has no such field"},
        {"w.size DESC, key", "w.size DESC", "order SIZE lacks w.name of the key"},
        {"query: widgets", "query: gadgets", "query gadgets: type Query of the schema has no such field"},
        {"widget(name = w.name", "widget(label = w.name", "Query.widget of the schema has no argument label"},
        {"-- field: size = w.size", "-- same: size = Gadget", "same size: no type Gadget is declared"},
        {"-- access: widget", "-- many: parts = x", "\"-- many:\" is not answered by declared reads yet"},
        {"facet: LARGE isLarge", "facet: LARGE isBig", "facet LARGE: no filter above is named isBig"},
        {"facet: LARGE isLarge", "facet: BIG isLarge",
         "facet BIG: Query.widgetFacets(dimensions) of the schema has no"},
        {"-- facet: LABEL = jsonb_object_keys(w.labels)\n", "", "value LABEL of WidgetDimension is no facet"},
        {"index: widgetsIndex", "index: widgetIndex", "index widgetIndex: type Query of the schema has no such field"},
        {"label: NEWEST", "label: MASS", "label MASS: no order above has this name"},
        {" ON r.runtime = w.runtime", "", "join r: expected NAME = QUERY ON CONDITION"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i].from, cases[i].to, cases[i].reason);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_row_is_found_by_its_arguments),
        cmocka_unit_test(lists_have_orders_and_pages),
        cmocka_unit_test(filters_hold_together),
        cmocka_unit_test(fences_lead_to_every_row),
        cmocka_unit_test(facets_leave_out_their_own_filters),
        cmocka_unit_test(counts_are_shared_for_their_interval),
        cmocka_unit_test(accounts_are_apart),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(wrong_declarations_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
