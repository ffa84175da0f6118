// Rules decide alike in memory, in SQL and by a slow evaluator that follows their definition: random
// rules over random entities. The seed is printed; CULVERT_TEST_SEED sets it.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/access/access_scope.h"
#include "base/id.h"
#include "base/strbuf.h"
#include "database.h"

enum { ROUNDS = 40, RULES_MAX = 24, OBJECTS = 60, TEXT_BYTES_MAX = 1024 * 1024 };

static unsigned seed;

static size_t below(size_t bound)
{
    return (size_t)rand_r(&seed) % bound;
}

// ---- what is random -----------------------------------------------------------------------------

static const char *const values[] = {"a", "b", "c", "a\"b", "Ä\\", "{x}"};
// The last is none that Kubernetes accepts; a rule may name it nevertheless.
static const char *const label_keys[] = {"tier", "team", "app.kubernetes.io/part-of", "it's \\n"};
enum { LABEL_KEYS = sizeof label_keys / sizeof *label_keys };
static const struct {
    const char *attribute, *column;
} columns[] = {
    {"CLUSTER", "cluster"}, {"GIT_SOURCE", "git_source"}, {"NAMESPACE", "namespace"}, {"RUNTIME", "runtime"}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static const char *any_value(void)
{
    return values[below(sizeof values / sizeof *values)];
}

// Of a label; sometimes one that did not leave its cluster.
static const char *any_label(void)
{
    return below(6) ? any_value() : "hmac-sha256:00112233445566778899aabbccddeeff";
}

static json_t *random_rule(size_t number)
{
    json_t *attributes = json_array(), *actions = json_array();
    size_t keys[2] = {below(LABEL_KEYS), below(LABEL_KEYS)};
    for (size_t i = below(5); i > 0; i--) {
        if (below(2))
            json_array_append_new(attributes, json_pack("{s:s, s:s, s:s}", "name", "LABEL", "key",
                                                        label_keys[keys[below(2)]], "value", any_value()));
        else
            json_array_append_new(attributes, json_pack("{s:s, s:n, s:s}", "name", columns[below(COLUMNS)].attribute,
                                                        "key", "value", any_value()));
    }
    if (below(4)) json_array_append_new(actions, json_string("VIEW"));
    json_array_append_new(actions, json_string("SYNC"));
    char id[ID_ACCOUNT_BYTES];
    snprintf(id, sizeof id, "%024zx", number);
    bool may_be_wide = json_array_size(attributes) > 0 || below(20) == 0;
    if (!may_be_wide)
        json_array_append_new(attributes, json_pack("{s:s, s:s}", "name", "RUNTIME", "value", any_value()));
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", id, "entityType", below(8) ? "gitopsApplications" : "workflows",
                     "effect", below(3) ? "ALLOW" : "DENY", "actions", actions, "attributes", attributes);
}

static json_t *random_object(size_t number)
{
    json_t *object = json_pack("{s:I, s:{}}", "number", (json_int_t)number, "labels");
    for (size_t i = 0; i < COLUMNS; i++)
        if (below(5)) json_object_set_new(object, columns[i].column, json_string(any_value()));
    for (size_t i = 0; i < LABEL_KEYS; i++)
        if (below(2)) json_object_set_new(json_object_get(object, "labels"), label_keys[i], json_string(any_label()));
    return object;
}

// ---- the slow evaluator -------------------------------------------------------------------------

static bool has_value(const json_t *object, const json_t *attribute, bool is_deny)
{
    struct str name = json_get_str(attribute, "name"), found = STR_EMPTY;
    char key[64];
    snprintf(key, sizeof key, "%.*s", STR_ARG(json_get_str(attribute, "key")));
    if (str_eq(name, STR("LABEL"))) found = json_get_str(json_object_get(object, "labels"), key);
    for (size_t i = 0; i < COLUMNS; i++)
        if (str_eq(name, str_c(columns[i].attribute))) found = json_get_str(object, columns[i].column);
    if (str_starts(found, STR("hmac-sha256:"))) return is_deny;
    return found.len && str_eq(found, json_get_str(attribute, "value"));
}

// For each attribute that the rule names, one of those that it names it with.
static bool matches(const json_t *object, const json_t *rule)
{
    const json_t *attributes = json_get_array(rule, "attributes"), *wanted, *other;
    size_t i, j;
    json_array_foreach(attributes, i, wanted)
    {
        bool has_one = false;
        json_array_foreach(attributes, j, other)
        {
            bool is_alternative = str_eq(json_get_str(wanted, "name"), json_get_str(other, "name")) &&
                                  str_eq(json_get_str(wanted, "key"), json_get_str(other, "key"));
            if (is_alternative && has_value(object, other, str_eq(json_get_str(rule, "effect"), STR("DENY"))))
                has_one = true;
        }
        if (!has_one) return false;
    }
    return true;
}

