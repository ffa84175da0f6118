#include "agent/app_proxy/app_proxy_graphql.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/app_proxy/app_proxy_schema.h"
#include "agent/app_proxy/proxy_application.h"
#include "agent/kube/kube_fetch.h"
#include "agent/logs/log_query.h"
#include "api/graphql/execution.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/list.h"
#include "base/log/log.h"
#include "base/mem.h"

enum { BODY_BYTES_MAX = 64 * 1024, ANSWER_BYTES_MAX = 60 * 1024, CODE_BYTES = 40, TIME_BYTES = 40 };

#define APPLICATIONS "/apis/argoproj.io/v1alpha1"

struct app_proxy_graphql {
    struct loop *loop;
    struct app_proxy_graphql_options options;
    struct gql_schema *schema;
    struct list tasks; // that have not been resolved
};

// One request, until its answer.
struct proxy_request {
    struct app_proxy_graphql *graphql;
    char *user;
    bool is_unknown; // the Application that was to be read does not exist
    void (*on_answered)(void *arg, int status, struct str body);
    void *arg;
};

// One root field, until it is resolved: the Application is looked for, then an operation is run.
//
//   LOOKING --found--> RUNNING --the change was taken, or refused--> RESOLVED
//      |---read, or not found---------------------------------------^
enum task_state { TASK_LOOKING, TASK_RUNNING, TASK_RESOLVED };

struct task {
    struct list link;
    struct proxy_request *request;
    enum task_state state;
    const char *action; // of the operation; NULL: the Application is read
    const char *kind;
    char ns[LOG_NAME_BYTES], name[LOG_NAME_BYTES];
    json_t *parameters;  // of the operation
    json_t *application; // as it was found
    struct kube_fetch *fetch;
    enum wire_operation_state end;
    char code[CODE_BYTES], message[256];
    bool is_posted; // on_operation_posted() will come, and frees it where it is resolved already
    gql_resolved on_resolved;
    void *arg;
};

// ---- the end of a task --------------------------------------------------------------------------

static void enter(struct task *task, enum task_state state)
{
    assert(task->state < state);
    task->state = state;
}

// Takes the value's reference. Clients of CI turn single quotes of the text round: it has none.
static void resolve(struct task *task, enum error_code code, const char *text, json_t *value)
{
    struct error err;
    enter(task, TASK_RESOLVED);
    list_remove(&task->link);
    if (code != ERROR_NONE) {
        error_set(&err, code, "%s", text);
        for (char *c = err.text; *c; c++)
            if (*c == '\'' || *c == '"') *c = '`';
    }
    gql_resolved on_resolved = task->on_resolved;
    void *arg = task->arg;
    kube_fetch_cancel(task->fetch);
    json_decref(task->parameters);
    json_decref(task->application);
    if (!task->is_posted) mem_free(task);
    on_resolved(arg, code == ERROR_NONE ? NULL : &err, value);
}

static json_t *value_of(const struct task *task)
{
    if (str_eq(str_c(task->action), STR("DELETE"))) return NULL;
    if (task->application && str_eq(str_c(task->action), STR("SYNC"))) return proxy_application(task->application);
    return json_pack("{s:s, s:s}", "namespace", task->ns, "name", task->name);
}

static void on_operation_posted(void *arg)
{
    struct task *task = arg;
    task->is_posted = false;
    if (task->state == TASK_RESOLVED) {
        mem_free(task);
        return;
    }
    char text[sizeof task->code + sizeof task->message + 20];
    bool is_taken = task->end == WIRE_OPERATION_RUNNING || task->end == WIRE_OPERATION_DONE;
    bool is_forbidden = str_eq(str_c(task->code), STR("NOT_ALLOWED")) || str_eq(str_c(task->code), STR("FORBIDDEN"));
    bool is_missing = str_eq(str_c(task->code), STR("NOT_FOUND"));
    snprintf(text, sizeof text, "%s%s: %s", task->code, is_missing ? "_ERROR" : "", task->message);
    if (is_taken)
        resolve(task, ERROR_NONE, NULL, value_of(task));
    else
        resolve(task, is_forbidden ? ERROR_FORBIDDEN : is_missing ? ERROR_NOT_FOUND : ERROR_CONFLICT, text, NULL);
}

