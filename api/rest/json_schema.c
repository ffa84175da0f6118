#include "api/rest/json_schema.h"

#include "base/json/json.h"

enum { INPUT_DEPTH_MAX = 12 };

json_t *json_schema_type(const char *name, bool is_nullable)
{
    return is_nullable ? json_pack("{s:[s, s]}", "type", name, "null") : json_pack("{s:s}", "type", name);
}

static json_t *enum_of(const struct gql_type *type, bool is_nullable)
{
    json_t *schema = json_schema_type("string", is_nullable), *values = json_array();
    for (const struct gql_name *name = type->names; name; name = name->next)
        json_array_append_new(values, json_new_str(name->name));
    if (is_nullable) json_array_append_new(values, json_null());
    json_object_set_new(schema, "enum", values);
    return schema;
}

json_t *json_schema_leaf(const struct gql_type *type, bool is_nullable)
{
    static const char *const names[][2] = {
        {"String", "string"}, {"ID", "string"}, {"Int", "integer"}, {"Float", "number"}, {"Boolean", "boolean"}};
    if (type->kind == GQL_ENUM) return enum_of(type, is_nullable);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_eq(type->name, str_c(names[i][0]))) return json_schema_type(names[i][1], is_nullable);
    return json_object(); // any value
}

json_t *json_schema_object(bool is_nullable)
{
    json_t *schema = json_schema_type("object", is_nullable);
    json_object_set_new(schema, "properties", json_object());
    json_object_set_new(schema, "required", json_array());
    json_object_set_new(schema, "additionalProperties", json_false());
    return schema;
}

void json_schema_add(json_t *object, struct str name, json_t *schema, bool is_needed)
{
    json_object_setn_new(json_object_get(object, "properties"), name.at, name.len, schema);
    if (is_needed) json_array_append_new(json_object_get(object, "required"), json_new_str(name));
}

static json_t *input_of(const struct gql_schema *schemas, const struct gql_type_ref *ref, unsigned depth)
{
    if (ref->item) {
        json_t *schema = json_schema_type("array", !ref->non_null);
        json_object_set_new(schema, "items", input_of(schemas, ref->item, depth));
        return schema;
    }
    const struct gql_type *type = gql_schema_type(schemas, ref->name);
    if (gql_type_is_leaf(type)) return json_schema_leaf(type, !ref->non_null);
    if (depth == INPUT_DEPTH_MAX) return json_object();
    json_t *schema = json_schema_object(!ref->non_null);
    for (const struct gql_input_def *input = type->inputs; input; input = input->next)
        json_schema_add(schema, input->name, input_of(schemas, &input->type, depth + 1),
                        input->type.non_null && !input->has_default);
    return schema;
}

json_t *json_schema_input(const struct gql_schema *schema, const struct gql_type_ref *type)
{
    return input_of(schema, type, 0);
}

json_t *json_schema_variables(const struct gql_schema *schema, const struct stored_route *route, bool has_parts)
{
    json_t *object = json_schema_object(false);
    for (const struct gql_variable *v = route->document.operations->variables; v; v = v->next)
        if (has_parts || !stored_route_has_part(route, v->name))
            json_schema_add(object, v->name, input_of(schema, &v->type, 0), v->type.non_null && !v->has_default);
    return object;
}
