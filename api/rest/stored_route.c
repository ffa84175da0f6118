#include "api/rest/stored_route.h"

#include <stddef.h>
#include <stdlib.h>

#include "api/graphql/validation.h"
#include "base/mem.h"
#include "base/parse.h"

enum { ROUTES_MAX = 400, ARENA_BYTES_MAX = 16 * 1024 * 1024, NAMES_BYTES_MAX = 1024 };

static const struct gql_limits limits = {
    .tokens_max = 5000, .depth_max = 20, .aliases_max = 200, .directives_max = 20, .root_fields_max = 20};

// ---- parts of a route ---------------------------------------------------------------------------

const struct stored_route *stored_route_of(const struct api_route *route)
{
    return (const struct stored_route *)((const char *)route - offsetof(struct stored_route, route));
}

const struct gql_variable *stored_route_variable(const struct stored_route *route, struct str name)
{
    const struct gql_variable *variable = route->document.operations->variables;
    while (variable && !str_eq(variable->name, name))
        variable = variable->next;
    return variable;
}

struct str stored_route_part(const struct stored_route *route, size_t i)
{
    struct str rest = str_c(route->route.path), part;
    while (str_cut(&rest, '{', &part)) {
        str_cut(&rest, '}', &part);
        if (i-- == 0) return part;
    }
    return STR_EMPTY;
}

bool stored_route_has_part(const struct stored_route *route, struct str name)
{
    for (size_t i = 0;; i++) {
        struct str part = stored_route_part(route, i);
        if (!part.len) return false;
        if (str_eq(part, name)) return true;
    }
}

enum error_code stored_route_refuse_name(const struct stored_route *route, const char *what, struct str name,
                                         bool with_parts, struct error *err)
{
    struct strbuf names;
    strbuf_init(&names, NAMES_BYTES_MAX);
    for (const struct gql_variable *v = route->document.operations->variables; v; v = v->next)
        if (with_parts || !stored_route_has_part(route, v->name))
            strbuf_addf(&names, "%s%.*s", names.len ? ", " : "", STR_ARG(v->name));
    error_set(err, ERROR_INVALID, "%s: invalid name \"%.*s\", %s%s", what, STR_ARG(str_first(name, 60)),
              names.len ? "it must be one of " : "none is accepted", names.len ? names.at : "");
    strbuf_finish(&names);
    return err->code;
}

// ---- reading ------------------------------------------------------------------------------------

struct reader {
    struct stored_routes *routes;
    const struct gql_schema *schema;
    struct stored_route *route; // that is read; NULL: none yet
    bool in_document;
    unsigned line;
    struct error *err;
};

static enum error_code fail(struct reader *reader, const char *text, struct str value)
{
    return error_set(reader->err, ERROR_INVALID, "REST routes, line %u: %s \"%.*s\"", reader->line, text,
                     STR_ARG(str_first(value, 200)));
}

static enum error_code check_document(struct reader *reader)
{
    struct stored_route *route = reader->route;
    struct arena *arena = reader->routes->arena;
    struct error bad;
    if (gql_parse(route->document_text, &limits, arena, &route->document, &bad) != ERROR_NONE)
        return fail(reader, arena_printf(arena, "%s in the document of", bad.text), str_c(route->route.path));
    struct gql_problems problems;
    gql_problems_init(&problems, arena);
    gql_validate(reader->schema, &route->document, &limits, &problems);
    if (problems.count)
        return fail(reader, arena_printf(arena, "%s In the document of", problems.list[0].message),
                    str_c(route->route.path));
    return ERROR_NONE;
}

// A tool's arguments are the variables, and its answer is JSON.
static enum error_code check_tool(struct reader *reader)
{
    const struct stored_routes *routes = reader->routes;
    const struct stored_route *route = reader->route;
    if (!route->tool.len) return ERROR_NONE;
    if (route->account.len || route->is_text) return fail(reader, "account and text are not for tools:", route->tool);
    for (const struct stored_route *other = routes->list; other < route; other++)
        if (str_eq(other->tool, route->tool)) return fail(reader, "a second tool", route->tool);
    return ERROR_NONE;
}

