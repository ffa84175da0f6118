#include "api/rest/mcp.h"

#include "api/graphql/execution.h"
#include "api/http/request.h"
#include "api/rest/json_schema.h"
#include "api/rest/stored_answer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { MESSAGE_DEPTH_MAX = 32 };

// Of JSON-RPC 2.0, section 5.1.
enum rpc_code {
    PARSE_ERROR = -32700,
    INVALID_REQUEST = -32600,
    METHOD_NOT_FOUND = -32601,
    INVALID_PARAMS = -32602,
    UNSUPPORTED_PROTOCOL_VERSION = -32022 // of MCP
};

// The newest one first.
static const char *const versions[] = {"2025-11-25", "2025-06-18"};

static const char instructions[] =
    "Culvert knows the Argo CD applications, rollouts and workflows of many clusters. A list has items and next: pass "
    "next as after for more, and first for fewer items. freshness and observedAt are the age of what is shown: "
    "anything but live may be different by now. run_operation changes a cluster; get_operation has what became of it.";

// In the request's arena.
struct mcp_call {
    struct api_request *request;
    const struct stored_route *route; // of a tool
    json_t *message;
};

// ---- answers ------------------------------------------------------------------------------------

static json_t *id_of(const struct mcp_call *call)
{
    json_t *id = json_object_get(call->message, "id");
    return id ? json_incref(id) : json_null();
}

static void respond(struct mcp_call *call, int status, json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    json_decref(call->message);
    api_respond_compressed(call->request, status, "application/json", str_c(text));
    mem_free(text);
}

