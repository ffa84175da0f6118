#include "api/compile/shape.h"

#include <stdio.h>

enum { KEY_BYTES_MAX = 256 * 1024 };

// Where the walk is: outside of the node (path NULL), or inside of it at a path that ends with a
// dot, or is empty.
struct walk {
    struct shape *shape;
    struct error *err;
};

static const struct bound_field *field_at(const struct bound_query *query, const char *path)
{
    for (const struct bound_field *field = query->binding->fields; field->path; field++)
        if (strcmp(field->path, path) == 0 && (!field->only || strcmp(field->only, query->field) == 0)) return field;
    return NULL;
}

static const struct bound_object *object_at(const struct binding *binding, const char *path)
{
    for (const struct bound_object *object = binding->objects; object->path; object++)
        if (strcmp(object->path, path) == 0) return object;
    return NULL;
}

static enum shape_role role_of_slice_field(struct str name)
{
    static const struct {
        const char *name;
        enum shape_role role;
    } roles[] = {
        {"edges", SHAPE_EDGES},          {"pageInfo", SHAPE_OBJECT},          {"node", SHAPE_OBJECT},
        {"cursor", SHAPE_CURSOR},        {"startCursor", SHAPE_START_CURSOR}, {"endCursor", SHAPE_END_CURSOR},
        {"hasNextPage", SHAPE_HAS_NEXT}, {"hasPrevPage", SHAPE_HAS_PREV},
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (str_eq(name, str_c(roles[i].name))) return roles[i].role;
    return SHAPE_LEAF; // without a binding: refused
}

static struct shape_node *node_add(struct shape *shape)
{
    if (shape->count == shape->cap) {
        size_t cap = shape->cap ? shape->cap * 2 : 32;
        struct shape_node *nodes = arena_array(shape->projection->arena, cap, sizeof *nodes);
        if (shape->count) memcpy(nodes, shape->nodes, shape->count * sizeof *nodes);
        shape->nodes = nodes;
        shape->cap = cap;
    }
    return &shape->nodes[shape->count++];
}

static void key_add(struct shape *shape, const struct shape_node *node)
{
    strbuf_add_str(&shape->key, node->collected->key);
    strbuf_add_byte(&shape->key, ':');
    strbuf_add_str(&shape->key, node->collected->field->name);
}

static enum error_code walk_fields(struct walk *walk, size_t parent, const struct gql_type *type, const char *path);

// What a field inside of a node is: a leaf, or an object with fields of its own.
static enum error_code set_inside(struct walk *walk, struct shape_node *node, const char *path, char *out_path)
{
    const struct bound_query *query = walk->shape->query;
    int len = snprintf(out_path, SHAPE_PATH_BYTES_MAX, "%s%.*s", path, STR_ARG(node->def->name));
    if (len < 0 || len >= SHAPE_PATH_BYTES_MAX - 1)
        return error_set(walk->err, ERROR_TOO_LARGE, "a field is nested too deep");
    node->field = field_at(query, out_path);
    node->role = node->field ? SHAPE_LEAF : SHAPE_OBJECT;
    node->object = node->field ? NULL : object_at(query->binding, out_path);
    out_path[len] = '.';
    out_path[len + 1] = '\0';
    return ERROR_NONE;
}

static enum error_code walk_field(struct walk *walk, size_t parent, const struct gql_type *type, const char *path,
                                  struct gql_collected *collected)
{
    struct shape *shape = walk->shape;
    if (shape->count == SHAPE_NODES_MAX)
        return error_set(walk->err, ERROR_TOO_LARGE, "more than %d fields are selected", SHAPE_NODES_MAX);
    size_t index = shape->count;
    struct shape_node *node = node_add(shape);
    *node = (struct shape_node){.collected = collected, .owner = type, .parent = parent, .end = index + 1};
    key_add(shape, node);
    char inner_path[SHAPE_PATH_BYTES_MAX] = "";
    if (str_eq(collected->field->name, STR("__typename"))) {
        node->role = SHAPE_TYPENAME;
    } else {
        node->def = gql_type_field(type, collected->field->name);
        if (!path)
            node->role = role_of_slice_field(node->def->name);
        else if (set_inside(walk, node, path, inner_path) != ERROR_NONE)
            return walk->err->code;
    }
    enum error_code code = ERROR_NONE;
    if (node->role == SHAPE_OBJECT || node->role == SHAPE_EDGES) {
        bool is_node = !path && str_eq(node->def->name, STR("node"));
        const struct gql_type *inner = gql_schema_type(shape->projection->schema, gql_type_ref_name(&node->def->type));
        code = walk_fields(walk, index, inner, path || is_node ? inner_path : NULL);
    } else {
        strbuf_add_byte(&shape->key, ',');
    }
    shape->nodes[index].end = shape->count;
    return code;
}

static enum error_code walk_fields(struct walk *walk, size_t parent, const struct gql_type *type, const char *path)
{
    struct shape *shape = walk->shape;
    struct gql_collection *inner = gql_collect_inner(shape->projection, shape->nodes[parent].collected, type);
    if (!inner) return error_set(walk->err, ERROR_TOO_LARGE, "the selection is too large");
    strbuf_add_byte(&shape->key, '{');
    for (size_t i = 0; i < inner->count; i++)
        if (walk_field(walk, parent, type, path, &inner->fields[i]) != ERROR_NONE) return walk->err->code;
    strbuf_add_byte(&shape->key, '}');
    return ERROR_NONE;
}

enum error_code shape_init(struct shape *shape, const struct bound_query *query, const struct gql_selected *selected,
                           struct error *err)
{
    *shape = (struct shape){.projection = selected->projection, .query = query};
    strbuf_init(&shape->key, KEY_BYTES_MAX);
    strbuf_add_c(&shape->key, query->field);
    struct walk walk = {shape, err};
    *node_add(shape) = (struct shape_node){.role = SHAPE_OBJECT, .collected = selected->field, .def = selected->def};
    const struct gql_type *type =
        gql_schema_type(selected->projection->schema, gql_type_ref_name(&selected->def->type));
    enum error_code code = walk_fields(&walk, 0, type, query->is_list ? NULL : "");
    shape->nodes[0].end = shape->count;
    if (code == ERROR_NONE && shape->key.overflow)
        code = error_set(err, ERROR_TOO_LARGE, "the selection is larger than %d bytes", KEY_BYTES_MAX);
    if (code != ERROR_NONE) strbuf_finish(&shape->key);
    return code;
}
