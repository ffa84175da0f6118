// A request to a stored route: path, query string and body to variables, the execution's answer to
// an answer of REST.
#include <stdio.h>
#include <string.h>

#include "api/graphql/execution.h"
#include "api/http/negotiation.h"
#include "api/http/request.h"
#include "api/rest/stored_answer.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/parse.h"

// ---- variables ----------------------------------------------------------------------------------

static json_t *scalar_of(struct str text, struct str type)
{
    int64_t number;
    bool truth;
    if (str_eq(type, STR("Int")) && parse_i64(text, INT32_MIN, INT32_MAX, &number, NULL) == ERROR_NONE)
        return json_integer(number);
    if (str_eq(type, STR("Boolean")) && parse_bool(text, &truth, NULL) == ERROR_NONE) return json_boolean(truth);
    return json_new_str(text); // what is of the wrong type is refused by the execution
}

// Lists stand with commas between their items.
static json_t *value_of(struct str text, const struct gql_type_ref *type)
{
    struct str name = gql_type_ref_name(type), item;
    if (!type->item) return scalar_of(text, name);
    json_t *list = json_array();
    while (text.len) {
        str_cut(&text, ',', &item);
        if (item.len) json_array_append_new(list, scalar_of(item, name));
    }
    return list;
}

static enum error_code add_parts(struct api_request *request, const struct stored_route *route, json_t *variables,
                                 struct error *err)
{
    for (size_t i = 0; stored_route_part(route, i).len; i++) {
        struct str part = stored_route_part(route, i), text = STR_EMPTY;
        if (query_unescape(request->path_values[i], part, false, request->arena, &text, err) != ERROR_NONE)
            return err->code;
        if (str_eq(part, route->account)) {
            if (!str_eq(text, str_c(request->principal.account_id)))
                return error_set(err, ERROR_NOT_FOUND, "the account does not exist");
            continue;
        }
        const struct gql_variable *variable = stored_route_variable(route, part);
        json_object_setn_new(variables, part.at, part.len, value_of(text, &variable->type));
    }
    return ERROR_NONE;
}

static enum error_code add_query(struct api_request *request, const struct stored_route *route, json_t *variables,
                                 struct error *err)
{
    struct str rest = request->query, value, name;
    while (rest.len) {
        str_cut(&rest, '&', &value);
        if (!value.len) continue;
        str_cut(&value, '=', &name);
        struct str text = STR_EMPTY;
        const struct gql_variable *variable = stored_route_variable(route, name);
        if (!variable || stored_route_has_part(route, name)) {
            if (route->is_query_lenient) continue;
            return stored_route_refuse_name(route, "query parameter", name, false, err);
        }
        enum error_code code = query_field(request->query, name, request->arena, &text, err);
        if (code != ERROR_NONE) return code;
        if (!str_is_utf8(text))
            return error_set(err, ERROR_INVALID, "query parameter \"%.*s\": not UTF-8", STR_ARG(name));
        if (text.len) json_object_setn_new(variables, name.at, name.len, value_of(text, &variable->type));
    }
    return ERROR_NONE;
}

static enum error_code add_members(const struct stored_route *route, json_t *body, json_t *variables, struct error *err)
{
    const char *name;
    json_t *value;
    if (route->body.len) {
        json_object_setn_new(variables, route->body.at, route->body.len, json_incref(body));
        return ERROR_NONE;
    }
    json_object_foreach(body, name, value)
    {
        bool is_known = stored_route_variable(route, str_c(name)) && !stored_route_has_part(route, str_c(name));
        if (is_known)
            json_object_set(variables, name, value);
        else if (!route->is_lenient)
            return stored_route_refuse_name(route, "member of the body", str_c(name), false, err);
    }
    return ERROR_NONE;
}

static enum error_code add_body(struct api_request *request, const struct stored_route *route, json_t *variables,
                                struct error *err)
{
    const struct json_limits limits = {.bytes_max = request->api->options.body_bytes_max};
    json_t *body = NULL;
    if (route->route.body == API_NO_BODY || !str_trim(request->body).len) return ERROR_NONE;
    enum error_code code = json_decode(request->body, &limits, &body, err);
    if (code != ERROR_NONE) return error_prefix(err, "the body is not JSON");
    code = json_is_object(body) ? add_members(route, body, variables, err)
                                : error_set(err, ERROR_INVALID, "the body must be a JSON object");
    json_decref(body);
    return code;
}

// Idempotency-Key: a variable of this name, or a member of the body.
static enum error_code add_key(struct api_request *request, const struct stored_route *route, json_t *variables,
                               struct error *err)
{
    struct str key = request->idempotency_key;
    if (!key.len) return ERROR_NONE;
    if (!str_is_utf8(key)) return error_set(err, ERROR_INVALID, "Idempotency-Key: not UTF-8");
    json_t *place = route->body.len ? json_object_getn(variables, route->body.at, route->body.len) : variables;
    if (!route->body.len && !stored_route_variable(route, STR("idempotencyKey")))
        return error_set(err, ERROR_INVALID, "Idempotency-Key is not accepted at this path");
    if (!json_object_get(place, "idempotencyKey")) json_object_set_new(place, "idempotencyKey", json_new_str(key));
    return ERROR_NONE;
}

