// What the GraphQL tests share: a request with its arena, the schema of the product or one of the
// test's own.
#ifndef CULVERT_TESTS_UNIT_API_GRAPHQL_FIXTURE_H
#define CULVERT_TESTS_UNIT_API_GRAPHQL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/graphql/execution.h"
#include "api/graphql/validation.h"
#include "api/graphql/variables.h"
#include "base/mem.h"
#include "modules/schema_sdl.h"

// As the server sets them by default.
static const struct gql_limits default_limits = {
    .tokens_max = 1000, .depth_max = 12, .aliases_max = 30, .directives_max = 50, .root_fields_max = 20};

static inline struct gql_schema *schema_of(const char *sdl)
{
    struct error err;
    struct gql_schema *schema = gql_schema_create(str_c(sdl), &err);
    if (!schema) fail_msg("%s", err.text);
    return schema;
}

struct checked {
    struct arena *arena;
    struct gql_document document;
    struct gql_problems problems;
};

static inline void check(struct checked *c, const struct gql_schema *schema, const char *query)
{
    struct error err;
    c->arena = arena_create(0);
    gql_problems_init(&c->problems, c->arena);
    if (gql_parse(str_c(query), &default_limits, c->arena, &c->document, &err) != ERROR_NONE)
        fail_msg("%s: %s", query, err.text);
    gql_validate(schema, &c->document, &default_limits, &c->problems);
}

// The document is valid but for this message; NULL: it is valid.
static inline void expect_problem(const struct gql_schema *schema, const char *query, const char *message)
{
    struct checked c;
    check(&c, schema, query);
    const char *got = c.problems.count ? c.problems.list[0].message : NULL;
    if (!message && got) fail_msg("%s\n  should be valid, but: %s", query, got);
    if (message && !got) fail_msg("%s\n  should not be valid: %s", query, message);
    if (message && strcmp(message, got) != 0) fail_msg("%s\n  says:   %s\n  wanted: %s", query, got, message);
    arena_destroy(c.arena);
}

static inline json_t *json_of(const char *text)
{
    json_error_t why;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &why);
    if (!value) fail_msg("%s: %s", text, why.text);
    return value;
}

#endif
