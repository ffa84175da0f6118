// read_sql: the text of a statement that reads rows of a bound type, while it is made: what numbers
// its parameters, and the parts that lists, counts and facets share. Pure.
#ifndef CULVERT_API_COMPILE_READ_SQL_H
#define CULVERT_API_COMPILE_READ_SQL_H

#include "api/compile/binding.h"
#include "base/arena.h"
#include "base/strbuf.h"
#include "storage/pg/pg.h"

// Where the value of a parameter comes from. index: of the input, of the key or of the option.
enum plan_source { PLAN_ACCOUNT, PLAN_ACCESS, PLAN_INPUT, PLAN_LOW, PLAN_HIGH, PLAN_SKIP, PLAN_OPTION };

struct plan_param {
    enum plan_source source;
    size_t index;
};

enum { PLAN_PARAMS_MAX = 96 };

// How one input is given. PLAN_ALSO: many values, with its also_value among them. The values of
// booleans stand in the text, so that PostgreSQL sees what they leave of a condition.
enum plan_given { PLAN_NOT_GIVEN, PLAN_ONE, PLAN_MANY, PLAN_ALSO, PLAN_TRUE, PLAN_FALSE };

// Which rows of a type are read.
struct row_choice {
    const struct binding *binding;
    const struct bound_input *inputs;
    const enum plan_given *given; // one an input
    struct access_predicate access;
};

struct read_statement {
    struct pg_statement statement; // dynamic
    char name[40];
    struct plan_param params[PLAN_PARAMS_MAX];
};

struct read_sql {
    struct strbuf text; // the caller's to finish
    struct read_statement *statement;
};

void read_sql_init(struct read_sql *sql, struct read_statement *statement);
// The number of a parameter, which is added when it is new.
unsigned read_sql_param(struct read_sql *sql, enum plan_source source, size_t index);
// Text of a declaration, with :account_id as a parameter and :value, outside of quotes, as `value`.
void read_sql_add(struct read_sql *sql, const char *text, const char *value);
// Which rows of a choice are a page.
struct row_window {
    const struct bound_order *order;
    bool is_reversed; // against the declared order
    bool has_low, has_high, has_skip;
    unsigned limit;
};

// " FROM table alias WHERE ..." with all conditions of the choice, and the page's order and limit.
// NULL: all rows, in no order.
void read_sql_add_rows(struct read_sql *sql, const struct row_choice *choice, const struct row_window *window);
void read_sql_add_order(struct read_sql *sql, const struct bound_order *order, bool is_reversed);
// Names the statement by its text, which is copied to the arena, and finishes the text.
// ERROR_TOO_LARGE: it does not fit.
MUST_CHECK enum error_code read_sql_finish(struct read_sql *sql, struct arena *arena, struct error *err);

#endif