static bool is_about(const json_t *rule, const char *action)
{
    const json_t *each;
    size_t i;
    json_array_foreach(json_get_array(rule, "actions"), i, each)
    {
        if (str_eq(json_str(each), str_c(action)))
            return str_eq(json_get_str(rule, "entityType"), STR("gitopsApplications"));
    }
    return false;
}

static struct access_decision decide_slowly(const json_t *rules, const json_t *object, const char *action,
                                            bool is_default_allow)
{
    const json_t *rule;
    size_t i;
    static const char *const effects[] = {"DENY", "ALLOW"};
    for (int is_allow = 0; is_allow < 2; is_allow++)
        json_array_foreach(rules, i, rule)
        {
            if (!is_about(rule, action) || !str_eq(json_get_str(rule, "effect"), str_c(effects[is_allow]))) continue;
            if (!matches(object, rule)) continue;
            return (struct access_decision){is_allow, is_allow ? ACCESS_ALLOW_RULE : ACCESS_DENY_RULE,
                                            json_get_str(rule, "id").at};
        }
    return (struct access_decision){is_default_allow, is_default_allow ? ACCESS_DEFAULT_ALLOW : ACCESS_DEFAULT_DENY,
                                    NULL};
}

// ---- comparison ---------------------------------------------------------------------------------

static struct access_decision decide(struct access_rules *rules, const json_t *json, enum access_action action)
{
    struct access_label labels[LABEL_KEYS];
    struct access_object object = {.labels = labels};
    static const enum access_attribute_name names[] = {ATTRIBUTE_CLUSTER, ATTRIBUTE_GIT_SOURCE, ATTRIBUTE_NAMESPACE,
                                                       ATTRIBUTE_RUNTIME};
    const char *key;
    json_t *value;
    for (size_t i = 0; i < COLUMNS; i++)
        object.values[names[i]] = json_get_str(json, columns[i].column);
    json_object_foreach(json_object_get(json, "labels"), key, value) labels[object.label_count++] =
        (struct access_label){str_c(key), json_str(value)};
    return access_decide(rules, ENTITY_GITOPS_APPLICATIONS, action, &object);
}

static const struct access_attribute attributes[] = {
    {"cluster", "(v.o ->> 'cluster')"},     {"git_source", "(v.o ->> 'git_source')"},
    {"namespace", "(v.o ->> 'namespace')"}, {"runtime", "(v.o ->> 'runtime')"},
    {"labels", "(v.o -> 'labels')"},        {NULL, NULL}};

static void on_rows(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct answer *answer = arg;
    (void)count;
    answer_on_node(answer, err, err ? STR_EMPTY : pg_rows_get(results, 0, 0));
}

// " 1 4 9 ": the numbers of the objects that the predicate lets through.
static char *visible_in_sql(struct database *database, struct access_rules *rules, const json_t *objects)
{
    static const struct access_type type = {.name = "application", .attributes = attributes};
    const struct api_principal user = {.kind = PRINCIPAL_USER};
    struct access_predicate predicate = access_predicate_of(&user, rules, &type);
    struct strbuf sql;
    strbuf_init(&sql, TEXT_BYTES_MAX);
    strbuf_add_c(&sql, "SELECT ' ' || coalesce(string_agg(v.o ->> 'number', ' '), '') || ' ' "
                       "FROM jsonb_array_elements($1::jsonb) v (o) WHERE ");
    if (predicate.scope == ACCESS_RULES)
        access_predicate_write(&predicate, 2, &sql);
    else
        strbuf_addf(&sql, "%s AND $2::text IS NOT NULL", predicate.scope == ACCESS_ALL ? "true" : "false");
    char name[40], *text = json_dumps(objects, JSON_COMPACT);
    snprintf(name, sizeof name, "test_access_%u_%d", seed, rand_r(&seed));
    const struct pg_statement statement = {.name = name, .sql = sql.at, .parameters = 2, .is_dynamic = true};
    struct answer answer;
    answer_init(&answer, database);
    struct pg_batch *batch = pg_batch_create(database->pg, database->account);
    pg_batch_add(batch, &statement, (struct pg_param[]){pg_text(str_c(text)), pg_text(predicate.value)});
    pg_batch_submit(batch, 10000, on_rows, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s: %s", answer.text, sql.at);
    char *found = strdup(answer.node);
    answer_finish(&answer);
    strbuf_finish(&sql);
    free(text);
    return found;
}

static void compare(struct database *database, const json_t *list, bool is_default_allow, const json_t *objects)
{
    struct access_rules *rules;
    struct error err;
    char *text = json_dumps(list, JSON_COMPACT), *visible;
    if (access_rules_create(is_default_allow, str_c(text), &rules, &err) != ERROR_NONE) fail_msg("%s", err.text);
    visible = visible_in_sql(database, rules, objects);
    const json_t *object;
    size_t i;
    json_array_foreach(objects, i, object)
    {
        char number[32];
        snprintf(number, sizeof number, " %zu ", i);
        struct access_decision slow = decide_slowly(list, object, "VIEW", is_default_allow),
                               fast = decide(rules, object, ACTION_VIEW),
                               sync = decide_slowly(list, object, "SYNC", is_default_allow);
        bool in_sql = strstr(visible, number) != NULL;
        if (slow.is_allowed != fast.is_allowed || slow.reason != fast.reason || in_sql != slow.is_allowed ||
            strcmp(slow.rule_id ? slow.rule_id : "", fast.rule_id ? fast.rule_id : "") != 0)
            fail_msg("object %s: slow %d %s, memory %d %s, SQL %d; rules %s", json_dumps(object, JSON_COMPACT),
                     slow.is_allowed, slow.rule_id, fast.is_allowed, fast.rule_id, in_sql, text);
        assert_int_equal(sync.is_allowed, decide(rules, object, ACTION_SYNC).is_allowed);
    }
    access_rules_unref(rules);
    free(visible);
    free(text);
}

static void memory_and_sql_decide_as_the_definition(void **state)
{
    struct database *database = database_of(state);
    const char *given = getenv("CULVERT_TEST_SEED");
    uint64_t number;
    id_random(&number, sizeof number);
    seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)number;
    print_message("CULVERT_TEST_SEED=%u\n", seed);
    for (size_t round = 0; round < ROUNDS; round++) {
        json_t *rules = json_array(), *objects = json_array();
        for (size_t i = below(RULES_MAX); i > 0; i--)
            json_array_append_new(rules, random_rule(json_array_size(rules)));
        for (size_t i = 0; i < OBJECTS; i++)
            json_array_append_new(objects, random_object(i));
        compare(database, rules, round % 2, objects);
        json_decref(rules);
        json_decref(objects);
    }
}

