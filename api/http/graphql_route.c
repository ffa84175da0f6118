// POST /2.0/api/graphql: the body {"query", "variables", "operationName"} to an execution and back.
#include "api/graphql/execution.h"
#include "api/http/request.h"
#include "api/resolvers.h"
#include "base/mem.h"

static const char json_content_type[] = "application/json; charset=utf-8";

// One execution, in the request's arena.
struct graphql_call {
    struct api_request *request;
    json_t *body;
    struct answer_ticket *ticket;
    bool repeatable;
};

static void on_answered(void *arg, int status, struct str body)
{
    struct graphql_call *call = arg;
    answer_cache_keep(call->ticket, body, call->repeatable);
    api_respond(call->request, status, json_content_type, body);
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

static void execute(struct graphql_call *call)
{
    struct api_request *request = call->request;
    json_t *body = call->body;
    struct gql_request execution = {
        .query = json_get_str(body, "query"),
        .operation_name = json_get_str(body, "operationName"),
        .variables = json_get_object(body, "variables"),
        .schema = request->api->options.schema,
        .resolvers = request->api->options.resolvers,
        .resolver_count = request->api->options.resolver_count,
        .limits = &request->api->options.limits,
        .answer_bytes_max = request->api->options.answer_bytes_max,
        .mutations_allowed = true,
        .ctx = request,
        .admit = api_admit,
        .repeatable = &call->repeatable,
    };
    gql_execute(&execution, on_answered, call);
    json_decref(body);
}

static void on_looked(void *arg, struct str answer, struct answer_ticket *ticket)
{
    struct graphql_call *call = arg;
    call->ticket = ticket;
    if (ticket) {
        execute(call);
        return;
    }
    json_decref(call->body);
    if (answer.len)
        api_respond(call->request, 200, json_content_type, answer);
    else
        api_respond_problem(call->request, 503, "unavailable", "the platform is stopping");
}

// What an answer depends on besides the entities of the account: the query, of what kind the caller is, and of which
// runtime. Should what one user may see ever differ from what another may, that belongs here, too.
static void key_of(const struct graphql_call *call, uint8_t out[ID_SHA256_BYTES])
{
    const json_t *variables = json_get_object(call->body, "variables");
    char *text = variables ? json_dumps(variables, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    struct strbuf parts;
    strbuf_init(&parts, SIZE_MAX / 2);
    strbuf_add_str(&parts, json_get_str(call->body, "query"));
    strbuf_add_byte(&parts, '\0');
    strbuf_add_str(&parts, json_get_str(call->body, "operationName"));
    strbuf_add_byte(&parts, '\0');
    const struct api_principal *who = &call->request->principal;
    strbuf_addf(&parts, "%d %s %s", (int)who->kind, who->runtime, text ? text : "");
    id_sha256(parts.at, parts.len, out);
    strbuf_finish(&parts);
    mem_free(text);
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
    struct graphql_call *call = arena_alloc(request->arena, sizeof *call);
    *call = (struct graphql_call){.request = request, .body = body};
    uint8_t key[ID_SHA256_BYTES];
    key_of(call, key);
    answer_cache_look(request->api->answers, request->principal.account_id, key, on_looked, call);
}

void api_graphql_schema(struct api_request *request)
{
    api_respond(request, 200, "text/plain; charset=utf-8", request->api->options.sdl);
}
