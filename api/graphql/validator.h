// validator: what the parts of validation share: the document that is checked, where in it the
// check is, and what was used so far. Internal to validation.c (operations, selections, fragments)
// and validator.c (values and arguments).
#ifndef CULVERT_API_GRAPHQL_VALIDATOR_H
#define CULVERT_API_GRAPHQL_VALIDATOR_H

#include "api/graphql/problems.h"
#include "api/graphql/schema.h"

enum { GQL_SPREADS_MAX = 64 };

struct gql_validator {
    const struct gql_schema *schema;
    const struct gql_document *document;
    const struct gql_limits *limits;
    struct gql_problems *problems;
    const struct gql_operation *operation;               // whose variables are in scope
    bool *used_variables;                                // by their position in the operation
    bool *used_fragments;                                // by their position in the document
    const struct gql_fragment *spreads[GQL_SPREADS_MAX]; // the way from the operation to here
    size_t spread_count;
    unsigned depth, field_depth; // of selections to here, fragments included; of fields alone
    unsigned root_fields;
    unsigned introspection;       // fields to here, from __schema or __type on
    unsigned introspection_lists; // of these, the ones that multiply
    size_t visits;                // selections and values; fragments in fragments multiply them
};

// One more selection or value to look at, unless there were too many.
bool gql_may_visit(struct gql_validator *v, struct gql_location at);
// has_default: the place has a value of its own, which a variable without one leaves alone.
void gql_check_value(struct gql_validator *v, const struct gql_value *value, const struct gql_type_ref *wanted,
                     bool has_default);
// where: "field \"Query.me\"", what: "Field \"me\"", for messages.
void gql_check_arguments(struct gql_validator *v, const struct gql_argument *given, const struct gql_input_def *defined,
                         struct gql_location at, const char *where, const char *what);

#endif