// Inside of the operations, which are not called from here.
static void on_operation_state(void *arg, enum wire_operation_state state, const char *code, const char *message)
{
    struct task *task = arg;
    task->end = state;
    snprintf(task->code, sizeof task->code, "%s", code ? code : "");
    snprintf(task->message, sizeof task->message, "%s", message);
    task->is_posted = true;
    loop_post(task->request->graphql->loop, on_operation_posted, task);
}

// ---- running ------------------------------------------------------------------------------------

static void run_operation(struct task *task)
{
    struct app_proxy_graphql *graphql = task->request->graphql;
    char at[TIME_BYTES];
    clock_format_rfc3339(clock_wall_ms() / 1000 * 1000, at);
    json_t *document = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:O*}", "action", task->action, "group",
                                 "argoproj.io", "kind", task->kind, "namespace", task->ns, "name", task->name, "by",
                                 task->request->user, "at", at, "parameters", task->parameters);
    char *text = json_dumps(document, JSON_COMPACT);
    enter(task, TASK_RUNNING);
    bool is_begun = operations_run(graphql->options.operations, str_c(text), on_operation_state, task);
    free(text);
    json_decref(document);
    if (!is_begun) resolve(task, ERROR_UNAVAILABLE, "the agent has too many operations", NULL);
}

static void miss(struct task *task)
{
    char text[LOG_NAME_BYTES * 2 + 100];
    if (!task->action) { // exactly these words: a client looks for them
        task->request->is_unknown = true;
        resolve(task, ERROR_FORBIDDEN, "Forbidden", NULL);
        return;
    }
    snprintf(text, sizeof text, "NOT_FOUND_ERROR: the cluster has no Application %s%s%s", task->ns,
             task->ns[0] ? "/" : "", task->name);
    resolve(task, ERROR_NOT_FOUND, text, NULL);
}

static void take_application(struct task *task, const json_t *application)
{
    struct str ns = json_str(json_path(application, "metadata", "namespace", NULL));
    if (!log_name_ok(ns)) {
        miss(task);
        return;
    }
    snprintf(task->ns, sizeof task->ns, "%.*s", STR_ARG(ns));
    task->application = json_deep_copy(application);
    if (task->action)
        run_operation(task);
    else
        resolve(task, ERROR_NONE, NULL, proxy_application(task->application));
}

static void on_fetched(void *arg, int status, json_t *value, const struct error *err)
{
    struct task *task = arg;
    const json_t *items = json_get_array(value, "items");
    char text[ERROR_TEXT_BYTES + 100];
    task->fetch = NULL;
    if (err) {
        snprintf(text, sizeof text, "the Kubernetes API cannot be read: %s", err->text);
        resolve(task, ERROR_UNAVAILABLE, text, NULL);
    } else if (status == 404 || (items && json_array_size(items) == 0)) {
        miss(task);
    } else if (status == 403) {
        resolve(task, ERROR_FORBIDDEN, "the Kubernetes API refuses get and list of applications (403)", NULL);
    } else if (!value) {
        resolve(task, ERROR_UNAVAILABLE, "the Kubernetes API answered with an error", NULL);
    } else if (items && json_array_size(items) > 1) {
        resolve(task, ERROR_CONFLICT, "several namespaces have an Application of this name: give appNamespace", NULL);
    } else {
        take_application(task, items ? json_array_get(items, 0) : value);
    }
}

// Without a namespace the name has to be the only one in the cluster.
static void look_for_application(struct task *task)
{
    struct app_proxy_graphql *graphql = task->request->graphql;
    AUTO_FREE char *path =
        task->ns[0] ? mem_printf(APPLICATIONS "/namespaces/%s/applications/%s", task->ns, task->name)
                    : mem_printf(APPLICATIONS "/applications?limit=2&fieldSelector=metadata.name%%3D%s", task->name);
    task->fetch = kube_fetch_start(graphql->options.client, path, on_fetched, task);
    if (!task->fetch) resolve(task, ERROR_UNAVAILABLE, "too many requests to the Kubernetes API", NULL);
}

// ---- resolvers ----------------------------------------------------------------------------------

