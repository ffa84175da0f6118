#include "api/graphql/problems.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_BYTES_MAX = 1024 };

void gql_problems_init(struct gql_problems *problems, struct arena *arena)
{
    *problems = (struct gql_problems){.arena = arena};
}

void gql_problem_add(struct gql_problems *problems, struct gql_location at, const char *code, const char *path,
                     const char *format, ...)
{
    if (gql_problems_full(problems)) return;
    char text[MESSAGE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    problems->list[problems->count++] = (struct gql_problem){
        .message = arena_cstr(problems->arena, str_c(text)),
        .code = code,
        .path = path,
        .at = at,
    };
}

void gql_problems_write(const struct gql_problems *problems, struct strbuf *out)
{
    strbuf_add_byte(out, '[');
    for (size_t i = 0; i < problems->count; i++) {
        const struct gql_problem *problem = &problems->list[i];
        strbuf_add_c(out, i ? ",{\"message\":" : "{\"message\":");
        strbuf_add_json(out, str_c(problem->message));
        if (problem->at.line)
            strbuf_addf(out, ",\"locations\":[{\"line\":%u,\"column\":%u}]", problem->at.line, problem->at.column);
        if (problem->path) strbuf_addf(out, ",\"path\":%s", problem->path);
        strbuf_addf(out, ",\"extensions\":{\"code\":\"%s\"}}", problem->code);
    }
    strbuf_add_byte(out, ']');
}
