// Every noun of the command line asks for what the schema of the platform has: as a table, wide and
// whole, without filters and with all of them.
#include "graphql_fixture.h"

#include "cli/query.h"

static void expect_valid(const struct gql_schema *schema, const struct noun *noun, const char *selection,
                         bool has_filters)
{
    struct query query;
    struct strbuf document;
    query_init(&query, noun, selection);
    for (const struct noun_filter *filter = noun->filters; filter->option; filter++) {
        bool is_needed = filter->type[strlen(filter->type) - 1] == '!' && filter->type[0] != '[';
        if (has_filters || (filter->is_argument && is_needed))
            assert_int_equal(query_filter(&query, filter->option, "1", NULL), ERROR_NONE);
    }
    strbuf_init(&document, 32 * 1024);
    query_write_document(&query, &document);
    expect_problem(schema, document.at, NULL);
    strbuf_finish(&document);
    query_finish(&query);
}

// Types of filters are those of the input type: the validator looks at variables as a whole only.
static void expect_filters(const struct gql_schema *schema, const struct noun *noun)
{
    const struct gql_type *type = noun->filter_type ? gql_schema_type(schema, str_c(noun->filter_type)) : NULL;
    if (noun->filter_type) assert_non_null(type);
    struct arena *arena = arena_create(0);
    for (const struct noun_filter *filter = noun->filters; filter->option; filter++) {
        if (filter->is_argument) continue;
        const struct gql_input_def *input = gql_input_find(type->inputs, str_c(filter->name));
        if (!input) fail_msg("%s has no filter %s", noun->filter_type, filter->name);
        assert_string_equal(gql_type_ref_text(&input->type, arena), filter->type);
    }
    arena_destroy(arena);
}

static void documents_are_valid(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(schema_sdl);
    for (const struct noun *noun = nouns; noun->name; noun++) {
        for (unsigned way = 0; way < 6; way++) {
            struct strbuf selection;
            strbuf_init(&selection, 16 * 1024);
            if (way / 2 < 2) {
                noun_select_columns(noun, way / 2 == 1, &selection);
            } else {
                strbuf_addf(&selection, " %s", noun->fields);
            }
            expect_valid(schema, noun, selection.at, way % 2);
            strbuf_finish(&selection);
        }
        expect_filters(schema, noun);
    }
    gql_schema_destroy(schema);
}

static void operations_are_those_of_the_schema(void **state)
{
    (void)state;
    struct gql_schema *schema = schema_of(schema_sdl);
    const struct gql_type *actions = gql_schema_type(schema, STR("RuntimeOperationAction"));
    for (const struct operation_verb *verb = operation_verbs; verb->name; verb++)
        assert_true(gql_type_has_name(actions, str_c(verb->action)));
    gql_schema_destroy(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(documents_are_valid),
                                       cmocka_unit_test(operations_are_those_of_the_schema)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
