// conflicts: fields that share a response key must be one field (specification section 5.3.2,
// FieldsInSetCanMerge). Checked along the merged tree, twice: fields of parents that can be one
// object must have the same name and arguments, and all must have the same shape. Each field of a
// group is compared with the group's first, so that the work grows with the merged tree alone, and
// that is bounded. Pure.
#ifndef CULVERT_API_GRAPHQL_CONFLICTS_H
#define CULVERT_API_GRAPHQL_CONFLICTS_H

#include "api/graphql/problems.h"
#include "api/graphql/schema.h"

// The operation must be valid in every other way. Adds the first conflict to problems, in
// graphql-js's words, or that the fragments multiply to too many selections.
void gql_check_conflicts(const struct gql_schema *schema, const struct gql_operation *operation,
                         struct gql_problems *problems);

#endif
