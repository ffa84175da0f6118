#include "api/rest/openapi.h"

#include <jansson.h>

#include "api/rest/json_schema.h"
#include "base/json/json.h"
#include "base/mem.h"

struct writer {
    const struct gql_schema *schema;
    const struct stored_route *route;
};

// ---- answers ------------------------------------------------------------------------------------

static json_t *selected(const struct writer *writer, const struct gql_type_ref *ref,
                        const struct gql_selection *selections);

static void add_selections(const struct writer *writer, json_t *object, const struct gql_type *type,
                           const struct gql_selection *selection, bool is_needed)
{
    for (; selection; selection = selection->next) {
        if (selection->kind == GQL_FIELD) {
            const struct gql_field_def *def = gql_type_field(type, selection->name);
            json_t *schema =
                def ? selected(writer, &def->type, selection->selections) : json_schema_type("string", false);
            json_schema_add(object, selection->alias, schema, is_needed);
            continue;
        }
        const struct gql_fragment *fragment = selection->fragment;
        struct str name = fragment ? fragment->type : selection->type;
        const struct gql_type *inner = name.len ? gql_schema_type(writer->schema, name) : type;
        add_selections(writer, object, inner, fragment ? fragment->selections : selection->selections,
                       is_needed && inner == type);
    }
}

static json_t *selected(const struct writer *writer, const struct gql_type_ref *ref,
                        const struct gql_selection *selections)
{
    if (ref->item) {
        json_t *schema = json_schema_type("array", !ref->non_null);
        json_object_set_new(schema, "items", selected(writer, ref->item, selections));
        return schema;
    }
    const struct gql_type *type = gql_schema_type(writer->schema, ref->name);
    if (gql_type_is_leaf(type)) return json_schema_leaf(type, !ref->non_null);
    json_t *schema = json_schema_object(!ref->non_null);
    add_selections(writer, schema, type, selections, true);
    return schema;
}

// ---- one operation ------------------------------------------------------------------------------

static const struct gql_selection *selection_at(const struct gql_selection *selection, struct str name)
{
    while (selection && !(selection->kind == GQL_FIELD && str_eq(selection->alias, name)))
        selection = selection->next;
    return selection;
}

// The answer, a slice as its items. NULL: it is not selected.
static json_t *answer_of(const struct writer *writer)
{
    const struct gql_operation *operation = writer->route->document.operations;
    const struct gql_type *type = gql_schema_root(writer->schema, operation->kind);
    const struct gql_selection *selection = operation->selections;
    const struct gql_field_def *def = NULL;
    struct str path = writer->route->answer, name;
    while (path.len) {
        str_cut(&path, '.', &name);
        const struct gql_selection *found = selection_at(selection, name);
        def = found ? gql_type_field(type, found->name) : NULL;
        if (!def) return NULL;
        type = gql_schema_type(writer->schema, gql_type_ref_name(&def->type));
        selection = found->selections;
    }
    const struct gql_selection *edges = selection_at(selection, STR("edges"));
    if (!edges) {
        struct gql_type_ref ref = def->type;
        // Null is 404 when it is read.
        if (writer->route->route.body == API_NO_BODY) ref.non_null = true;
        return selected(writer, &ref, selection);
    }
    const struct gql_field_def *edges_def = gql_type_field(type, STR("edges"));
    const struct gql_type *edge = gql_schema_type(writer->schema, gql_type_ref_name(&edges_def->type));
    const struct gql_selection *node = selection_at(edges->selections, STR("node"));
    const struct gql_field_def *node_def = node ? gql_type_field(edge, STR("node")) : NULL;
    if (!node_def) return NULL;
    json_t *schema = json_schema_object(false), *items = json_schema_type("array", false);
    json_object_set_new(items, "items", selected(writer, &node_def->type, node->selections));
    json_schema_add(schema, STR("items"), items, true);
    json_schema_add(schema, STR("next"), json_schema_type("string", true), true);
    return schema;
}

static json_t *parameter_of(const struct writer *writer, struct str name, const char *place, json_t *schema)
{
    (void)writer;
    json_t *parameter = json_pack("{s:o, s:s, s:b, s:o}", "name", json_new_str(name), "in", place, "required",
                                  str_eq(str_c(place), STR("path")), "schema", schema);
    if (str_eq(str_c(place), STR("query"))) json_object_set_new(parameter, "explode", json_false());
    return parameter;
}

// In a path and a query string nothing is null.
static json_t *parameter_schema(const struct writer *writer, const struct gql_variable *variable)
{
    struct gql_type_ref type = variable->type, item;
    type.non_null = true;
    if (type.item) {
        item = *type.item;
        item.non_null = true;
        type.item = &item;
    }
    return json_schema_input(writer->schema, &type);
}

