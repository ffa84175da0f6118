// Every statement that declared reads can make is prepared and run against a migrated database: all fields of each
// type, alone and together with each order, direction, page and filter, for users and for runtimes.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/compile/compiled_count.h"
#include "api/compile/compiled_read.h"
#include "api/resolvers.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "modules/modules.h"
#include "modules/schema_sdl.h"
#include "questions.h"

enum { SELECTION_BYTES_MAX = 64 * 1024, QUERY_BYTES_MAX = 128 * 1024 };

static struct gql_schema *schema;
static struct module_tables tables;
static size_t asked;

// All fields of a type; of interfaces and unions their name.
static void add_selection(struct strbuf *out, const struct gql_type *type, unsigned depth)
{
    strbuf_add_c(out, " {__typename");
    for (const struct gql_field_def *def = type->kind == GQL_OBJECT ? type->fields : NULL; def; def = def->next) {
        const struct gql_type *inner = gql_schema_type(schema, gql_type_ref_name(&def->type));
        if (!gql_type_is_leaf(inner) && depth == 0) continue;
        strbuf_addf(out, " %.*s", STR_ARG(def->name));
        if (!gql_type_is_leaf(inner)) add_selection(out, inner, depth - 1);
    }
    strbuf_add_byte(out, '}');
}

// Those that the field needs and that are not among the arguments, which may be empty.
static void add_needed(struct strbuf *out, const char *field, const char *arguments)
{
    const struct gql_field_def *def = gql_type_field(gql_schema_root(schema, GQL_QUERY), str_c(field));
    for (const struct gql_input_def *input = def->arguments; input; input = input->next) {
        char name[128];
        snprintf(name, sizeof name, "%.*s: ", STR_ARG(input->name));
        if (input->type.non_null && !strstr(arguments, name)) strbuf_addf(out, " %s\"x\"", name);
    }
}

static void ask(struct database *database, const char *runtime, const char *field, const char *given,
                const char *selection)
{
    struct strbuf text, all;
    strbuf_init(&text, QUERY_BYTES_MAX);
    strbuf_init(&all, 8192);
    strbuf_add_c(&all, given);
    add_needed(&all, field, given);
    const char *arguments = all.len ? all.at : "";
    strbuf_addf(&text, "{%s%s%s%s%s}", field, *arguments ? "(" : "", arguments, *arguments ? ")" : "", selection);
    json_t *answer = question_ask(database, runtime, text.at, NULL);
    if (json_object_get(answer, "errors"))
        fail_msg("%s(%s): %s", field, arguments, json_dumps(json_object_get(answer, "errors"), JSON_COMPACT));
    json_decref(answer);
    strbuf_finish(&text);
    strbuf_finish(&all);
    asked++;
}

// A value of a type, as a literal; many: a list of two.
static void add_value(struct strbuf *out, const struct gql_type_ref *ref, bool many)
{
    const struct gql_type *type = gql_schema_type(schema, gql_type_ref_name(ref));
    const char *text = "\"2026-01-01T00:00:00Z\"";
    if (type->kind == GQL_ENUM) text = type->names->name.at;
    if (str_eq(type->name, STR("Boolean"))) text = many ? "false" : "true";
    if (str_eq(type->name, STR("Int"))) text = "1";
    size_t len = type->kind == GQL_ENUM ? type->names->name.len : strlen(text);
    strbuf_addf(out, "%s%.*s", ref->item ? "[" : "", (int)len, text);
    if (many && ref->item) strbuf_addf(out, ", %.*s", (int)len, text);
    if (ref->item) strbuf_add_byte(out, ']');
}

static const struct gql_input_def *input_of(const struct gql_field_def *def, const char *name, bool *out_is_filter)
{
    const struct gql_input_def *filters = gql_input_find(def->arguments, STR("filters"));
    const struct gql_type *type = filters ? gql_schema_type(schema, gql_type_ref_name(&filters->type)) : NULL;
    const struct gql_input_def *found = type ? gql_input_find(type->inputs, str_c(name)) : NULL;
    *out_is_filter = found != NULL;
    return found ? found : gql_input_find(def->arguments, str_c(name));
}

