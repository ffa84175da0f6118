// shape: what a selection asks of a bound type, as a flat tree: one node a selected field, children
// right behind their parent. It is walked anew for each request; its text is the key of the plan
// cache, and a cached plan refers to nodes by their index. Lives in the request's arena. Pure.
#ifndef CULVERT_API_COMPILE_SHAPE_H
#define CULVERT_API_COMPILE_SHAPE_H

#include "api/compile/binding.h"
#include "api/graphql/execution.h"

enum shape_role {
    SHAPE_TYPENAME,
    SHAPE_OBJECT, // the root, a node, and objects inside
    SHAPE_EDGES,
    SHAPE_CURSOR,
    SHAPE_START_CURSOR,
    SHAPE_END_CURSOR,
    SHAPE_HAS_NEXT,
    SHAPE_HAS_PREV,
    SHAPE_LEAF,
};

struct shape_node {
    enum shape_role role;
    struct gql_collected *collected;
    const struct gql_type *owner;      // the type that has the field
    const struct gql_field_def *def;   // NULL: __typename
    const struct bound_field *field;   // leaves
    const struct bound_object *object; // objects that may be null by a condition
    size_t parent, end;                // end: the index behind its last descendant
};

enum { SHAPE_NODES_MAX = 2000, SHAPE_PATH_BYTES_MAX = 256 };

struct shape {
    struct gql_projection *projection;
    const struct bound_query *query;
    struct shape_node *nodes;
    size_t count, cap;
    struct strbuf key; // of the selection alone; the caller's to finish
};

// ERROR_TOO_LARGE: more than SHAPE_NODES_MAX fields, or a problem was noted.
MUST_CHECK enum error_code shape_init(struct shape *shape, const struct bound_query *query,
                                      const struct gql_selected *selected, struct error *err);

#endif
