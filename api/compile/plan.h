// plan: a selection compiled: one statement that reads the columns that were asked for with the
// conditions that were given, and the program that writes its rows. Immutable, counted references;
// of one loop.
#ifndef CULVERT_API_COMPILE_PLAN_H
#define CULVERT_API_COMPILE_PLAN_H

#include "api/compile/read_sql.h"
#include "api/compile/shape.h"
#include "base/list.h"
#include "base/table.h"

enum row_op_kind {
    ROW_TEXT,   // bytes as they are
    ROW_COLUMN, // a value
    ROW_CURSOR,
    ROW_START_CURSOR,
    ROW_END_CURSOR,
    ROW_HAS_NEXT,
    ROW_HAS_PREV,
    ROW_OBJECT, // begins what may be null as a whole: by its condition, or by a null inside that may not be
    ROW_OBJECT_END,
    ROW_LOOP, // once a row
    ROW_LOOP_END,
};

struct row_op {
    enum row_op_kind kind;
    enum bound_kind value;       // of ROW_COLUMN
    bool is_nullable;            // of ROW_COLUMN and ROW_OBJECT
    bool needs_row;              // ROW_OBJECT: null without a row
    int column;                  // of ROW_COLUMN; of ROW_OBJECT its condition, or -1
    size_t node;                 // in the shape
    size_t jump;                 // ROW_OBJECT, ROW_LOOP: their end; ROW_LOOP_END: its begin
    struct str text;             // of ROW_TEXT
    const struct gql_type *type; // of enums
};

struct plan {
    struct table_node node; // of the cache
    struct list used;       // of the cache, in order of use
    unsigned references;
    struct arena *arena;
    struct str key;
    struct read_statement read;
    struct row_op *ops;
    size_t op_count;
    const char *order_name;
    int first_key; // the column of the first key; -1: no cursor is asked for
    int id_column; // of plan_request.id_sql; -1: there is none
    size_t key_count;
    uint64_t row_cost; // of one row, see graphql.cost_max
};

void plan_unref(struct plan *plan); // NULL is fine

struct plan_request {
    const struct bound_query *query;
    const struct shape *shape;
    struct row_choice choice;
    struct row_window window; // limit: with the row that shows that there are more
    const char *id_sql;       // one more column, a text, that names the row; NULL: none
};

// key: what tells plans apart: the shape, and all of the request but values. ERROR_INVALID: a field
// that is not answered.
MUST_CHECK enum error_code plan_make(const struct plan_request *request, struct str key, struct plan **out,
                                     struct error *err);

#endif
