// read_inputs: the arguments of a bound root field as conditions: which filters are given, and
// their values for PostgreSQL. In the request's arena. Pure.
#ifndef CULVERT_API_COMPILE_READ_INPUTS_H
#define CULVERT_API_COMPILE_READ_INPUTS_H

#include "api/compile/read_sql.h"
#include "base/json/json.h"

struct read_inputs {
    enum plan_given *given; // one an input
    struct pg_param *values;
    size_t count;
};

// Inputs stand in `filters`, or are arguments themselves. ERROR_INVALID: a value that is refused.
MUST_CHECK enum error_code read_inputs_init(struct read_inputs *out, const struct bound_input *inputs,
                                            const json_t *arguments, struct arena *arena, struct error *err);
// orderBy: {field, direction}, or a list of one; without it the declared first one. ERROR_INVALID:
// the list has no such order.
MUST_CHECK enum error_code read_inputs_order(const struct bound_order *orders, const json_t *arguments,
                                             const struct bound_order **out, bool *out_is_descending,
                                             struct error *err);

#endif
