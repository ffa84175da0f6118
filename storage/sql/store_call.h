// store_call: how a store's answer gets from a batch to its caller: the shapes of store.h, made
// from rows. For the stores. Each submit function takes the batch; `answer` is the index of the
// statement whose rows are meant.
#ifndef CULVERT_STORAGE_SQL_STORE_CALL_H
#define CULVERT_STORAGE_SQL_STORE_CALL_H

#include <inttypes.h>
#include <stdio.h>

#include "storage/sql/store.h"

// How long callers wait, queueing included. A change may wait behind locks, a list may be long.
enum { STORE_READ_MS = 10000, STORE_CHANGE_MS = 15000 };
enum { STORE_KEYS_MAX = 8, STORE_CURSOR_BYTES_MAX = 2048 };

// node: column 0 of the first row. none: what having no row means (ERROR_NONE: the empty view).
void store_submit_node(struct pg_batch *batch, size_t answer, enum error_code none, const char *none_text,
                       store_node_done on_done, void *arg);
// count: the rows that the statement changed.
void store_submit_count(struct pg_batch *batch, size_t answer, store_count_done on_done, void *arg);
void store_submit_count_within(struct pg_batch *batch, size_t answer, uint64_t deadline_ms, store_count_done on_done,
                               void *arg);

// count: the number that is the statement's one value.
void store_submit_number(struct pg_batch *batch, size_t answer, store_count_done on_done, void *arg);

// A page of a list: where it starts and ends, as values for a statement `(keys) > (...) AND (keys)
// < (...) LIMIT n`.
struct store_window {
    size_t key_count;
    struct str low[STORE_KEYS_MAX], high[STORE_KEYS_MAX]; // exclusive
    char limit[16];                                       // one more than asked for: is there a next page?
    bool is_back;                                         // take the descending statement
    unsigned rows_max;
    bool has_low, has_high;
    char memory[2][STORE_CURSOR_BYTES_MAX]; // behind the views
};
// ERROR_INVALID: a cursor that is not ours.
MUST_CHECK enum error_code store_window_init(struct store_window *window, const struct store_page *page,
                                             size_t key_count, struct error *err);
// Rows: the node, then the keys.
void store_submit_slice(struct pg_batch *batch, const struct store_window *window, store_slice_done on_done, void *arg);
// Tells an error later, as the callbacks promise: through a batch that fails.
void store_fail_slice(struct pg *pg, const struct error *err, store_slice_done on_done, void *arg);

enum { STORE_NUMBER_BYTES = 24 };

// A view into out, which must live until the statement has been added to its batch.
static inline struct pg_param store_number(uint64_t value, char out[STORE_NUMBER_BYTES])
{
    int len = snprintf(out, STORE_NUMBER_BYTES, "%" PRIu64, value);
    return pg_text(str_of(out, (size_t)len));
}

static inline struct pg_param pg_bool(bool value)
{
    return pg_text(value ? STR("t") : STR("f"));
}

#endif