static struct task *create_task(struct proxy_request *request, const char *action, const char *kind,
                                gql_resolved on_resolved, void *arg)
{
    struct task *task = mem_zalloc(sizeof *task);
    task->request = request;
    task->action = action;
    task->kind = kind;
    task->on_resolved = on_resolved;
    task->arg = arg;
    list_init(&task->link);
    list_add_last(&request->graphql->tasks, &task->link);
    return task;
}

static bool take_name(const json_t *arguments, const char *member, char out[LOG_NAME_BYTES])
{
    struct str name = json_get_str(arguments, member);
    snprintf(out, LOG_NAME_BYTES, "%.*s", STR_ARG(str_first(name, LOG_NAME_BYTES - 1)));
    return log_name_ok(name);
}

// parameters: taken.
static void begin_for_application(struct task *task, const json_t *arguments, const char *name_member,
                                  json_t *parameters)
{
    bool has_namespace = json_get_str(arguments, "appNamespace").len > 0;
    task->parameters = parameters;
    if (!take_name(arguments, name_member, task->name) ||
        (has_namespace && !take_name(arguments, "appNamespace", task->ns)))
        resolve(task, ERROR_INVALID, "a name must have 1 to 253 lower-case letters, digits, - and .", NULL);
    else if (!task->request->graphql->options.client)
        resolve(task, ERROR_FORBIDDEN, "the agent has no cluster: its setting reporter.enabled is off", NULL);
    else
        look_for_application(task);
}

static void resolve_application(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    begin_for_application(create_task(ctx, NULL, "Application", on_resolved, arg), arguments, "name", NULL);
}

static void resolve_sync(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    json_t *options = json_get_object(arguments, "options");
    begin_for_application(create_task(ctx, "SYNC", "Application", on_resolved, arg), arguments, "applicationName",
                          options ? json_deep_copy(options) : json_object());
}

static void copy(const json_t *from, const char *member, json_t *to)
{
    json_t *value = json_object_get(from, member);
    if (value && !json_is_null(value)) json_object_set(to, member, value);
}

static void resolve_rollback(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    json_t *parameters = json_object();
    copy(arguments, "historyId", parameters);
    copy(arguments, "dryRun", parameters);
    copy(arguments, "prune", parameters);
    begin_for_application(create_task(ctx, "APP_ROLLBACK", "Application", on_resolved, arg), arguments, "appName",
                          parameters);
}

static void resolve_terminate_sync(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    begin_for_application(create_task(ctx, "TERMINATE_SYNC", "Application", on_resolved, arg), arguments, "appName",
                          NULL);
}

static void resolve_delete(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    const json_t *args = json_get_object(arguments, "args");
    json_t *parameters = json_object();
    copy(args, "cascade", parameters);
    begin_for_application(create_task(ctx, "DELETE", "Application", on_resolved, arg), args, "appName", parameters);
}

static void run_for_workflow(void *ctx, const char *action, const json_t *arguments, gql_resolved on_resolved,
                             void *arg)
{
    struct task *task = create_task(ctx, action, "Workflow", on_resolved, arg);
    bool is_named = take_name(arguments, "workflowName", task->name) && take_name(arguments, "namespace", task->ns);
    if (is_named && task->request->graphql->options.client)
        run_operation(task);
    else if (is_named)
        resolve(task, ERROR_FORBIDDEN, "the agent has no cluster: its setting reporter.enabled is off", NULL);
    else
        resolve(task, ERROR_INVALID, "a name must have 1 to 253 lower-case letters, digits, - and .", NULL);
}

static void resolve_resume_workflow(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    run_for_workflow(ctx, "WORKFLOW_RESUME", arguments, on_resolved, arg);
}

static void resolve_stop_workflow(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    run_for_workflow(ctx, "WORKFLOW_STOP", arguments, on_resolved, arg);
}

static void resolve_suspend_workflow(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    run_for_workflow(ctx, "WORKFLOW_SUSPEND", arguments, on_resolved, arg);
}

static void resolve_terminate_workflow(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    run_for_workflow(ctx, "WORKFLOW_TERMINATE", arguments, on_resolved, arg);
}

static void resolve_version_info(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    const struct proxy_request *request = ctx;
    const struct app_proxy_graphql_options *options = &request->graphql->options;
    (void)arguments;
    on_resolved(arg, NULL,
                json_pack("{s:s, s:s, s:s}", "version", options->version, "platformHost", options->platform_host,
                          "platformVersion", options->version));
}