// Each filter alone, with further arguments.
static void ask_filters(struct database *database, const struct bound_query *query, const struct gql_field_def *def,
                        const char *field, const char *more, const char *selection)
{
    for (const struct bound_input *input = query->inputs; input->name; input++) {
        bool is_filter;
        const struct gql_input_def *value = input_of(def, input->name, &is_filter);
        assert_non_null(value);
        for (int many = 0; many < 2 && input->type != BOUND_VALUE_REFUSED; many++) {
            struct strbuf arguments;
            strbuf_init(&arguments, 4096);
            strbuf_addf(&arguments, "%s%s: ", is_filter ? "filters: {" : "", input->name);
            add_value(&arguments, &value->type, many);
            strbuf_addf(&arguments, "%s %s", is_filter ? "}" : "", more);
            ask(database, NULL, field, arguments.at, selection);
            strbuf_finish(&arguments);
        }
    }
}

static void ask_orders(struct database *database, const struct bound_query *query, const struct gql_field_def *def)
{
    bool can_sort = gql_input_find(def->arguments, STR("sort")) != NULL;
    bool can_order = can_sort || gql_input_find(def->arguments, STR("orderBy")); // else the default alone
    static const char *const pages[] = {"first: 1", "last: 1", "first: 1, after: \"%s\"", "last: 1, before: \"%s\""};
    for (const struct bound_order *order = query->orders; order->name; order++) {
        // A cursor of this order, by its keys' least values: no row is needed.
        char keys[256], cursor[512], arguments[1024], page[600];
        size_t len = (size_t)snprintf(keys, sizeof keys, "%s", order->name) + 1;
        for (size_t i = 0; i < order->key_count; i++) {
            // Reads as text, as a number and as a time.
            len += (size_t)snprintf(keys + len, sizeof keys - len, "20260101") + 1;
        }
        cursor[format_base64url((const uint8_t *)keys, len, cursor)] = '\0';
        for (size_t i = 0; i < 2 * sizeof pages / sizeof *pages; i++) {
            const char *form = pages[i / 2];
            bool has_cursor = strchr(form, '%') != NULL;
            snprintf(page, sizeof page, "pagination: {%.*s%s%s}", (int)strcspn(form, "%"), form,
                     has_cursor ? cursor : "", has_cursor ? "\"" : "");
            if (!can_order)
                snprintf(arguments, sizeof arguments, "%s", page);
            else
                snprintf(arguments, sizeof arguments, "%s: {field: %s, %s: %s}, %s", can_sort ? "sort" : "orderBy",
                         order->name, can_sort ? "order" : "direction", i % 2 ? "desc" : "asc", page);
            ask(database, NULL, query->field, arguments, " {edges {cursor} pageInfo {startCursor}}");
        }
    }
}

// A single row, by the arguments that it needs, and by all of them.
static void ask_one(struct database *database, const struct bound_query *query, const struct gql_field_def *def,
                    const char *selection)
{
    for (int all = 0; all < 2; all++) {
        struct strbuf arguments;
        strbuf_init(&arguments, 4096);
        for (const struct bound_input *input = query->inputs; input->name; input++) {
            bool is_filter;
            if (!all && !input->is_needed) continue;
            strbuf_addf(&arguments, " %s: ", input->name);
            add_value(&arguments, &input_of(def, input->name, &is_filter)->type, false);
        }
        ask(database, NULL, query->field, arguments.at, selection);
        strbuf_finish(&arguments);
    }
}

