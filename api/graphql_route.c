// POST /2.0/api/graphql: the body {"query", "variables", "operationName"} to an execution and back.
#include "api/graphql/execution.h"
#include "api/request.h"
#include "api/resolvers.h"
#include "api/schema_sdl.h"

static const char json_content_type[] = "application/json; charset=utf-8";

static void on_answered(void *arg, int status, struct str body)
{
    api_respond((struct api_request *)arg, status, json_content_type, body);
}

// A body that is no GraphQL request is answered in GraphQL's own shape, which is what its clients read.
static void refuse(struct api_request *request, const char *text)
{
    struct strbuf body;
    strbuf_init(&body, 4096);
    strbuf_add_c(&body, "{\"errors\":[{\"message\":");
    strbuf_add_json(&body, str_c(text));
    strbuf_add_c(&body, ",\"extensions\":{\"code\":\"BAD_REQUEST\"}}]}");
    api_respond(request, 400, json_content_type, strbuf_str(&body));
    strbuf_finish(&body);
}

static const char *fault_of(const json_t *body)
{
    if (!json_is_object(body)) return "The body must be a JSON object; batching is not offered.";
    const json_t *variables = json_object_get(body, "variables"), *name = json_object_get(body, "operationName");
    if (json_get_str(body, "query").len == 0) return "Must provide query string.";
    if (variables && !json_is_object(variables) && !json_is_null(variables)) return "Variables must be an object.";
    if (name && !json_is_string(name) && !json_is_null(name)) return "operationName must be a string.";
    return NULL;
}

void api_graphql(struct api_request *request)
{
    struct error err;
    json_t *body = NULL;
    const struct json_limits limits = {.bytes_max = request->api->options.body_bytes_max};
    if (json_decode(request->body, &limits, &body, &err) != ERROR_NONE) {
        error_prefix(&err, "The body is not JSON");
        refuse(request, err.text);
        return;
    }
    const char *fault = fault_of(body);
    if (fault) {
        json_decref(body);
        refuse(request, fault);
        return;
    }
    struct gql_request execution = {
        .query = json_get_str(body, "query"),
        .operation_name = json_get_str(body, "operationName"),
        .variables = json_get_object(body, "variables"),
        .schema = request->api->options.schema,
        .resolvers = api_resolvers,
        .resolver_count = api_resolver_count,
        .limits = &request->api->options.limits,
        .answer_bytes_max = request->api->options.answer_bytes_max,
        .mutations_allowed = true,
        .ctx = request,
    };
    gql_execute(&execution, on_answered, request);
    json_decref(body);
}

void api_graphql_schema(struct api_request *request)
{
    api_respond(request, 200, "text/plain; charset=utf-8", str_of(api_schema_sdl, api_schema_sdl_bytes));
}
