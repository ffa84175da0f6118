// compiled_read: answers root fields of Query that are bound to rows (api/compile/binding.h): the
// selection, the arguments that are given and the caller's rights become one statement that reads
// what was asked for and nothing else, and its rows become the answer's text. On the loop of its
// request.
#ifndef CULVERT_API_COMPILE_COMPILED_READ_H
#define CULVERT_API_COMPILE_COMPILED_READ_H

#include "api/compile/binding.h"
#include "api/graphql/execution.h"

// gql_resolver.resolve_selected; gql_resolver.with is the struct bound_query, ctx the struct
// api_request.
void compiled_read_resolve(void *ctx, const void *with, const struct gql_selected *selected, gql_written on_written,
                           void *arg);

#endif