// What counts a list: every order's fences, every dimension with every filter.
static void ask_counts(struct database *database, const struct bound_count *count, const struct gql_field_def *def)
{
    struct strbuf arguments;
    strbuf_init(&arguments, 4096);
    if (count->facets) {
        strbuf_add_c(&arguments, "search: \"a\", dimensions: [");
        for (const struct bound_facet *facet = count->facets; facet->name; facet++)
            strbuf_addf(&arguments, "%s ", facet->name);
        strbuf_add_byte(&arguments, ']');
        ask(database, NULL, count->field, arguments.at, " {values {value count} more countedAt}");
        ask_filters(database, count->query, def, count->field, arguments.at, " {more}");
    } else {
        ask(database, NULL, count->field, "", " {total countedAt}");
        ask_filters(database, count->query, def, count->field, "", " {total}");
        for (const struct bound_order *order = count->query->orders; order->name; order++)
            for (int down = 0; down < 2 && gql_input_find(def->arguments, STR("orderBy")); down++) {
                strbuf_clear(&arguments);
                strbuf_addf(&arguments, "orderBy: {field: %s, direction: %s}", order->name, down ? "desc" : "asc");
                ask(database, NULL, count->field, arguments.at, " {total fences {label}}");
            }
    }
    strbuf_finish(&arguments);
}

static void every_count_runs(void **state)
{
    struct database *database = database_of(state);
    struct error err;
    schema = gql_schema_create(str_of(schema_sdl, schema_sdl_bytes), &err);
    assert_non_null(schema);
    module_tables_init(&tables, modules);
    asked = 0;
    for (size_t i = 0; i < tables.resolver_count; i++) {
        if (tables.resolvers[i].resolve_selected != compiled_count_resolve) continue;
        const struct bound_count *count = tables.resolvers[i].with;
        ask_counts(database, count, gql_type_field(gql_schema_root(schema, GQL_QUERY), str_c(count->field)));
    }
    assert_true(asked > 60);
    module_tables_finish(&tables);
    gql_schema_destroy(schema);
}

static void every_statement_runs(void **state)
{
    struct database *database = database_of(state);
    struct error err;
    schema = gql_schema_create(str_of(schema_sdl, schema_sdl_bytes), &err);
    assert_non_null(schema);
    module_tables_init(&tables, modules);
    for (size_t i = 0; i < tables.resolver_count; i++) {
        if (tables.resolvers[i].resolve_selected != compiled_read_resolve) continue;
        const struct bound_query *query = tables.resolvers[i].with;
        const struct gql_field_def *def = gql_type_field(gql_schema_root(schema, GQL_QUERY), str_c(query->field));
        struct strbuf selection;
        strbuf_init(&selection, SELECTION_BYTES_MAX);
        add_selection(&selection, gql_schema_type(schema, gql_type_ref_name(&def->type)), 7);
        if (!query->is_list) ask_one(database, query, def, selection.at);
        if (query->is_list) {
            ask(database, NULL, query->field, "", selection.at);
            if (tables.resolvers[i].access == API_RUNTIMES_TOO) ask(database, "none", query->field, "", selection.at);
            ask_filters(database, query, def, query->field, "", " {pageInfo {endCursor}}");
            ask_orders(database, query, def);
        }
        strbuf_finish(&selection);
    }
    assert_true(asked > 60);
    module_tables_finish(&tables);
    gql_schema_destroy(schema);
}

// Rules about runtimes hold for what runtimes themselves do not read.
static void rules_know_the_runtime_of_what_is_for_users(void **state)
{
    (void)state;
    size_t found = 0;
    module_tables_init(&tables, modules);
    for (size_t i = 0; i < tables.resolver_count; i++) {
        if (tables.resolvers[i].resolve_selected != compiled_read_resolve) continue;
        const struct access_type *type = &((const struct bound_query *)tables.resolvers[i].with)->binding->access;
        if (strcmp(type->name, "workflow") != 0 && strcmp(type->name, "application_set") != 0) continue;
        const struct access_attribute *attribute = type->attributes;
        while (attribute->name && strcmp(attribute->name, "runtime") != 0)
            attribute++;
        assert_non_null(attribute->name);
        assert_int_equal(tables.resolvers[i].access, API_USERS);
        found++;
    }
    assert_int_equal(found, 3); // workflows, workflow, applicationSets
    module_tables_finish(&tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_statement_runs),
        cmocka_unit_test(every_count_runs),
        cmocka_unit_test(rules_know_the_runtime_of_what_is_for_users),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
