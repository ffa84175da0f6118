// plan: a selection compiled: one statement that reads the columns that were asked for with the
// conditions that were given, and the program that writes its rows. Immutable, counted references;
// of one loop.
#ifndef CULVERT_API_COMPILE_PLAN_H
#define CULVERT_API_COMPILE_PLAN_H

#include "api/compile/shape.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/table.h"
#include "storage/pg/pg.h"

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

enum plan_source { PLAN_ACCOUNT, PLAN_ACCESS, PLAN_INPUT, PLAN_LOW, PLAN_HIGH };

struct plan_param {
    enum plan_source source;
    size_t index; // of the input or of the key
};

enum { PLAN_PARAMS_MAX = 96 };

struct plan {
    struct table_node node; // of the cache
    struct list used;       // of the cache, in order of use
    unsigned references;
    struct arena *arena;
    struct str key;
    struct pg_statement statement;
    char statement_name[40];
    struct plan_param params[PLAN_PARAMS_MAX];
    struct row_op *ops;
    size_t op_count;
    const char *order_name;
    int first_key; // the column of the first key; -1: no cursor is asked for
    size_t key_count;
    uint64_t row_cost; // of one row, see graphql.cost_max
};

void plan_unref(struct plan *plan); // NULL is fine

// How one input is given. PLAN_ALSO: many values, with its also_value among them.
enum plan_given { PLAN_NOT_GIVEN, PLAN_ONE, PLAN_MANY, PLAN_ALSO };

struct plan_request {
    const struct bound_query *query;
    const struct shape *shape;
    const struct bound_order *order;
    bool is_reversed; // against the declared order
    bool has_low, has_high;
    unsigned limit;               // rows, with the one that shows that there are more
    const enum plan_given *given; // one an input
    struct access_predicate access;
};

// key: what tells plans apart: the shape, and all of the request but values. ERROR_INVALID: a field
// that is not answered.
MUST_CHECK enum error_code plan_make(const struct plan_request *request, struct str key, struct plan **out,
                                     struct error *err);

#endif