static void respond_result(struct mcp_call *call, json_t *result)
{
    respond(call, 200, json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", id_of(call), "result", result));
}

static json_t *error_of(enum rpc_code code, const char *text)
{
    return json_pack("{s:i, s:o}", "code", (int)code, "message", json_new_str(str_c(text)));
}

static void respond_problem(struct mcp_call *call, int status, json_t *error)
{
    respond(call, status, json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", id_of(call), "error", error));
}

static void respond_error(struct mcp_call *call, int status, enum rpc_code code, const char *text)
{
    respond_problem(call, status, error_of(code, text));
}

// What went wrong in a tool is its result, so that the model reads it.
static void respond_tool(struct mcp_call *call, struct str text, bool is_error)
{
    metric_add(
        metric_with(metrics_counter("culvert_mcp_tool_calls_total", "Calls of tools over MCP.", "tool", "result", NULL),
                    arena_cstr(call->request->arena, call->route->tool), is_error ? "error" : "ok"),
        1);
    json_t *content = json_pack("{s:s, s:o}", "type", "text", "text", json_new_str(text));
    respond_result(call, json_pack("{s:[o], s:b}", "content", content, "isError", is_error));
}

// ---- tools --------------------------------------------------------------------------------------

static json_t *tool_of(const struct gql_schema *schema, const struct stored_route *route)
{
    bool reads = route->route.body == API_NO_BODY;
    return json_pack("{s:o, s:o, s:o, s:{s:b, s:b}}", "name", json_new_str(route->tool), "description",
                     json_new_str(route->summary), "inputSchema", json_schema_variables(schema, route, true),
                     "annotations", "readOnlyHint", reads, "destructiveHint", !reads);
}

void mcp_write_tools(struct stored_routes *routes, const struct gql_schema *schema)
{
    json_t *tools = json_array();
    for (size_t i = 0; i < routes->count; i++)
        if (routes->list[i].tool.len) json_array_append_new(tools, tool_of(schema, &routes->list[i]));
    char *text = json_dumps(tools, JSON_COMPACT);
    routes->tools = arena_str(routes->arena, str_c(text));
    mem_free(text);
    json_decref(tools);
}

static const struct stored_route *find_tool(const struct stored_routes *routes, struct str name)
{
    for (size_t i = 0; name.len && i < routes->count; i++)
        if (str_eq(routes->list[i].tool, name)) return &routes->list[i];
    return NULL;
}

static enum error_code check_arguments(const struct stored_route *route, json_t *arguments, struct error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(arguments, name, value)
    {
        if (!stored_route_variable(route, str_c(name)))
            return stored_route_refuse_name(route, "argument", str_c(name), true, err);
    }
    return ERROR_NONE;
}

static void on_answered(void *arg, int status, struct str body)
{
    struct mcp_call *call = arg;
    struct stored_answer answer;
    struct error err;
    (void)status;
    if (stored_answer_read(call->route, body, call->request->api->options.answer_bytes_max, &answer, &err) !=
        ERROR_NONE) {
        respond_tool(call, str_c(err.text), true);
        return;
    }
    char *text = answer.value ? json_dumps(answer.value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (answer.problem)
        respond_tool(call, json_get_str(answer.problem, "message"), true);
    else
        respond_tool(call, text ? str_c(text) : STR("it does not exist"), !text);
    mem_free(text);
    stored_answer_finish(&answer);
}

static void call_tool(struct mcp_call *call)
{
    const json_t *params = json_object_get(call->message, "params");
    json_t *arguments = json_object_get(params, "arguments");
    struct error err;
    call->route = find_tool(call->request->api->options.stored, json_get_str(params, "name"));
    if (!call->route) {
        respond_error(call, 200, INVALID_PARAMS, "params.name: no tool of this name; tools/list has them");
        return;
    }
    if (arguments && !json_is_object(arguments)) {
        respond_error(call, 200, INVALID_PARAMS, "params.arguments: must be an object");
        return;
    }
    if (check_arguments(call->route, arguments, &err) != ERROR_NONE) {
        respond_tool(call, str_c(err.text), true);
        return;
    }
    if (call->route->route.body != API_NO_BODY) call->request->is_secret = true;
    api_execute(call->request, &(struct gql_request){.query = call->route->document_text, .variables = arguments},
                on_answered, call);
}

// ---- the other methods --------------------------------------------------------------------------

static bool is_known(struct str version)
{
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (str_eq(version, str_c(versions[i]))) return true;
    return false;
}

static void initialize(struct mcp_call *call)
{
    struct str wanted = json_get_str(json_object_get(call->message, "params"), "protocolVersion");
    json_t *version = is_known(wanted) ? json_new_str(wanted) : json_string(versions[0]);
    respond_result(call, json_pack("{s:o, s:{s:{}}, s:{s:s, s:s, s:s}, s:s}", "protocolVersion", version,
                                   "capabilities", "tools", "serverInfo", "name", "culvert", "title", "Culvert",
                                   "version", CULVERT_VERSION, "instructions", instructions));
}

static void ping(struct mcp_call *call)
{
    respond_result(call, json_object());
}

static void list_tools(struct mcp_call *call)
{
    struct str tools = call->request->api->options.stored->tools;
    respond_result(call, json_pack("{s:o}", "tools", json_loadb(tools.at, tools.len, 0, NULL)));
}

static void dispatch(struct mcp_call *call)
{
    static const struct {
        const char *name;
        void (*run)(struct mcp_call *call);
    } methods[] = {{"initialize", initialize}, {"ping", ping}, {"tools/list", list_tools}, {"tools/call", call_tool}};
    struct str method = json_get_str(call->message, "method");
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (str_eq(method, str_c(methods[i].name))) {
            methods[i].run(call);
            return;
        }
    respond_error(call, 200, METHOD_NOT_FOUND, "method: must be initialize, ping, tools/list or tools/call");
}

// Clients of newer versions choose one of these then.
static void refuse_version(struct mcp_call *call)
{
    json_t *error = error_of(UNSUPPORTED_PROTOCOL_VERSION, "MCP-Protocol-Version: not a version that is supported");
    json_t *supported = json_array();
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        json_array_append_new(supported, json_string(versions[i]));
    json_object_set_new(error, "data",
                        json_pack("{s:o, s:o}", "supported", supported, "requested",
                                  json_new_str(call->request->mcp_protocol_version)));
    respond_problem(call, 400, error);
}

static const char *check_message(const json_t *message)
{
    const json_t *id = json_object_get(message, "id");
    if (!json_is_object(message)) return "one message a request; batches are of no version that is taken here";
    if (!str_eq(json_get_str(message, "jsonrpc"), STR("2.0"))) return "jsonrpc: must be \"2.0\"";
    if (id && !json_is_string(id) && !json_is_integer(id)) return "id: must be a string or an integer";
    return json_get_str(message, "method").len ? NULL : "method: must be the name of a method";
}

static bool is_answer(const json_t *message)
{
    return !json_object_get(message, "method") &&
           (json_object_get(message, "result") || json_object_get(message, "error"));
}

void mcp_handle(struct api_request *request)
{
    const struct json_limits limits = {.bytes_max = request->api->options.body_bytes_max,
                                       .depth_max = MESSAGE_DEPTH_MAX};
    struct mcp_call *call = arena_alloc(request->arena, sizeof *call);
    struct error err;
    *call = (struct mcp_call){.request = request};
    if (json_decode(request->body, &limits, &call->message, &err) != ERROR_NONE) {
        respond_error(call, 400, PARSE_ERROR, err.text);
        return;
    }
    const char *why = check_message(call->message);
    // A notification, or an answer to a request that was never made: taken, and nothing is done.
    bool is_silent = is_answer(call->message) || (!why && !json_object_get(call->message, "id"));
    if (request->mcp_protocol_version.len && !is_known(request->mcp_protocol_version)) {
        refuse_version(call);
    } else if (is_silent) {
        json_decref(call->message);
        api_respond(request, 202, NULL, STR_EMPTY);
    } else if (why) {
        respond_error(call, 400, INVALID_REQUEST, why);
    } else {
        dispatch(call);
    }
}
