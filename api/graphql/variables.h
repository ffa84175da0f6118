// variables: the values of an operation's variables and of a field's arguments, coerced to the
// schema's types (specification section 6.1.2, 6.4.1). Pure.
#ifndef CULVERT_API_GRAPHQL_VARIABLES_H
#define CULVERT_API_GRAPHQL_VARIABLES_H

#include "api/graphql/problems.h"
#include "api/graphql/schema.h"
#include "base/json/json.h"

// given: the request's "variables", an object or NULL. New reference: an object with a member for
// every variable that has a value. NULL: problems says why.
json_t *gql_coerce_variables(const struct gql_schema *schema, const struct gql_operation *operation,
                             const json_t *given, struct gql_problems *problems);
// New reference: an object with a member for every argument that has a value (defaults included).
// The document was validated. NULL, ERROR_INVALID: a variable put null where null may not be.
json_t *gql_coerce_arguments(const struct gql_schema *schema, const struct gql_field_def *field,
                             const struct gql_argument *given, const json_t *variables, struct error *err);
// @skip and @include.
bool gql_is_included(const struct gql_directive *directives, const json_t *variables);

#endif
