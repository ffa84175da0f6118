// /2.0/api/graphql: the body of a POST {"query", "variables", "operationName", "extensions"}, or
// the same fields in the query string of a GET, to an execution and back. GraphQL over HTTP, with
// one exception for clients that were written before it: whoever does not ask for a media type gets
// 400, not 200, for a document that is not valid.
#include "api/graphql/execution.h"
#include "api/http/actor.h"
#include "api/http/request.h"
#include "api/live/live.h"
#include "api/resolvers.h"
#include "base/mem.h"

// One execution, in the request's arena.
struct graphql_call {
    struct api_request *request;
    json_t *body;
    struct answer_ticket *ticket;
    bool repeatable, is_mutation, shows_cost;
};

// The answer with what its query cost, for clients that asked with "extensions": {"cost": true}:
// others compare whole answers.
static void respond_with_cost(struct api_request *request, int status, const char *allow, struct str body)
{
    struct strbuf text;
    strbuf_init(&text, body.len + 128);
    strbuf_add(&text, body.at, body.len - 1);
    strbuf_addf(&text, ",\"extensions\":{\"cost\":{\"requested\":%llu,\"limit\":%llu}}}",
                (unsigned long long)request->query_cost, (unsigned long long)request->api->options.query_cost_max);
    api_respond_graphql(request, status, allow, strbuf_str(&text));
    strbuf_finish(&text);
}

static void on_answered(void *arg, int status, struct str body)
{
    struct graphql_call *call = arg;
    struct api_request *request = call->request;
    answer_cache_keep(call->ticket, body, call->repeatable);
    if (status == 400 && request->media == GRAPHQL_MEDIA_JSON_ONLY) status = 200;
    if (call->is_mutation) request->is_secret = true;
    const char *allow = status == 405 ? "POST" : NULL;
    if (call->shows_cost && body.len)
        respond_with_cost(request, status, allow, body);
    else
        api_respond_graphql(request, status, allow, body);
}

// A body that is no GraphQL request is answered in GraphQL's own shape, which is what its clients read.
static void refuse(struct api_request *request, const char *text)
{
    struct strbuf body;
    strbuf_init(&body, 4096);
    strbuf_add_c(&body, "{\"errors\":[{\"message\":");
    strbuf_add_json(&body, str_c(text));
    strbuf_add_c(&body, ",\"extensions\":{\"code\":\"BAD_REQUEST\"}}]}");
    api_respond_graphql(request, 400, NULL, strbuf_str(&body));
    strbuf_finish(&body);
}

static const char *fault_of(const json_t *body)
{
    if (!json_is_object(body)) return "The body must be a JSON object; batching is not offered.";
    const json_t *variables = json_object_get(body, "variables"), *name = json_object_get(body, "operationName");
    const json_t *extensions = json_object_get(body, "extensions");
    if (json_get_str(body, "query").len == 0) return "Must provide query string.";
    if (variables && !json_is_object(variables) && !json_is_null(variables)) return "Variables must be an object.";
    if (extensions && !json_is_object(extensions) && !json_is_null(extensions)) return "extensions must be an object.";
    if (name && !json_is_string(name) && !json_is_null(name)) return "operationName must be a string.";
    return NULL;
}

static bool is_get(const struct api_request *request)
{
    return str_eq(request->method, STR("GET")) || str_eq(request->method, STR("HEAD"));
}

// What a mutation changes is its caller's doing.
static void enter(void *ctx, const struct gql_resolver *resolver)
{
    struct api_request *request = ctx;
    if (resolver->kind == GQL_MUTATION) actor_set(request, &request->principal);
}

static void leave(void *pg)
{
    actor_clear(pg);
}

void api_execute(struct api_request *request, struct gql_request *execution,
                 void (*on_done)(void *arg, int status, struct str body), void *arg)
{
    const struct api_options *options = &request->api->options;
    execution->schema = options->schema;
    execution->resolvers = options->resolvers;
    execution->resolver_count = options->resolver_count;
    execution->limits = &options->limits;
    execution->answer_bytes_max = options->answer_bytes_max;
    execution->mutations_allowed = !is_get(request);
    execution->ctx = request;
    execution->admit = api_admit;
    execution->enter = enter;
    execution->leave = leave;
    execution->leave_arg = options->pg;
    gql_execute(execution, on_done, arg);
}

static void execute(struct graphql_call *call)
{
    json_t *body = call->body;
    struct gql_request execution = {
        .query = json_get_str(body, "query"),
        .operation_name = json_get_str(body, "operationName"),
        .variables = json_get_object(body, "variables"),
        .is_mutation = &call->is_mutation,
        .repeatable = &call->repeatable,
    };
    api_execute(call->request, &execution, on_answered, call);
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
        api_respond_graphql(call->request, 200, NULL, answer);
    else
        api_respond_problem(call->request, 503, "unavailable", "the platform is stopping");
}

// What an answer depends on besides the entities of the account:
// the query, and the caller's kind, runtime, role, scopes and rules.
// The name of a set of rules changes with them.
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
    strbuf_addf(&parts, "%d %d %d %u %s %s %s", (int)who->kind, (int)who->role, (int)who->is_scoped, who->scopes,
                who->runtime, who->rule_set, text ? text : "");
    id_sha256(parts.at, parts.len, out);
    strbuf_finish(&parts);
    mem_free(text);
}

