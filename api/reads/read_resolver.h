// read_resolver: answers root fields of Query from declared reads (storage/sql/reads.awk), without
// code of their own: lists with filters, orders and pages, and single rows by their arguments. The
// tables are made at build; constant, any thread. The resolver runs on the loop of its request.
#ifndef CULVERT_API_READS_READ_RESOLVER_H
#define CULVERT_API_READS_READ_RESOLVER_H

#include "api/graphql/execution.h"
#include "storage/pg/pg.h"

// The type of a filter's or argument's value as SQL has it.
enum read_type { READ_TEXT, READ_TEXTS, READ_BOOLEAN, READ_NUMBER, READ_TIME };

struct read_input {
    const char *name; // in the schema; of the parameter: filter_<name> or argument_<name>
    enum read_type type;
};

// Statements of one order. Their first column is the node, the second the name of the order, then
// follow the keys as text.
struct read_order {
    const char *name;
    size_t keys;
    const struct pg_statement *forward, *back;
};

// One root field.
struct read {
    const char *type;                // GraphQL type of its nodes
    const char *access;              // entity type whose rules apply; users alone may read today
    const struct read_input *inputs; // end with a NULL name, and so do orders
    const struct read_order *orders; // of a list; the first is the default
    const struct pg_statement *one;  // of a single row
};

// gql_resolver.resolve_with; gql_resolver.with is the struct read.
void api_resolve_read(void *ctx, const void *with, const json_t *arguments, gql_resolved on_resolved, void *arg);

#endif
