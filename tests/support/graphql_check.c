// Validates documents against the product's schema, for the comparison with graphql-js: reads lines
// {"query": ...} from standard input, writes for each a line {"errors": [message...]}.
#include <stdio.h>
#include <stdlib.h>

#include "api/graphql/validation.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "modules/schema_sdl.h"

static void check(const struct gql_schema *schema, struct str query, json_t *out_messages)
{
    // So wide that none of them decides: what is compared is the language.
    static const struct gql_limits limits = {
        .tokens_max = 100000, .depth_max = 60, .aliases_max = 1000, .directives_max = 1000, .root_fields_max = 1000};
    struct arena *arena = arena_create(0);
    struct gql_document document;
    struct gql_problems problems;
    struct error err;
    gql_problems_init(&problems, arena);
    if (gql_parse(query, &limits, arena, &document, &err) != ERROR_NONE)
        json_array_append_new(out_messages, json_new_str(str_c(err.text)));
    else
        gql_validate(schema, &document, &limits, &problems);
    for (size_t i = 0; i < problems.count; i++)
        json_array_append_new(out_messages, json_new_str(str_c(problems.list[i].message)));
    arena_destroy(arena);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--schema") == 0) {
        fwrite(schema_sdl, 1, schema_sdl_bytes, stdout);
        return 0;
    }
    struct error err;
    struct gql_schema *schema = gql_schema_create(str_of(schema_sdl, schema_sdl_bytes), &err);
    if (!schema) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int status = 0;
    char *line = NULL;
    size_t room = 0;
    for (ssize_t len; status == 0 && (len = getline(&line, &room, stdin)) > 0;) {
        json_t *request;
        if (json_decode(str_of(line, (size_t)len), NULL, &request, &err) != ERROR_NONE) {
            fprintf(stderr, "%s\n", err.text);
            status = 1;
            break;
        }
        json_t *messages = json_array(), *answer = json_pack("{s:o}", "errors", messages);
        check(schema, json_get_str(request, "query"), messages);
        if (json_dumpf(answer, stdout, JSON_COMPACT) != 0 || fputc('\n', stdout) == EOF) status = 1;
        json_decref(answer);
        json_decref(request);
    }
    free(line);
    gql_schema_destroy(schema);
    return status;
}
