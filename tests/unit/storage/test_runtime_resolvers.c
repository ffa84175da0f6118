// resolvers of runtimes on a real database: who may, which names fit, what becomes of a store's answer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/access/identity_store.h"
#include "api/http/request.h"
#include "base/mem.h"
#include "base/token.h"
#include "database.h"
#include "modules/runtimes/runtimes.h"

// ---- one request --------------------------------------------------------------------------------

// What a resolver keeps for its request is behind `first` in the arena.
enum { KEPT_BYTES = 1024 };

struct asking {
    struct database *database;
    struct api api;
    struct api_request request;
    const char *first;
    unsigned tokens_changed;
    unsigned answers;
    enum error_code code;
    char text[ERROR_TEXT_BYTES];
    json_t *value;
};

static void on_tokens_changed(void *ctx)
{
    ((struct asking *)ctx)->tokens_changed++;
}

static void begin(struct asking *a, struct database *database)
{
    memset(a, 0, sizeof *a);
    a->database = database;
    a->api.options.pg = database->pg;
    a->api.options.on_tokens_changed = on_tokens_changed;
    a->api.options.ctx = a;
    a->request.api = &a->api;
    a->request.arena = arena_create(0);
    a->first = arena_alloc(a->request.arena, 1);
    a->request.principal.kind = PRINCIPAL_USER;
    a->request.principal.role = PRINCIPAL_ADMIN;
    snprintf(a->request.principal.account_id, sizeof a->request.principal.account_id, "%s", database->account);
}

static void on_resolved(void *arg, const struct error *err, json_t *value)
{
    struct asking *a = arg;
    a->answers++;
    a->code = err ? err->code : ERROR_NONE;
    if (err) strcpy(a->text, err->text);
    a->value = value;
    // Here the request may end, so that nothing that was kept for it can be wiped later.
    const char *secret = json_get_str(value, "newAccessToken").at;
    if (secret) assert_null(memmem(a->first, KEPT_BYTES, secret, TOKEN_TEXT_BYTES - 1));
}

static bool is_answered(void *arg)
{
    return ((struct asking *)arg)->answers > 0;
}

static void ask(struct asking *a, gql_resolve resolve, const char *arguments)
{
    json_t *given = json_loads(arguments, 0, NULL);
    assert_non_null(given);
    resolve(&a->request, given, on_resolved, a);
    json_decref(given);
    database_run_until(a->database, is_answered, a, 20);
    assert_int_equal(a->answers, 1);
}

static void end(struct asking *a)
{
    json_decref(a->value);
    arena_destroy(a->request.arena);
}

static void expect(struct asking *a, enum error_code code, const char *says)
{
    if (a->code != code || !strstr(a->text, says)) fail_msg("%d %s, not %d %s", a->code, a->text, code, says);
    assert_null(a->value);
    end(a);
}

static const char installation[] = "{\"installationArgs\":{\"runtimeName\":\"prod\",\"cluster\":\"https://"
                                   "c\",\"runtimeVersion\":\"1\",\"componentNames\":"
                                   "[\"a\"],\"managed\":false}}";

static void on_principal(void *arg, const struct error *err, const struct principal *principal)
{
    if (err) fail_msg("%s", err->text);
    assert_true(str_eq(principal->runtime, STR("prod")));
    *(bool *)arg = principal->kind == PRINCIPAL_RUNTIME;
}

static bool is_true(void *arg)
{
    return *(bool *)arg;
}

static void test_create(void **state)
{
    struct database *database = database_of(state);
    struct asking a;
    begin(&a, database);
    ask(&a, runtimes_resolve_create_runtime, installation);
    assert_int_equal(a.code, ERROR_NONE);
    assert_int_equal(a.tokens_changed, 1);
    assert_true(str_eq(json_get_str(a.value, "name"), STR("prod")));
    struct token token;
    assert_int_equal(token_parse(json_get_str(a.value, "newAccessToken"), &token, NULL), ERROR_NONE);
    bool is_runtime = false;
    identity_store_authenticate(database->pg, token.id, token.secret_sha256, on_principal, &is_runtime);
    database_run_until(database, is_true, &is_runtime, 20);
    end(&a);

    begin(&a, database);
    ask(&a, runtimes_resolve_create_runtime, installation);
    assert_int_equal(a.tokens_changed, 0);
    expect(&a, ERROR_CONFLICT, "exists");
}

