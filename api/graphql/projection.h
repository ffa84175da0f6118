// projection: the answer's text from the entities that resolvers gave, by the operation's selections (specification
// section 6.4). An entity is a JSON value with more fields than are asked for; a field it lacks is null. Pure.
#ifndef CULVERT_API_GRAPHQL_PROJECTION_H
#define CULVERT_API_GRAPHQL_PROJECTION_H

#include "api/graphql/problems.h"
#include "api/graphql/schema.h"
#include "base/json.h"

// One field of an object after merging: every selection with this response key.
struct gql_collected {
    struct str key;
    const struct gql_selection *field; // the first
    const struct gql_selection **all;
    size_t count;
};

struct gql_collection {
    struct gql_collected *fields;
    size_t count;
};

struct gql_projection {
    const struct gql_schema *schema;
    const struct gql_document *document;
    const json_t *variables;
    struct gql_problems *problems;
    struct arena *arena;
};

// The fields of an operation's root, in order of first appearance. Specification section 6.3.2, CollectFields().
void gql_collect(const struct gql_projection *projection, const struct gql_type *type,
                 const struct gql_selection *selections, struct gql_collection *out);
// Appends "key":value of one root field. False: a null that may not be went up to the root: `data` is null.
bool gql_project_root(const struct gql_projection *projection, const struct gql_type *root,
                      const struct gql_collected *field, const json_t *value, struct strbuf *out);

#endif
