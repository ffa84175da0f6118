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

struct api_request;

// Rows of a list's type by their ids, each with the text of its own object, for live windows.
struct compiled_rows {
    const struct bound_query *query; // of the list: its filters apply; valid until on_done
    const char *id_sql;              // the row's id as SQL over it: constant
    // One object of the list's type; its arguments have `ids` and `filters`.
    const struct gql_selected *selected;
    size_t rows_max;
    // For each row that is there, matches and may be read; then on_done, also at once.
    void (*on_row)(void *arg, struct str id, struct str text);
    void (*on_done)(void *arg, const struct error *err);
    void *arg;
};
// rows is copied.
void compiled_read_rows(struct api_request *request, const struct compiled_rows *rows);

#endif
