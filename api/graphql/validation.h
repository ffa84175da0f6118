// validation: checks an operation against the schema before anything runs (specification section
// 5), with graphql-js's wording, which clients match on. Pure.
#ifndef CULVERT_API_GRAPHQL_VALIDATION_H
#define CULVERT_API_GRAPHQL_VALIDATION_H

#include "api/graphql/problems.h"
#include "api/graphql/schema.h"

// Adds what is wrong to problems; nothing was added: the document is valid.
void gql_validate(const struct gql_schema *schema, const struct gql_document *document, const struct gql_limits *limits,
                  struct gql_problems *problems);

#endif
