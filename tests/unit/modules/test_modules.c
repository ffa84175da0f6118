// modules: what they give fits together: each root field of the schema is resolved by one module,
// each path served by one.
#include "modules/modules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/resolvers.h"
#include "modules/schema_sdl.h"

static struct gql_schema *schema_of_all(void)
{
    struct error err;
    struct gql_schema *schema = gql_schema_create(str_of(schema_sdl, schema_sdl_bytes), &err);
    if (!schema) fail_msg("%s", err.text);
    return schema;
}

static size_t resolvers_of(const struct module_tables *tables, enum gql_operation_kind kind, struct str field)
{
    size_t count = 0;
    for (size_t i = 0; i < tables->resolver_count; i++)
        count += tables->resolvers[i].kind == kind && str_eq(str_c(tables->resolvers[i].field), field);
    return count;
}

static void test_each_root_field_has_one_resolver(void **state)
{
    (void)state;
    static const enum gql_operation_kind kinds[] = {GQL_QUERY, GQL_MUTATION, GQL_SUBSCRIPTION};
    struct gql_schema *schema = schema_of_all();
    struct module_tables tables;
    module_tables_init(&tables, modules);
    size_t fields = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct gql_type *root = gql_schema_root(schema, kinds[i]);
        for (const struct gql_field_def *field = root->fields; field; field = field->next) {
            fields++;
            if (resolvers_of(&tables, kinds[i], field->name) != 1)
                fail_msg("%.*s: %zu resolvers", STR_ARG(field->name), resolvers_of(&tables, kinds[i], field->name));
        }
    }
    assert_int_equal(tables.resolver_count, fields); // none is of a field that is not there
    module_tables_finish(&tables);
    gql_schema_destroy(schema);
}

static void test_resolvers_are_complete(void **state)
{
    (void)state;
    struct module_tables tables;
    module_tables_init(&tables, modules);
    for (size_t i = 0; i < tables.resolver_count; i++) {
        const struct gql_resolver *resolver = &tables.resolvers[i];
        if (!resolver->resolve == !resolver->resolve_selected) fail_msg("%s: not one function", resolver->field);
        if (resolver->access < API_USERS || resolver->access > API_OWN)
            fail_msg("%s: access %u", resolver->field, resolver->access);
        if (resolver->is_versioned && resolver->kind == GQL_MUTATION)
            fail_msg("%s: the answer of a mutation cannot be kept", resolver->field);
    }
    module_tables_finish(&tables);
}

static bool share_method(const struct api_route *one, const struct api_route *other)
{
    struct str rest = str_c(one->methods), method;
    while (rest.len) {
        struct str theirs = str_c(other->methods), their;
        str_cut(&rest, ',', &method);
        while (theirs.len) {
            str_cut(&theirs, ',', &their);
            if (str_eq(str_trim(method), str_trim(their))) return true;
        }
    }
    return false;
}

static void test_each_path_is_served_once(void **state)
{
    (void)state;
    struct module_tables tables;
    module_tables_init(&tables, modules);
    assert_true(tables.route_count > 0);
    for (size_t i = 0; i < tables.route_count; i++) {
        const struct api_route *route = &tables.routes[i];
        if (!route->handle || !route->caller) fail_msg("%s: no handler or no caller", route->path);
        if (!api_has_path(str_c(route->path))) fail_msg("%s: not a path of the API", route->path);
        for (size_t k = 0; k < i; k++)
            if (str_eq(str_c(tables.routes[k].path), str_c(route->path)) && share_method(&tables.routes[k], route))
                fail_msg("%s: twice", route->path);
    }
    module_tables_finish(&tables);
}

static void test_names_differ(void **state)
{
    (void)state;
    for (size_t i = 0; modules[i]; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(modules[i]->name, modules[k]->name);
}

static void test_a_module_may_lack_everything(void **state)
{
    (void)state;
    static const struct gql_resolver resolvers[] = {{GQL_QUERY, "cats", NULL, .access = API_USERS}};
    static const struct sweep sweeps[] = {{.name = "one"}, {.name = "two"}};
    static const struct module text = {.name = "text"}, cats = {.name = "cats", MODULE_LIST(resolvers, resolvers)},
                               dogs = {.name = "dogs", MODULE_LIST(sweeps, sweeps)};
    const struct module *const list[] = {&text, &cats, &dogs, NULL}, *const none[] = {NULL};
    struct module_tables tables;
    module_tables_init(&tables, list);
    module_tables_add_sweeps(&tables, sweeps, 1);
    assert_int_equal(tables.resolver_count, 1);
    assert_string_equal(tables.resolvers[0].field, "cats");
    assert_int_equal(tables.sweep_count, 3);
    assert_string_equal(tables.sweeps[1].name, "two");
    assert_string_equal(tables.sweeps[2].name, "one");
    assert_int_equal(tables.route_count + tables.report_kinds.count + tables.report_kinds.beside_count, 0);
    module_tables_finish(&tables);
    module_tables_init(&tables, none);
    assert_int_equal(tables.resolver_count + tables.sweep_count, 0);
    module_tables_finish(&tables);
}

// Each object has one kind: the first that matches, or the one that takes the rest.
static void test_each_report_has_a_kind(void **state)
{
    (void)state;
    struct module_tables tables;
    module_tables_init(&tables, modules);
    const struct report_kinds *kinds = &tables.report_kinds;
    const struct report application = {.ref.group = STR("argoproj.io"), .ref.kind = STR("Application")},
                        other = {.ref.group = STR("apps"), .ref.kind = STR("Deployment")},
                        cluster = {.type = REPORT_CLUSTER}, event = {.type = REPORT_KUBERNETES_EVENT},
                        gone = {.type = REPORT_DELETED, .ref.kind = STR("Cluster")};
    assert_ptr_not_equal(report_kinds_find(kinds, &application), report_kinds_find(kinds, &other));
    assert_ptr_not_equal(report_kinds_find(kinds, &cluster), report_kinds_find(kinds, &other));
    assert_ptr_equal(report_kinds_find(kinds, &cluster), report_kinds_find(kinds, &gone));
    size_t rest = 0;
    for (size_t i = 0; i < kinds->count; i++) {
        rest += !kinds->kinds[i].matches;
        // Of the others a quota counts the rows.
        bool is_counted = kinds->kinds[i].plan && !(kinds->kinds[i].matches && kinds->kinds[i].matches(&event));
        assert_true(is_counted ? kinds->kinds[i].add_held != NULL : kinds->kinds[i].plan != NULL);
    }
    assert_int_equal(rest, 1);
    module_tables_finish(&tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_root_field_has_one_resolver), cmocka_unit_test(test_resolvers_are_complete),
        cmocka_unit_test(test_each_path_is_served_once),         cmocka_unit_test(test_names_differ),
        cmocka_unit_test(test_a_module_may_lack_everything),     cmocka_unit_test(test_each_report_has_a_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
