// problems: the errors of one request, as they go into the answer's "errors" (GraphQL
// specification, section 7.1.2). At most GQL_PROBLEMS_MAX are kept. Lives in the request's arena.
#ifndef CULVERT_API_GRAPHQL_PROBLEMS_H
#define CULVERT_API_GRAPHQL_PROBLEMS_H

#include "api/graphql/lexer.h"
#include "base/strbuf.h"

// The text of GQL_PROBLEMS_MAX problems, each of a message and a path, escaped, is well below
// GQL_PROBLEMS_BYTES_MAX.
enum { GQL_PROBLEMS_MAX = 20, GQL_PROBLEMS_BYTES_MAX = 1024 * 1024 };

struct gql_problem {
    const char *message;
    const char *code;       // extensions.code
    const char *path;       // JSON array text, or NULL
    struct gql_location at; // line 0: none
};

struct gql_problems {
    struct arena *arena;
    struct gql_problem list[GQL_PROBLEMS_MAX];
    size_t count;
};

void gql_problems_init(struct gql_problems *problems, struct arena *arena);
void gql_problem_add(struct gql_problems *problems, struct gql_location at, const char *code, const char *path,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
static inline bool gql_problems_full(const struct gql_problems *problems)
{
    return problems->count == GQL_PROBLEMS_MAX;
}
// The array with its brackets.
void gql_problems_write(const struct gql_problems *problems, struct strbuf *out);

#endif
