// json_schema: types of GraphQL as JSON Schema (2020-12, as in OpenAPI 3.1). Each returns a new
// reference. Pure.
#ifndef CULVERT_API_REST_JSON_SCHEMA_H
#define CULVERT_API_REST_JSON_SCHEMA_H

#include <jansson.h>

#include "api/rest/stored_route.h"

json_t *json_schema_type(const char *name, bool is_nullable);
json_t *json_schema_leaf(const struct gql_type *type, bool is_nullable);
// Without properties; no others than those that are added.
json_t *json_schema_object(bool is_nullable);
// Takes the reference.
void json_schema_add(json_t *object, struct str name, json_t *schema, bool is_needed);
// Of an argument or a variable; input objects as far as 12 levels.
json_t *json_schema_input(const struct gql_schema *schema, const struct gql_type_ref *type);
// The variables of a route's document as an object; has_parts: also those of the path.
json_t *json_schema_variables(const struct gql_schema *schema, const struct stored_route *route, bool has_parts);

#endif