static void test_create_refused(void **state)
{
    struct database *database = database_of(state);
    static const char *const names[] = {
        "", "Prod", "-a", "a-", "a.b", "a_b", "a b", "\xc3\xa9", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct asking a;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char arguments[300];
        snprintf(arguments, sizeof arguments, "{\"installationArgs\":{\"runtimeName\":\"%s\",\"componentNames\":[]}}",
                 names[i]);
        begin(&a, database);
        a.api.options.pg = NULL; // it is not asked
        ask(&a, runtimes_resolve_create_runtime, arguments);
        expect(&a, ERROR_INVALID, "DNS label");
    }
}

static void test_delete(void **state)
{
    struct database *database = database_of(state);
    struct asking a;
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    begin(&a, database);
    ask(&a, runtimes_resolve_delete_runtime, "{\"name\":\"prod\"}");
    assert_int_equal(json_integer_value(a.value), 1);
    assert_int_equal(a.tokens_changed, 1);
    end(&a);

    // The command line looks for "does not exist".
    begin(&a, database);
    ask(&a, runtimes_resolve_delete_runtime, "{\"name\":\"prod\"}");
    assert_int_equal(a.tokens_changed, 0);
    expect(&a, ERROR_NOT_FOUND, "runtime \"prod\" does not exist");
}

static void test_node(void **state)
{
    struct database *database = database_of(state);
    struct asking a;
    char id[ID_UUID_BYTES];
    begin(&a, database);
    ask(&a, runtimes_resolve_runtime, "{\"name\":\"none\"}");
    assert_int_equal(a.code, ERROR_NONE);
    assert_null(a.value);
    end(&a);
    database_make_runtime(database, "prod", id);
    begin(&a, database);
    ask(&a, runtimes_resolve_runtime, "{\"name\":\"prod\"}");
    assert_true(str_eq(json_get_str(json_object_get(a.value, "metadata"), "name"), STR("prod")));
    end(&a);
    begin(&a, database);
    api_resolved_node(api_pending_create(&a.request, on_resolved, &a), NULL, STR("{"));
    expect(&a, ERROR_INTERNAL, "");
}

static void take_slice(struct asking *a, const struct store_slice *slice)
{
    api_resolved_slice(api_pending_create(&a->request, on_resolved, a), NULL, slice);
}

static void test_slice(void **state)
{
    static const struct str nodes[] = {{"{\"cluster\":\"a\"}", 15}, {"{\"cluster\":\"b\"}", 15}};
    static const struct str cursors[] = {{"1", 1}, {"2", 1}};
    struct database *database = database_of(state);
    struct asking a;
    begin(&a, database);
    take_slice(&a, &(struct store_slice){.nodes = nodes, .cursors = cursors, .count = 2, .has_next = true});
    size_t len;
    char *text = json_canonical(a.value, &len);
    assert_string_equal(text,
                        "{\"edges\":[{\"cursor\":\"1\",\"node\":{\"cluster\":\"a\"}},{\"cursor\":\"2\",\"node\":"
                        "{\"cluster\":\"b\"}}],\"pageInfo\":{\"endCursor\":\"2\",\"hasNextPage\":true,\"hasPrevPage\":"
                        "false,\"startCursor\":\"1\"}}");
    mem_free(text);
    end(&a);
    begin(&a, database);
    ask(&a, runtimes_resolve_runtimes, "{}");
    assert_int_equal(json_array_size(json_get_array(a.value, "edges")), 0);
    end(&a);

    // More than may be in memory at once: refused before it is decoded. (The length alone is looked at.)
    static const struct str huge[] = {{"{", 100u << 20}, {"{", 100u << 20}};
    begin(&a, database);
    take_slice(&a, &(struct store_slice){.nodes = huge, .cursors = cursors, .count = 2});
    expect(&a, ERROR_TOO_LARGE, "request pages");
}

static void test_page(void **state)
{
    static const char *const bad[] = {"{\"first\":0}", "{\"first\":-1}", "{\"last\":10001}",
                                      "{\"first\":1,\"last\":1}"};
    struct database *database = database_of(state);
    struct asking a;
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "a", id);
    database_make_runtime(database, "b", id);
    begin(&a, database);
    ask(&a, runtimes_resolve_runtimes, "{\"pagination\":{\"first\":1,\"last\":null,\"after\":\"\"}}");
    assert_int_equal(json_array_size(json_get_array(a.value, "edges")), 1);
    end(&a);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char arguments[100];
        snprintf(arguments, sizeof arguments, "{\"pagination\":%s}", bad[i]);
        begin(&a, database);
        a.api.options.pg = NULL; // it is not asked
        ask(&a, runtimes_resolve_runtimes, arguments);
        expect(&a, ERROR_INVALID, "pagination");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create), cmocka_unit_test(test_create_refused), cmocka_unit_test(test_delete),
        cmocka_unit_test(test_node),   cmocka_unit_test(test_slice),          cmocka_unit_test(test_page),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