static enum error_code end_route(struct reader *reader)
{
    struct stored_route *route = reader->route;
    if (!route) return ERROR_NONE;
    if (!route->document_text.len || !route->answer.len || !route->summary.len)
        return fail(reader, "summary, answer and document are needed before the end of", str_c(route->route.path));
    if (check_document(reader) != ERROR_NONE) return reader->err->code;
    for (size_t i = 0; stored_route_part(route, i).len; i++) {
        struct str part = stored_route_part(route, i);
        if (!str_eq(part, route->account) && !stored_route_variable(route, part))
            return fail(reader, "the document has no variable for the part of the path", part);
    }
    if (route->body.len && !stored_route_variable(route, route->body))
        return fail(reader, "the document has no variable", route->body);
    return check_tool(reader);
}

static enum error_code begin_route(struct reader *reader, struct str value)
{
    struct stored_routes *routes = reader->routes;
    struct str method;
    if (end_route(reader) != ERROR_NONE) return reader->err->code;
    if (routes->count == ROUTES_MAX) return fail(reader, "too many routes before", value);
    if (!str_cut(&value, ' ', &method) || !str_starts(value, STR("/")))
        return fail(reader, "expected METHOD /PATH, found", value);
    bool is_get = str_eq(method, STR("GET"));
    reader->route = &routes->list[routes->count++];
    *reader->route = (struct stored_route){
        .route = {arena_cstr(routes->arena, value), arena_cstr(routes->arena, method), API_USER_OR_RUNTIME,
                  is_get ? API_NO_BODY : API_JSON_BODY, rest_handle},
        .status = 200,
    };
    reader->in_document = false;
    return ERROR_NONE;
}

static enum error_code take_value(struct reader *reader, struct str key, struct str value)
{
    struct stored_route *route = reader->route;
    uint64_t status;
    if (str_eq(key, STR("route"))) return begin_route(reader, value);
    if (!route) return fail(reader, "expected route:, found", key);
    if (str_eq(key, STR("summary")))
        route->summary = value;
    else if (str_eq(key, STR("answer")))
        route->answer = value;
    else if (str_eq(key, STR("body")))
        route->body = value;
    else if (str_eq(key, STR("tool")))
        route->tool = value;
    else if (str_eq(key, STR("account")))
        route->account = value;
    else if (str_eq(key, STR("text")))
        route->is_text = str_eq(value, STR("yes"));
    else if (str_eq(key, STR("lenient"))) {
        route->is_lenient = !str_eq(value, STR("query"));
        route->is_query_lenient = !str_eq(value, STR("body"));
    } else if (str_eq(key, STR("document")))
        reader->in_document = true;
    else if (!str_eq(key, STR("status")) || parse_u64(value, 200, 299, &status, NULL) != ERROR_NONE)
        return fail(reader, "unknown key or value", key);
    else
        route->status = (int)status;
    return ERROR_NONE;
}

static enum error_code take_line(struct reader *reader, struct str line)
{
    struct stored_route *route = reader->route;
    bool begins = str_starts(line, STR("route:"));
    if (reader->in_document && !begins) {
        if (!route->document_text.len) route->document_text = line;
        route->document_text.len = (size_t)(line.at + line.len - route->document_text.at);
        return ERROR_NONE;
    }
    struct str value = str_trim(line), key;
    if (!value.len || str_starts(value, STR("#"))) return ERROR_NONE;
    if (!str_cut(&value, ':', &key)) return fail(reader, "expected KEY: VALUE, found", line);
    return take_value(reader, key, str_trim(value));
}

enum error_code stored_routes_create(struct str text, const struct gql_schema *schema, struct stored_routes **out,
                                     struct error *err)
{
    struct stored_routes *routes = mem_zalloc(sizeof *routes);
    routes->arena = arena_create(ARENA_BYTES_MAX);
    routes->list = arena_array(routes->arena, ROUTES_MAX, sizeof *routes->list);
    struct reader reader = {.routes = routes, .schema = schema, .err = err};
    struct str rest = arena_str(routes->arena, text), line;
    enum error_code code = ERROR_NONE;
    while (rest.len && code == ERROR_NONE) {
        reader.line++;
        str_cut(&rest, '\n', &line);
        code = take_line(&reader, line);
    }
    if (code == ERROR_NONE) code = end_route(&reader);
    if (code == ERROR_NONE)
        *out = routes;
    else
        stored_routes_destroy(routes);
    return code;
}

void stored_routes_destroy(struct stored_routes *routes)
{
    if (!routes) return;
    arena_destroy(routes->arena);
    mem_free(routes);
}
