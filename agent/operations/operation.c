#include "agent/operations/operation.h"

#include "base/json/json.h"
#include "base/mem.h"

enum { DOCUMENT_BYTES_MAX = 8 * 1024, NAME_BYTES_MAX = 253, TEXT_BYTES_MAX = 256 };

// The kinds that an operation may change.
static const struct operation_kind {
    const char *group, *version, *kind, *plural;
} kinds[] = {
    {"argoproj.io", "v1alpha1", "Application", "applications"},
    {"argoproj.io", "v1alpha1", "Rollout", "rollouts"},
    {"apps", "v1", "Deployment", "deployments"},
    {"apps", "v1", "StatefulSet", "statefulsets"},
    {"apps", "v1", "DaemonSet", "daemonsets"},
    {"argoproj.io", "v1alpha1", "Workflow", "workflows"},
    {"apps", "v1", "ReplicaSet", "replicasets"},
    {"batch", "v1", "Job", "jobs"},
    {"batch", "v1", "CronJob", "cronjobs"},
    {"networking.k8s.io", "v1", "Ingress", "ingresses"},
    {"", "v1", "Pod", "pods"},
    {"", "v1", "Service", "services"},
    {"", "v1", "ConfigMap", "configmaps"},
    {"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"},
};

enum { RESTARTABLE_FIRST = 1, RESTARTABLE_END = 5 };

// And what each action is for; NULL: what can be restarted; "": all of them.
static const struct {
    const char *name, *kind;
} actions[OPERATION_ACTION_COUNT] = {
    [OPERATION_REFRESH] = {"REFRESH", "Application"},
    [OPERATION_HARD_REFRESH] = {"HARD_REFRESH", "Application"},
    [OPERATION_SYNC] = {"SYNC", "Application"},
    [OPERATION_TERMINATE_SYNC] = {"TERMINATE_SYNC", "Application"},
    [OPERATION_APP_ROLLBACK] = {"APP_ROLLBACK", "Application"},
    [OPERATION_RESTART] = {"RESTART", NULL},
    [OPERATION_ROLLOUT_PAUSE] = {"ROLLOUT_PAUSE", "Rollout"},
    [OPERATION_ROLLOUT_RESUME] = {"ROLLOUT_RESUME", "Rollout"},
    [OPERATION_ROLLOUT_SKIP_CURRENT_STEP] = {"ROLLOUT_SKIP_CURRENT_STEP", "Rollout"},
    [OPERATION_ROLLOUT_PROMOTE_FULL] = {"ROLLOUT_PROMOTE_FULL", "Rollout"},
    [OPERATION_ROLLOUT_ABORT] = {"ROLLOUT_ABORT", "Rollout"},
    [OPERATION_ROLLOUT_RETRY] = {"ROLLOUT_RETRY", "Rollout"},
    [OPERATION_ROLLOUT_PROMOTE] = {"ROLLOUT_PROMOTE", "Rollout"},
    [OPERATION_DELETE] = {"DELETE", ""},
    [OPERATION_WORKFLOW_STOP] = {"WORKFLOW_STOP", "Workflow"},
    [OPERATION_WORKFLOW_TERMINATE] = {"WORKFLOW_TERMINATE", "Workflow"},
    [OPERATION_WORKFLOW_SUSPEND] = {"WORKFLOW_SUSPEND", "Workflow"},
    [OPERATION_WORKFLOW_RESUME] = {"WORKFLOW_RESUME", "Workflow"},
};

static const struct operation_kind *find_kind(struct str group, struct str kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_eq(group, str_c(kinds[i].group)) && str_eq(kind, str_c(kinds[i].kind))) return &kinds[i];
    return NULL;
}

static enum error_code take_action(const json_t *document, enum operation_action *out, struct error *err)
{
    struct str name = json_get_str(document, "action");
    for (int i = 0; i < OPERATION_ACTION_COUNT; i++) {
        if (!str_eq(name, str_c(actions[i].name))) continue;
        *out = (enum operation_action)i;
        return ERROR_NONE;
    }
    return error_set(err, ERROR_INVALID, "action: \"%.*s\" is not known to this version of the agent",
                     STR_ARG(str_first(name, 40)));
}