// ---- the answer ---------------------------------------------------------------------------------

static void respond_problem(struct api_request *request, const json_t *problem)
{
    static const struct {
        const char *code;
        enum error_code as;
    } codes[] = {{"NOT_FOUND", ERROR_NOT_FOUND},
                 {"CONFLICT", ERROR_CONFLICT},
                 {"FORBIDDEN", ERROR_FORBIDDEN},
                 {"UNAUTHENTICATED", ERROR_UNAUTHENTICATED},
                 {"TOO_MANY_REQUESTS", ERROR_LIMITED},
                 {"SERVICE_UNAVAILABLE", ERROR_UNAVAILABLE},
                 {"TIMEOUT", ERROR_TIMEOUT},
                 {"INTERNAL_SERVER_ERROR", ERROR_INTERNAL},
                 {"RESPONSE_TOO_LARGE", ERROR_TOO_LARGE}};
    struct str code = json_str(json_path(problem, "extensions", "code", NULL));
    struct error err;
    error_set(&err, ERROR_INVALID, "%.*s", STR_ARG(json_get_str(problem, "message")));
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (str_eq(code, str_c(codes[i].code))) err.code = codes[i].as;
    api_respond_error(request, &err);
}

// The same request for what comes behind the cursor.
static void add_link(struct api_request *request, const char *cursor)
{
    struct strbuf link;
    strbuf_init(&link, 16 * 1024);
    strbuf_addf(&link, "<%.*s?", STR_ARG(request->path));
    struct str rest = request->query, pair;
    while (rest.len) {
        str_cut(&rest, '&', &pair);
        if (pair.len && !str_starts(pair, STR("after="))) strbuf_addf(&link, "%.*s&", STR_ARG(pair));
    }
    strbuf_addf(&link, "after=%s>; rel=\"next\"", cursor);
    if (!link.overflow) api_add_header(request, STR("link"), strbuf_str(&link));
    strbuf_finish(&link);
}

// A list of tags, or *.
static bool has_tag(struct str tags, struct str tag)
{
    struct str one;
    while (tags.len) {
        str_cut(&tags, ',', &one);
        one = str_trim(one);
        if (str_starts(one, STR("W/"))) one = str_from(one, 2);
        if (str_eq(one, tag) || str_eq(one, STR("*"))) return true;
    }
    return false;
}

static void respond_text(struct api_request *request, const struct stored_route *route, const char *type,
                         struct str text)
{
    bool reads = route->route.body == API_NO_BODY;
    char hex[ID_SHA256_HEX_BYTES], tag[40], weak[44];
    if (!reads) {
        request->is_secret = true;
        api_respond(request, route->status, type, text);
        return;
    }
    id_sha256_hex(text.at, text.len, hex);
    snprintf(tag, sizeof tag, "\"%.24s\"", hex);
    snprintf(weak, sizeof weak, "W/%s", tag); // one for all codings
    api_add_header(request, STR("etag"), str_c(weak));
    if (has_tag(request->if_none_match, str_c(tag)))
        api_respond(request, 304, NULL, STR_EMPTY);
    else
        api_respond_compressed(request, route->status, type, text);
}

static void respond_value(struct api_request *request, const struct stored_route *route,
                          const struct stored_answer *answer)
{
    if (answer->next) add_link(request, answer->next);
    if (route->is_text) {
        respond_text(request, route, "text/plain; charset=utf-8", json_str(answer->value));
        return;
    }
    char *text = answer->value ? json_dumps(answer->value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    respond_text(request, route, "application/json; charset=utf-8", text ? str_c(text) : STR("null"));
    mem_free(text);
}

static void on_answered(void *arg, int status, struct str body)
{
    (void)status;
    struct api_request *request = arg;
    const struct stored_route *route = stored_route_of(request->route);
    struct stored_answer answer;
    struct error err;
    if (stored_answer_read(route, body, request->api->options.answer_bytes_max, &answer, &err) != ERROR_NONE) {
        api_respond_error(request, &err);
        return;
    }
    bool reads = route->route.body == API_NO_BODY;
    if (answer.problem)
        respond_problem(request, answer.problem);
    else if (reads && !answer.value)
        api_respond_problem(request, 404, "not_found", "no resource at this path");
    else
        respond_value(request, route, &answer);
    stored_answer_finish(&answer);
}

void rest_handle(struct api_request *request)
{
    const struct stored_route *route = stored_route_of(request->route);
    json_t *variables = json_object();
    struct error err;
    enum error_code code = add_parts(request, route, variables, &err);
    if (code == ERROR_NONE) code = add_query(request, route, variables, &err);
    if (code == ERROR_NONE) code = add_body(request, route, variables, &err);
    if (code == ERROR_NONE) code = add_key(request, route, variables, &err);
    if (code == ERROR_NONE)
        api_execute(request, &(struct gql_request){.query = route->document_text, .variables = variables}, on_answered,
                    request);
    else
        api_respond_error(request, &err);
    json_decref(variables);
}

void rest_openapi(struct api_request *request)
{
    api_respond_compressed(request, 200, "application/json; charset=utf-8", request->api->options.stored->openapi);
}