// ---- what a type of rows has no column for ------------------------------------------------------

static enum access_scope scope_of(const char *rules_json, bool is_default_allow, const char *type_name)
{
    static const struct access_attribute runtime_only[] = {{"runtime", "r"}, {NULL, NULL}};
    const struct access_type type = {.name = type_name, .attributes = runtime_only};
    const struct api_principal user = {.kind = PRINCIPAL_USER};
    struct access_rules *rules;
    struct error err;
    assert_int_equal(access_rules_create(is_default_allow, str_c(rules_json), &rules, &err), ERROR_NONE);
    enum access_scope scope = access_predicate_of(&user, rules, &type).scope;
    access_rules_unref(rules);
    return scope;
}

#define RULE(effect, attribute)                                                                                        \
    "[{\"id\":\"1\",\"entityType\":\"gitopsApplications\",\"effect\":\"" effect                                        \
    "\",\"actions\":[\"VIEW\"],\"attributes\":[" attribute "]}]"
#define RUNTIME   "{\"name\":\"RUNTIME\",\"value\":\"a\"}"
#define NAMESPACE "{\"name\":\"NAMESPACE\",\"value\":\"a\"}"

static void what_cannot_be_decided_is_not_shown(void **state)
{
    (void)state;
    assert_int_equal(scope_of("[]", true, "resource"), ACCESS_ALL);
    assert_int_equal(scope_of("[]", false, "resource"), ACCESS_NOTHING);
    assert_int_equal(scope_of("[]", true, "a_new_type"), ACCESS_NOTHING);
    assert_int_equal(scope_of("[]", false, "runtime"), ACCESS_ALL);
    assert_int_equal(scope_of(RULE("DENY", RUNTIME), true, "resource"), ACCESS_RULES);
    assert_int_equal(scope_of(RULE("DENY", NAMESPACE), true, "resource"), ACCESS_NOTHING);
    assert_int_equal(scope_of(RULE("ALLOW", NAMESPACE), true, "resource"), ACCESS_ALL);
    assert_int_equal(scope_of(RULE("DENY", RUNTIME), true, "workflow"), ACCESS_ALL);
}

static void rules_of_a_newer_version_allow_nothing(void **state)
{
    (void)state;
    struct access_rules *rules;
    struct error err;
    const char *deny = RULE("DENY", "{\"name\":\"WEATHER\",\"value\":\"a\"}");
    assert_int_equal(access_rules_create(true, str_c(deny), &rules, &err), ERROR_INTERNAL);
    assert_int_equal(scope_of(RULE("ALLOW", "{\"name\":\"WEATHER\",\"value\":\"a\"}"), false, "resource"),
                     ACCESS_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_and_sql_decide_as_the_definition),
        cmocka_unit_test(what_cannot_be_decided_is_not_shown),
        cmocka_unit_test(rules_of_a_newer_version_allow_nothing),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