// A part of a path: letters, digits, - . and : alone, and neither "." nor "..".
static enum error_code take_name(const json_t *document, const char *member, struct str *out, struct error *err)
{
    *out = json_get_str(document, member);
    bool is_good = out->len && out->len <= NAME_BYTES_MAX && out->at[0] != '.';
    for (size_t i = 0; is_good && i < out->len; i++) {
        char c = out->at[i];
        is_good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':';
    }
    if (is_good) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "%s: must have 1 to %d lower-case letters, digits, - and .", member,
                     NAME_BYTES_MAX);
}

static enum error_code take_text(const json_t *document, const char *member, struct str *out, struct error *err)
{
    *out = json_get_str(document, member);
    if (out->len <= TEXT_BYTES_MAX) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "%s: more than %d bytes", member, TEXT_BYTES_MAX);
}

static bool is_for_kind(enum operation_action action, struct str group, struct str kind)
{
    const struct operation_kind *found = find_kind(group, kind);
    const char *wanted = actions[action].kind;
    if (!found || !wanted) return found && found >= &kinds[RESTARTABLE_FIRST] && found < &kinds[RESTARTABLE_END];
    return !*wanted || str_eq(kind, str_c(wanted));
}

static enum error_code take_members(struct operation *out, struct error *err)
{
    const json_t *document = out->document;
    out->ref.group = json_get_str(document, "group");
    out->ref.kind = json_get_str(document, "kind");
    out->parameters = json_get_object(document, "parameters");
    enum error_code code = take_action(document, &out->action, err);
    if (code == ERROR_NONE) code = take_name(document, "namespace", &out->ref.ns, err);
    if (code == ERROR_NONE) code = take_name(document, "name", &out->ref.name, err);
    if (code == ERROR_NONE) code = take_text(document, "uid", &out->ref.uid, err);
    if (code == ERROR_NONE) code = take_text(document, "resourceVersion", &out->resource_version, err);
    if (code == ERROR_NONE) code = take_text(document, "by", &out->by, err);
    if (code == ERROR_NONE) code = take_text(document, "at", &out->at, err);
    if (code == ERROR_NONE && !is_for_kind(out->action, out->ref.group, out->ref.kind))
        code = error_set(err, ERROR_INVALID, "kind: this agent does not run the action on %.*s of \"%.*s\"",
                         STR_ARG(str_first(out->ref.kind, 60)), STR_ARG(str_first(out->ref.group, 60)));
    return code;
}

enum error_code operation_parse(struct str text, struct operation *out, struct error *err)
{
    static const struct json_limits limits = {.bytes_max = DOCUMENT_BYTES_MAX, .depth_max = 8, .tokens_max = 2000};
    struct operation operation = {0};
    enum error_code code = json_decode(text, &limits, &operation.document, err);
    if (code == ERROR_NONE) code = take_members(&operation, err);
    if (code == ERROR_NONE)
        *out = operation;
    else
        operation_finish(&operation);
    return code;
}

void operation_finish(struct operation *operation)
{
    json_decref(operation->document);
    operation->document = NULL;
}

const char *operation_plural(const struct operation *operation)
{
    return find_kind(operation->ref.group, operation->ref.kind)->plural;
}

char *operation_path(const struct operation *operation, const char *subresource)
{
    const struct operation_kind *kind = find_kind(operation->ref.group, operation->ref.kind);
    bool is_core = !kind->group[0];
    return mem_printf("/%s%s/%s/namespaces/%.*s/%s/%.*s%s%s", is_core ? "api" : "apis/", kind->group, kind->version,
                      STR_ARG(operation->ref.ns), kind->plural, STR_ARG(operation->ref.name), subresource ? "/" : "",
                      subresource ? subresource : "");
}
