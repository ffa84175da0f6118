// introspection: what __schema and __type answer (specification section 4), written from the schema
// by the operation's selections. Pure.
#ifndef CULVERT_API_GRAPHQL_INTROSPECTION_H
#define CULVERT_API_GRAPHQL_INTROSPECTION_H

#include "api/graphql/projection.h"

bool gql_is_introspection(struct str field);
// Appends "key":value of such a root field. False: it selects too much; the projection's problems
// says so.
bool gql_introspect(struct gql_projection *projection, const struct gql_type *root, struct gql_collected *field,
                    struct strbuf *out);

#endif
