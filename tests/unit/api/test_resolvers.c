// resolvers of runtimes: who may, which names fit, what is asked of the store and what becomes of its answer. The store
// is a double that answers at once.
#include "modules/runtimes/runtimes.h"

#include "base/token.h"
#include "graphql_fixture.h"
#include "modules/runtimes/runtime_store.h"

// ---- the double ----------------------------------------------------------------------------------------------------

static struct {
    struct error err; // what it answers, unless the code is ERROR_NONE
    struct store_slice slice;
    struct str node;
    uint64_t deleted;
    unsigned asked;
    struct runtime_new created;
    struct store_page page;
    const void *kept; // by createRuntime until the answer
} store;

static const struct error *store_error(void)
{
    store.asked++;
    return store.err.code != ERROR_NONE ? &store.err : NULL;
}

void runtime_store_create(struct pg *pg, const char *account_id, const struct runtime_new *runtime,
                          store_node_done on_done, void *arg)
{
    (void)pg;
    assert_string_equal(account_id, "account");
    store.created = *runtime;
    store.kept = arg;
    on_done(arg, store_error(), STR("{\"id\":\"1\",\"name\":\"prod\"}"));
}

void runtime_store_delete(struct pg *pg, const char *account_id, struct str name, store_count_done on_done, void *arg)
{
    (void)pg, (void)name;
    assert_string_equal(account_id, "account");
    on_done(arg, store_error(), store.deleted);
}

void runtime_store_get(struct pg *pg, const char *account_id, struct str name, store_node_done on_done, void *arg)
{
    (void)pg, (void)name;
    assert_string_equal(account_id, "account");
    on_done(arg, store_error(), store.node);
}

void runtime_store_list(struct pg *pg, const char *account_id, const struct store_page *page, store_slice_done on_done,
                        void *arg)
{
    (void)pg;
    assert_string_equal(account_id, "account");
    store.page = *page;
    const struct error *err = store_error();
    on_done(arg, err, err ? NULL : &store.slice);
}

// ---- one request ---------------------------------------------------------------------------------------------------

struct asking {
    struct api api;
    struct api_request request;
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

static void begin(struct asking *a)
{
    memset(a, 0, sizeof *a);
    memset(&store, 0, sizeof store);
    a->api.options.on_tokens_changed = on_tokens_changed;
    a->api.options.ctx = a;
    a->request.api = &a->api;
    a->request.arena = arena_create(0);
    a->request.principal.kind = PRINCIPAL_USER;
    a->request.principal.role = PRINCIPAL_ADMIN;
    strcpy(a->request.principal.account_id, "account");
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
    if (secret) assert_null(memmem(store.kept, sizeof(void *) + TOKEN_TEXT_BYTES, secret, TOKEN_TEXT_BYTES - 1));
}

static void ask(struct asking *a, gql_resolve resolve, const char *arguments)
{
    json_t *given = json_of(arguments);
    resolve(&a->request, given, on_resolved, a);
    json_decref(given);
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

static void test_create(void **state)
{
    (void)state;
    struct asking a;
    begin(&a);
    ask(&a, runtimes_resolve_create_runtime, installation);
    assert_int_equal(a.code, ERROR_NONE);
    assert_int_equal(a.tokens_changed, 1);
    assert_true(str_eq(json_get_str(a.value, "name"), STR("prod")));
    struct token token;
    assert_int_equal(token_parse(json_get_str(a.value, "newAccessToken"), &token, NULL), ERROR_NONE);
    assert_memory_equal(token.secret_sha256, store.created.token_sha256, sizeof token.secret_sha256);
    end(&a);

    begin(&a);
    error_set(&store.err, ERROR_CONFLICT, "the name is taken");
    ask(&a, runtimes_resolve_create_runtime, installation);
    assert_int_equal(a.tokens_changed, 0);
    expect(&a, ERROR_CONFLICT, "the name is taken");
}

static void test_create_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "", "Prod", "-a", "a-", "a.b", "a_b", "a b", "\xc3\xa9", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct asking a;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char arguments[300];
        snprintf(arguments, sizeof arguments, "{\"installationArgs\":{\"runtimeName\":\"%s\",\"componentNames\":[]}}",
                 names[i]);
        begin(&a);
        ask(&a, runtimes_resolve_create_runtime, arguments);
        assert_int_equal(store.asked, 0);
        expect(&a, ERROR_INVALID, "DNS label");
    }
}

