#include "questions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/http/request.h"
#include "api/resolvers.h"
#include "modules/modules.h"
#include "modules/schema_sdl.h"

struct question {
    json_t *answer;
    bool is_done;
};

static void on_answered(void *arg, int status, struct str body)
{
    struct question *question = arg;
    (void)status;
    question->answer = json_loadb(body.at, body.len, 0, NULL);
    question->is_done = true;
}

static bool is_answered(void *arg)
{
    return ((struct question *)arg)->is_done;
}

static struct api_principal principal_of(const struct database *database, const char *runtime)
{
    struct api_principal principal = {.kind = runtime ? PRINCIPAL_RUNTIME : PRINCIPAL_USER};
    snprintf(principal.account_id, sizeof principal.account_id, "%s", database->account);
    snprintf(principal.runtime, sizeof principal.runtime, "%s", runtime ? runtime : "");
    return principal;
}

json_t *question_ask(struct database *database, const char *runtime, const char *query, const char *variables)
{
    static const struct gql_limits limits = {
        .tokens_max = 5000, .depth_max = 12, .aliases_max = 30, .directives_max = 50, .root_fields_max = 20};
    struct error err;
    struct module_tables tables;
    struct gql_schema *schema = gql_schema_create(str_of(schema_sdl, schema_sdl_bytes), &err);
    if (!schema) fail_msg("%s", err.text);
    module_tables_init(&tables, modules);
    struct api api = {.options = {.pg = database->pg, .query_cost_max = 20000},
                      .plans = plan_cache_create(16),
                      .counts = count_cache_create(16, 0)};
    struct api_request request = {.api = &api, .arena = arena_create(0), .principal = principal_of(database, runtime)};
    json_t *values = variables ? json_loads(variables, 0, NULL) : NULL;
    const struct gql_request gql = {.query = str_c(query),
                                    .variables = values,
                                    .schema = schema,
                                    .resolvers = tables.resolvers,
                                    .resolver_count = tables.resolver_count,
                                    .limits = &limits,
                                    .answer_bytes_max = 8 << 20,
                                    .mutations_allowed = true,
                                    .admit = api_admit,
                                    .ctx = &request};
    struct question question = {0};
    gql_execute(&gql, on_answered, &question);
    database_run_until(database, is_answered, &question, 20);
    json_decref(values);
    arena_destroy(request.arena);
    plan_cache_destroy(api.plans);
    count_cache_destroy(api.counts);
    module_tables_finish(&tables);
    gql_schema_destroy(schema);
    assert_non_null(question.answer);
    return question.answer;
}

json_t *question_field(struct database *database, const char *query, const char *variables, const char *field)
{
    json_t *answer = question_ask(database, NULL, query, variables);
    json_t *value = json_path(answer, "data", field, NULL);
    if (json_object_get(answer, "errors"))
        fail_msg("%s: %s", variables ? variables : "", json_dumps(json_object_get(answer, "errors"), JSON_COMPACT));
    json_incref(value);
    json_decref(answer);
    return value;
}