// Adds a field of the query string, as text or decoded.
static enum error_code add_query_field(struct api_request *request, const char *name, bool is_json, json_t *out,
                                       struct error *err)
{
    const struct json_limits limits = {.bytes_max = request->api->options.body_bytes_max};
    struct str text = STR_EMPTY;
    enum error_code code = query_field(request->query, str_c(name), request->arena, &text, err);
    if (code != ERROR_NONE || text.len == 0 || (is_json && str_eq(text, STR("null")))) return code;
    json_t *value = NULL;
    if (!is_json) {
        if (!str_is_utf8(text)) return error_set(err, ERROR_INVALID, "The query parameter \"%s\" is not UTF-8.", name);
        value = json_new_str(text);
    } else if (json_decode(text, &limits, &value, err) != ERROR_NONE) {
        error_prefix(err, arena_printf(request->arena, "The query parameter \"%s\" is not JSON", name));
        return err->code;
    }
    json_object_set_new(out, name, value);
    return ERROR_NONE;
}

// The request as a POST has it. NULL: err says why.
static json_t *body_of(struct api_request *request, struct error *err)
{
    static const struct {
        const char *name;
        bool is_json;
    } fields[] = {
        {"query", false}, {"documentId", false}, {"operationName", false}, {"variables", true}, {"extensions", true}};
    const struct json_limits limits = {.bytes_max = request->api->options.body_bytes_max};
    json_t *body = NULL;
    if (!is_get(request)) {
        if (json_decode(request->body, &limits, &body, err) == ERROR_NONE) return body;
        error_prefix(err, "The body is not JSON");
        return NULL;
    }
    body = json_object();
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (add_query_field(request, fields[i].name, fields[i].is_json, body, err) == ERROR_NONE) continue;
        json_decref(body);
        return NULL;
    }
    return body;
}

// ---- documents by their hash --------------------------------------------------------------------

static const char not_found[] = "{\"errors\":[{\"message\":\"PersistedQueryNotFound\",\"extensions\":{\"code\":"
                                "\"PERSISTED_QUERY_NOT_FOUND\"}}]}";

// The hash that the request names, as persisted documents (documentId: "sha256:...") or automatic
// persisted queries have it. Empty: none.
static struct str hash_of(const json_t *body)
{
    struct str id = json_get_str(body, "documentId");
    if (str_starts(id, STR("sha256:"))) return str_from(id, strlen("sha256:"));
    return json_str(json_path(body, "extensions", "persistedQuery", "sha256Hash", NULL));
}

static bool is_hash(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!(text.at[i] >= '0' && text.at[i] <= '9') && !(text.at[i] >= 'a' && text.at[i] <= 'f')) return false;
    return text.len == ID_SHA256_HEX_BYTES - 1;
}

// The text of a hash becomes the query. False: the request is answered.
static bool put_document(struct api_request *request, json_t *body, struct str hash)
{
    struct api *api = request->api;
    struct str account_id = str_c(request->principal.account_id);
    struct str text = document_list_find(api->options.documents, hash);
    if (!text.len) text = document_cache_find(api->documents, account_id, hash);
    if (text.len) {
        json_object_set_new(body, "query", json_new_str(text));
        return true;
    }
    api_respond_graphql(request, 200, NULL, str_c(not_found));
    return false;
}

// False: the request is answered.
static bool take_document(struct api_request *request, json_t *body)
{
    struct api *api = request->api;
    struct str hash = hash_of(body), query = json_get_str(body, "query");
    char own[ID_SHA256_HEX_BYTES] = "";
    if (hash.len && !is_hash(hash)) {
        refuse(request, "The hash of a persisted document must be 64 lower-case hex digits.");
        return false;
    }
    if (hash.len && !query.len) return put_document(request, body, hash);
    if (hash.len || api->options.documents_only) id_sha256_hex(query.at ? query.at : "", query.len, own);
    if (hash.len && !str_eq(hash, str_c(own))) {
        refuse(request, "The hash is not the SHA-256 of the query.");
        return false;
    }
    if (api->options.documents_only && !document_list_find(api->options.documents, str_c(own)).len) {
        refuse(request, "Only documents of the platform's list are accepted (graphql.documents_file).");
        return false;
    }
    if (hash.len && !document_list_find(api->options.documents, hash).len)
        document_cache_add(api->documents, str_c(request->principal.account_id), hash, query);
    return true;
}

void api_graphql(struct api_request *request)
{
    struct error err;
    json_t *body = body_of(request, &err);
    if (!body) {
        refuse(request, err.text);
        return;
    }
    if (json_is_object(body) && !take_document(request, body)) {
        json_decref(body);
        return;
    }
    const char *fault = fault_of(body);
    if (fault) {
        json_decref(body);
        refuse(request, fault);
        return;
    }
    if (request->media == GRAPHQL_MEDIA_EVENTS) {
        live_subscribe(request->api->live, request, body);
        return;
    }
    struct graphql_call *call = arena_alloc(request->arena, sizeof *call);
    *call = (struct graphql_call){.request = request,
                                  .body = body,
                                  .shows_cost = json_get_bool(json_get_object(body, "extensions"), "cost", false)};
    if (call->shows_cost) { // an answer that is kept has none
        execute(call);
        return;
    }
    uint8_t key[ID_SHA256_BYTES];
    key_of(call, key);
    answer_cache_look(request->api->answers, request->principal.account_id, key, on_looked, call);
}

void api_graphql_schema(struct api_request *request)
{
    api_respond(request, 200, "text/plain; charset=utf-8", request->api->options.sdl);
}