static void test_delete(void **state)
{
    (void)state;
    struct asking a;
    begin(&a);
    store.deleted = 1;
    ask(&a, runtimes_resolve_delete_runtime, "{\"name\":\"prod\"}");
    assert_int_equal(json_integer_value(a.value), 1);
    assert_int_equal(a.tokens_changed, 1);
    end(&a);

    // The command line looks for "does not exist".
    begin(&a);
    ask(&a, runtimes_resolve_delete_runtime, "{\"name\":\"prod\"}");
    assert_int_equal(a.tokens_changed, 0);
    expect(&a, ERROR_NOT_FOUND, "runtime \"prod\" does not exist");
}

static void test_node(void **state)
{
    (void)state;
    struct asking a;
    begin(&a);
    ask(&a, runtimes_resolve_runtime, "{\"name\":\"none\"}");
    assert_int_equal(a.code, ERROR_NONE);
    assert_null(a.value);
    end(&a);
    begin(&a);
    store.node = STR("{\"cluster\":\"c\"}");
    ask(&a, runtimes_resolve_runtime, "{\"name\":\"prod\"}");
    assert_true(str_eq(json_get_str(a.value, "cluster"), STR("c")));
    end(&a);
    begin(&a);
    store.node = STR("{");
    ask(&a, runtimes_resolve_runtime, "{\"name\":\"prod\"}");
    expect(&a, ERROR_INTERNAL, "");
}

static void test_slice(void **state)
{
    (void)state;
    static const struct str nodes[] = {{"{\"cluster\":\"a\"}", 15}, {"{\"cluster\":\"b\"}", 15}};
    static const struct str cursors[] = {{"1", 1}, {"2", 1}};
    struct asking a;
    begin(&a);
    store.slice = (struct store_slice){.nodes = nodes, .cursors = cursors, .count = 2, .has_next = true};
    ask(&a, runtimes_resolve_runtimes, "{\"pagination\":{\"first\":2,\"last\":null,\"after\":\"\"}}");
    assert_int_equal(store.page.first, 2);
    size_t len;
    char *text = json_canonical(a.value, &len);
    assert_string_equal(text,
                        "{\"edges\":[{\"cursor\":\"1\",\"node\":{\"cluster\":\"a\"}},{\"cursor\":\"2\",\"node\":"
                        "{\"cluster\":\"b\"}}],\"pageInfo\":{\"endCursor\":\"2\",\"hasNextPage\":true,\"hasPrevPage\":"
                        "false,\"startCursor\":\"1\"}}");
    mem_free(text);
    end(&a);
    begin(&a);
    ask(&a, runtimes_resolve_runtimes, "{}");
    assert_int_equal(json_array_size(json_get_array(a.value, "edges")), 0);
    end(&a);

    // More than may be in memory at once: refused before it is decoded. (The length alone is looked at.)
    static const struct str huge[] = {{"{", 100u << 20}, {"{", 100u << 20}};
    begin(&a);
    store.slice = (struct store_slice){.nodes = huge, .cursors = cursors, .count = 2};
    ask(&a, runtimes_resolve_runtimes, "{}");
    expect(&a, ERROR_TOO_LARGE, "request pages");
}

static void test_page(void **state)
{
    (void)state;
    static const char *const bad[] = {"{\"first\":0}", "{\"first\":-1}", "{\"last\":10001}",
                                      "{\"first\":1,\"last\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct asking a;
        char arguments[100];
        snprintf(arguments, sizeof arguments, "{\"pagination\":%s}", bad[i]);
        begin(&a);
        ask(&a, runtimes_resolve_runtimes, arguments);
        assert_int_equal(store.asked, 0);
        expect(&a, ERROR_INVALID, "pagination");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create), cmocka_unit_test(test_create_refused), cmocka_unit_test(test_delete),
        cmocka_unit_test(test_node),   cmocka_unit_test(test_slice),          cmocka_unit_test(test_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
