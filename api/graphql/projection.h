// projection: the answer's text from the entities that resolvers gave, by the operation's
// selections (specification section 6.4). An entity is a JSON value with more fields than are asked
// for; a field it lacks is null. Pure.
#ifndef CULVERT_API_GRAPHQL_PROJECTION_H
#define CULVERT_API_GRAPHQL_PROJECTION_H

#include "api/graphql/problems.h"
#include "api/graphql/schema.h"
#include "base/json/json.h"

struct gql_collection;

// One field of an object after merging: every selection with this response key.
struct gql_collected {
    struct str key;
    const struct gql_selection *field; // the first
    const struct gql_selection **all;
    size_t count, cap;
    struct gql_collection *inner; // of its selections, by concrete type; made when first needed
};

struct gql_collection {
    struct gql_collection *next; // of another type
    const struct gql_type *type;
    struct gql_collected *fields;
    size_t count, cap;
};

struct gql_projection {
    const struct gql_schema *schema;
    const json_t *variables;
    struct gql_problems *problems;
    struct arena *arena;
    size_t selections_left; // to look at while merging: spreading fragments in fragments multiplies them
};

// Where a value stands, for the path of an error; made text only when there is one.
struct gql_place {
    const struct gql_place *outer;
    struct str key; // of an object
    size_t index;   // of a list, when key is empty
};

// The fields of an operation's root, in order of first appearance. Specification section 6.3.2,
// CollectFields(). The document was validated. NULL: selections_left is used up; problems says so.
struct gql_collection *gql_collect(struct gql_projection *projection, const struct gql_type *type,
                                   const struct gql_selection *selections);
// The fields of a field's selections where its value is of this type; made once. NULL: as
// gql_collect().
struct gql_collection *gql_collect_inner(struct gql_projection *projection, struct gql_collected *field,
                                         const struct gql_type *type);
// Appends "key":value of one root field. False: a null that may not be went up to the root: `data`
// is null.
bool gql_project_root(struct gql_projection *projection, const struct gql_type *root, struct gql_collected *field,
                      const json_t *value, struct strbuf *out);
// The fields inside of a field whose object is of this type. NULL as above.
struct gql_collection *gql_collect_inner(struct gql_projection *p, struct gql_collected *field,
                                         const struct gql_type *type);
// Appends a value inside of the answer. False: it is a null that may not be, noted already.
bool gql_project_value(struct gql_projection *p, const struct gql_type_ref *type, struct gql_collected *field,
                       const json_t *value, const struct gql_place *place, struct strbuf *out);
// Notes that a value does not fit its type; why ends in front of the type's name. Always false.
bool gql_refuse_value(struct gql_projection *p, const struct gql_type_ref *type, const struct gql_place *place,
                      struct gql_location at, const char *why);

#endif