// Clients are admitted by the signed identity; access has to be set, and means nothing here.
static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "versionInfo", resolve_version_info, .access = 1},
    {GQL_QUERY, "applicationProxyQuery", resolve_application, .access = 1},
    {GQL_QUERY, "sync", resolve_sync, .access = 1},
    {GQL_QUERY, "appRollback", resolve_rollback, .access = 1},
    {GQL_QUERY, "terminateCurrentAppOperation", resolve_terminate_sync, .access = 1},
    {GQL_MUTATION, "sync", resolve_sync, .access = 1},
    {GQL_MUTATION, "appRollback", resolve_rollback, .access = 1},
    {GQL_MUTATION, "terminateCurrentAppOperation", resolve_terminate_sync, .access = 1},
    {GQL_MUTATION, "deleteApplication", resolve_delete, .access = 1},
    {GQL_MUTATION, "resumeWorkflow", resolve_resume_workflow, .access = 1},
    {GQL_MUTATION, "stopWorkflow", resolve_stop_workflow, .access = 1},
    {GQL_MUTATION, "suspendWorkflow", resolve_suspend_workflow, .access = 1},
    {GQL_MUTATION, "terminateWorkflow", resolve_terminate_workflow, .access = 1},
};

// ---- requests -----------------------------------------------------------------------------------

static void on_executed(void *arg, int status, struct str body)
{
    struct proxy_request *request = arg;
    static const char unknown[] = "{\"errors\":[{\"message\":\"Forbidden\",\"extensions\":403}],\"data\":null}";
    request->on_answered(request->arg, status, request->is_unknown ? str_c(unknown) : body);
    mem_free(request->user);
    mem_free(request);
}

void app_proxy_graphql_execute(struct app_proxy_graphql *graphql, struct str text, struct str user,
                               void (*on_answered)(void *arg, int status, struct str body), void *arg)
{
    static const struct json_limits json_limits = {.bytes_max = BODY_BYTES_MAX, .depth_max = 16, .tokens_max = 4000};
    static const struct gql_limits limits = {
        .tokens_max = 4000, .depth_max = 24, .aliases_max = 50, .directives_max = 50, .root_fields_max = 20};
    json_t *json = NULL;
    if (json_decode(text, &json_limits, &json, NULL) != ERROR_NONE || !json_get_str(json, "query").len) {
        on_answered(arg, 400, STR("{\"errors\":[{\"message\":\"the body is not a GraphQL request\"}]}"));
        json_decref(json);
        return;
    }
    struct proxy_request *request = mem_zalloc(sizeof *request);
    *request = (struct proxy_request){
        .graphql = graphql, .user = mem_strndup(user.at, user.len), .on_answered = on_answered, .arg = arg};
    const struct gql_request execution = {.query = json_get_str(json, "query"),
                                          .operation_name = json_get_str(json, "operationName"),
                                          .variables = json_get_object(json, "variables"),
                                          .schema = graphql->schema,
                                          .resolvers = resolvers,
                                          .resolver_count = sizeof resolvers / sizeof *resolvers,
                                          .limits = &limits,
                                          .answer_bytes_max = ANSWER_BYTES_MAX,
                                          .mutations_allowed = true,
                                          .ctx = request};
    gql_execute(&execution, on_executed, request);
    json_decref(json);
}

struct app_proxy_graphql *app_proxy_graphql_create(struct loop *loop, const struct app_proxy_graphql_options *options)
{
    struct app_proxy_graphql *graphql = mem_zalloc(sizeof *graphql);
    struct error err;
    graphql->loop = loop;
    graphql->options = *options;
    graphql->schema = gql_schema_create(str_of(app_proxy_schema, app_proxy_schema_bytes), &err);
    if (!graphql->schema) {
        log_error("app_proxy", "schema_not_valid", log_err(&err));
        abort();
    }
    list_init(&graphql->tasks);
    return graphql;
}

void app_proxy_graphql_destroy(struct app_proxy_graphql *graphql)
{
    if (!graphql) return;
    while (!list_is_empty(&graphql->tasks))
        resolve(LIST_OWNER(graphql->tasks.next, struct task, link), ERROR_UNAVAILABLE, "the agent is stopping", NULL);
    gql_schema_destroy(graphql->schema);
    mem_free(graphql);
}