static json_t *parameters_of(const struct writer *writer)
{
    const struct stored_route *route = writer->route;
    json_t *list = json_array();
    for (const struct gql_variable *v = route->document.operations->variables; v; v = v->next) {
        bool is_part = stored_route_has_part(route, v->name);
        if (!is_part && route->route.body != API_NO_BODY) continue;
        json_t *parameter = parameter_of(writer, v->name, is_part ? "path" : "query", parameter_schema(writer, v));
        if (v->type.non_null && !v->has_default) json_object_set_new(parameter, "required", json_true());
        json_array_append_new(list, parameter);
    }
    if (route->account.len)
        json_array_append_new(list, parameter_of(writer, route->account, "path", json_schema_type("string", false)));
    return list;
}

static json_t *body_of(const struct writer *writer)
{
    const struct stored_route *route = writer->route;
    json_t *schema = route->body.len
                         ? json_schema_input(writer->schema, &stored_route_variable(route, route->body)->type)
                         : json_schema_variables(writer->schema, route, false);
    bool is_needed = json_array_size(json_object_get(schema, "required")) > 0;
    return json_pack("{s:b, s:{s:{s:o}}}", "required", is_needed, "content", "application/json", "schema", schema);
}

static json_t *operation_of(const struct writer *writer, struct error *err)
{
    const struct stored_route *route = writer->route;
    json_t *answer = answer_of(writer);
    if (!answer) {
        error_set(err, ERROR_INVALID, "REST routes: the document of %s does not select its answer \"%.*s\"",
                  route->route.path, STR_ARG(route->answer));
        return NULL;
    }
    char status[8];
    snprintf(status, sizeof status, "%d", route->status);
    json_t *responses = json_object();
    json_object_set_new(responses, status,
                        json_pack("{s:s, s:{s:{s:o}}}", "description", "The answer", "content",
                                  route->is_text ? "text/plain" : "application/json", "schema", answer));
    json_object_set_new(responses, "default", json_pack("{s:s}", "$ref", "#/components/responses/Problem"));
    struct str rest = str_from(str_c(route->route.path), strlen("/v1/")), tag;
    str_cut(&rest, '/', &tag);
    json_t *operation = json_pack("{s:o, s:[o], s:o, s:o}", "summary", json_new_str(route->summary), "tags",
                                  json_new_str(tag), "parameters", parameters_of(writer), "responses", responses);
    if (route->route.body != API_NO_BODY) json_object_set_new(operation, "requestBody", body_of(writer));
    return operation;
}

// ---- the document -------------------------------------------------------------------------------

static json_t *components(void)
{
    json_t *problem = json_pack("{s:s, s:{s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}}, s:[s, s, s, s]}",
                                "type", "object", "properties", "type", "type", "string", "title", "type", "string",
                                "status", "type", "integer", "detail", "type", "string", "code", "type", "string",
                                "traceId", "type", "string", "required", "type", "title", "status", "code");
    json_t *response =
        json_pack("{s:s, s:{s:{s:{s:s}}}}", "description", "Why there is no answer (RFC 9457)", "content",
                  "application/problem+json", "schema", "$ref", "#/components/schemas/Problem");
    json_t *key = json_pack("{s:s, s:s, s:s}", "type", "apiKey", "in", "header", "name", "Authorization");
    return json_pack("{s:{s:o}, s:{s:o}, s:{s:o}}", "schemas", "Problem", problem, "responses", "Problem", response,
                     "securitySchemes", "key", key);
}

static enum error_code add_operation(json_t *paths, const struct writer *writer, struct error *err)
{
    json_t *operation = operation_of(writer, err);
    if (!operation) return err->code;
    char method[16] = "";
    for (size_t i = 0; writer->route->route.methods[i] && i < sizeof method - 1; i++)
        method[i] = (char)(writer->route->route.methods[i] | 0x20);
    json_t *path = json_object_get(paths, writer->route->route.path);
    if (!path) {
        path = json_object();
        json_object_set_new(paths, writer->route->route.path, path);
    }
    json_object_set_new(path, method, operation);
    return ERROR_NONE;
}

enum error_code openapi_write(struct stored_routes *routes, const struct gql_schema *schema, struct error *err)
{
    json_t *paths = json_object();
    enum error_code code = ERROR_NONE;
    for (size_t i = 0; i < routes->count && code == ERROR_NONE; i++) {
        const struct writer writer = {schema, &routes->list[i]};
        if (str_starts(str_c(routes->list[i].route.path), STR("/v1/"))) code = add_operation(paths, &writer, err);
    }
    json_t *whole = json_pack("{s:s, s:{s:s, s:s}, s:[{s:[]}], s:o, s:o}", "openapi", "3.1.0", "info", "title",
                              "Culvert", "version", "1", "security", "key", "paths", paths, "components", components());
    char *text = code == ERROR_NONE ? json_dumps(whole, JSON_COMPACT) : NULL;
    if (text) routes->openapi = arena_str(routes->arena, str_c(text));
    mem_free(text);
    json_decref(whole);
    return code;
}
