// store: what the stores have in common. A store is a set of functions over `struct pg`: one noun,
// its .sql file, its meaning. Reads that feed the API give each entity as JSON text in the shape of
// the contract's GraphQL type (all fields that are known, null for unknown), made by PostgreSQL;
// the API only selects from it.
#ifndef CULVERT_STORAGE_SQL_STORE_H
#define CULVERT_STORAGE_SQL_STORE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "storage/pg/pg.h"

enum { STORE_PAGE_MAX = 10000 };

// Keyset pagination as SlicePaginationArgs: cursors are opaque to clients; empty strings mean "not
// given". first and last 0: not given (everything, up to STORE_PAGE_MAX).
struct store_page {
    struct str after, before;
    unsigned first, last;
    unsigned skip; // rows behind the cursor that are passed over; only declared lists take it
};

// Views valid during the callback.
struct store_slice {
    const struct str *nodes;   // JSON objects
    const struct str *cursors; // one a node
    size_t count;
    bool has_next, has_prev;
};
typedef void (*store_slice_done)(void *arg, const struct error *err, const struct store_slice *slice);
// node: a JSON object, or the empty view when there is none (not an error).
typedef void (*store_node_done)(void *arg, const struct error *err, struct str node);
// affected rows, for changes
typedef void (*store_count_done)(void *arg, const struct error *err, uint64_t count);

#endif
