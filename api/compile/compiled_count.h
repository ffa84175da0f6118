// compiled_count: answers root fields of Query that count the rows of a bound list: its index (the
// total, and fences: a cursor every so many rows, with a label) and its facets (the values of
// dimensions with their counts, each dimension without the filters of its own). The same conditions
// and rights as the list's (compiled_read.h). On the loop of its request.
#ifndef CULVERT_API_COMPILE_COMPILED_COUNT_H
#define CULVERT_API_COMPILE_COMPILED_COUNT_H

#include "api/compile/binding.h"
#include "api/graphql/execution.h"

// gql_resolver.resolve_selected; gql_resolver.with is the struct bound_count, ctx the struct
// api_request.
void compiled_count_resolve(void *ctx, const void *with, const struct gql_selected *selected, gql_written on_written,
                            void *arg);

#endif
