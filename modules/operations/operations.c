// Operations: changes to clusters that users asked for. Here they are checked and queued; how they
// get to the agent: docs/internals/operations.md.
#include <string.h>

#include "api/access/access_fields.h"
#include "api/object_access.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "culvert_reads.h"
#include "modules/module.h"
#include "modules/operations/operation_store.h"
#include "storage/operations/operation_settings.h"

enum {
    NAME_BYTES_MAX = 253, // RFC 1123 subdomains, as Kubernetes has them
    KEY_BYTES_MAX = 200,
    EXPIRES_S_DEFAULT = 3600,
    EXPIRES_S_MAX = 7 * 24 * 3600,
    TRIM_ROWS = 1000,
    PARAMETERS_BYTES_MAX = 4096, // with the rest it fits WIRE_CONTROL_DOCUMENT_BYTES_MAX
};

// ---- arguments ----------------------------------------------------------------------------------

// What Kubernetes takes as a name, a group or a kind; what is refused here would be refused there.
static bool is_name(struct str text, bool is_kind)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        bool lower = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':';
        if (!lower && !(is_kind && c >= 'A' && c <= 'Z')) return false;
    }
    return text.len <= NAME_BYTES_MAX && !str_starts(text, STR("."));
}

static enum error_code take_name(const json_t *input, const char *member, bool is_optional, struct str *out,
                                 struct error *err)
{
    bool is_kind = strcmp(member, "kind") == 0;
    *out = json_get_str(input, member);
    if ((out->len || is_optional) && is_name(*out, is_kind)) return ERROR_NONE;
    return error_set(err, ERROR_INVALID,
                     "operation.%s: invalid name \"%.*s\", must have 1 to %d lower-case letters, digits, - and .",
                     member, STR_ARG(str_first(*out, 100)), NAME_BYTES_MAX);
}

static enum error_code take_text(const json_t *input, const char *member, struct str *out, struct error *err)
{
    *out = json_get_str(input, member);
    if (out->len <= KEY_BYTES_MAX && !str_has_byte(*out, '\0')) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "operation.%s: %zu bytes, must be at most %d without a NUL", member, out->len,
                     KEY_BYTES_MAX);
}

static enum error_code take_expiry(const json_t *input, uint64_t *out, struct error *err)
{
    int64_t seconds = json_get_int(input, "expiresInSeconds", EXPIRES_S_DEFAULT);
    if (seconds < 1 || seconds > EXPIRES_S_MAX)
        return error_set(err, ERROR_INVALID, "operation.expiresInSeconds: %lld, must be between 1 and %d",
                         (long long)seconds, EXPIRES_S_MAX);
    *out = (uint64_t)seconds * 1000;
    return ERROR_NONE;
}

static bool is_action(const struct operation_new *operation, const char *name)
{
    return str_eq(operation->action, str_c(name));
}

// What the action is for, where the request does not name it.
static enum error_code check_kind(struct operation_new *operation, struct error *err)
{
    bool is_restart = is_action(operation, "RESTART");
    struct str wanted = str_starts(operation->action, STR("ROLLOUT_"))    ? STR("Rollout")
                        : str_starts(operation->action, STR("WORKFLOW_")) ? STR("Workflow")
                                                                          : STR("Application");
    if (is_action(operation, "DELETE")) {
        if (operation->kind.len) return ERROR_NONE; // which kinds: the agent knows
        return error_set(err, ERROR_INVALID, "operation.kind: DELETE needs the kind of the object, and its group");
    }
    if (!operation->kind.len && !is_restart) {
        operation->group = STR("argoproj.io");
        operation->kind = wanted;
    }
    bool is_argo = str_eq(operation->group, STR("argoproj.io")), is_apps = str_eq(operation->group, STR("apps"));
    if (is_restart) wanted = is_argo ? STR("Rollout") : STR("Deployment, StatefulSet or DaemonSet");
    bool is_workload = str_eq(operation->kind, STR("Deployment")) || str_eq(operation->kind, STR("StatefulSet")) ||
                       str_eq(operation->kind, STR("DaemonSet"));
    if (is_argo && str_eq(operation->kind, wanted)) return ERROR_NONE;
    if (is_restart && is_apps && is_workload) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "operation.kind: %.*s is for %.*s of %s, not %.*s of \"%.*s\"",
                     STR_ARG(operation->action), STR_ARG(wanted), is_restart && !is_argo ? "apps" : "argoproj.io",
                     STR_ARG(operation->kind), STR_ARG(operation->group));
}

// The arguments that an action has of its own, canonical and in the request's arena.
static enum error_code take_parameters(struct api_request *request, const json_t *input, struct operation_new *out,
                                       struct error *err)
{
    const json_t *sync = json_get_object(input, "sync"), *rollback = json_get_object(input, "rollback");
    if (sync && !is_action(out, "SYNC"))
        return error_set(err, ERROR_INVALID, "operation.sync: only the action SYNC takes it");
    if (!rollback != !is_action(out, "APP_ROLLBACK"))
        return error_set(err, ERROR_INVALID, "operation.rollback: the action APP_ROLLBACK needs it, no other takes it");
    const json_t *deletion = json_get_object(input, "delete"), *given = sync ? sync : rollback ? rollback : deletion;
    if (deletion && !is_action(out, "DELETE"))
        return error_set(err, ERROR_INVALID, "operation.delete: only the action DELETE takes it");
    if (!given) return ERROR_NONE;
    size_t len;
    char *text = json_canonical(given, &len);
    enum error_code code = ERROR_NONE;
    if (len > PARAMETERS_BYTES_MAX || memmem(text, len, "\\u0000", 6))
        code = error_set(err, ERROR_INVALID, "operation.%s: %zu bytes, must be at most %d without a NUL",
                         sync       ? "sync"
                         : rollback ? "rollback"
                                    : "delete",
                         len, PARAMETERS_BYTES_MAX);
    else
        out->parameters = arena_str(request->arena, str_of(text, len));
    mem_free(text);
    return code;
}

static void take_digest(const json_t *input, uint8_t out[ID_SHA256_BYTES])
{
    size_t len;
    char *text = json_canonical(input, &len);
    id_sha256(text, len, out);
    mem_free(text);
}

static enum error_code take_operation(struct api_request *request, const json_t *input, struct operation_new *out,
                                      struct error *err)
{
    out->action = json_get_str(input, "action");
    enum error_code code = take_name(input, "runtime", false, &out->runtime, err);
    if (code == ERROR_NONE) code = take_name(input, "namespace", false, &out->ns, err);
    if (code == ERROR_NONE) code = take_name(input, "name", false, &out->name, err);
    if (code == ERROR_NONE) code = take_name(input, "group", true, &out->group, err);
    if (code == ERROR_NONE) code = take_name(input, "kind", true, &out->kind, err);
    if (code == ERROR_NONE) code = take_text(input, "uid", &out->uid, err);
    if (code == ERROR_NONE) code = take_text(input, "resourceVersion", &out->resource_version, err);
    if (code == ERROR_NONE) code = take_text(input, "idempotencyKey", &out->idempotency_key, err);
    if (code == ERROR_NONE) code = take_expiry(input, &out->expires_in_ms, err);
    if (code == ERROR_NONE) code = check_kind(out, err);
    if (code == ERROR_NONE) code = take_parameters(request, input, out, err);
    take_digest(input, out->request_sha256);
    return code;
}

// ---- runOperation -------------------------------------------------------------------------------

static void on_added(void *arg, const struct error *err, struct str node)
{
    struct api_pending *pending = arg;
    const struct api_options *options = &pending->request->api->options;
    if (!err) options->on_operation(options->ctx);
    api_resolved_node(pending, err, node);
}

enum { RULE_ACTIONS_MAX = 2 };

// The actions of rules that an operation is; all of them must be allowed.
struct rule_actions {
    const char *operation;
    size_t count;
    enum access_action actions[RULE_ACTIONS_MAX];
};

// In the request's arena.
struct run {
    struct api_pending *pending;
    struct operation_new operation;
    struct access_subject subject;
    struct rule_actions rules;
    size_t checked; // of rules.actions
    char id[ID_UUID_BYTES];
};

static void add_operation(struct run *run)
{
    struct api_pending *pending = run->pending;
    struct api_request *request = pending->request;
    operation_store_add(request->api->options.pg, request->principal.account_id, &run->operation, on_added, pending);
}

static void on_located(void *arg, const struct error *err, uint64_t is_elsewhere)
{
    struct run *run = arg;
    struct error refusal;
    if (!err && is_elsewhere) {
        error_set(&refusal, ERROR_CONFLICT,
                  "operation: the object is in another cluster than its Argo CD; operations act on the agent's own "
                  "cluster alone");
        err = &refusal;
    }
    if (err)
        run->pending->on_resolved(run->pending->arg, err, NULL);
    else
        add_operation(run);
}

static void on_permitted(void *arg, const struct error *err)
{
    struct run *run = arg;
    struct api_request *request = run->pending->request;
    if (err)
        run->pending->on_resolved(run->pending->arg, err, NULL);
    else if (run->checked < run->rules.count)
        object_access_check(request, &run->subject, run->rules.actions[run->checked++], on_permitted, run);
    else if (str_eq(run->operation.kind, STR("Application")))
        add_operation(run);
    else
        operation_store_is_elsewhere(request->api->options.pg, request->principal.account_id, &run->operation,
                                     on_located, run);
}

// Actions have the names of rules, but for these.
static void take_rules(struct run *run)
{
    static const struct rule_actions others[] = {
        {"HARD_REFRESH", 1, {ACTION_REFRESH}},
        {"DELETE", 1, {ACTION_DELETE_RESOURCE}},
        {"ROLLOUT_PROMOTE", 2, {ACTION_ROLLOUT_RESUME, ACTION_ROLLOUT_SKIP_CURRENT_STEP}}, // it does either
        {"WORKFLOW_STOP", 1, {ACTION_STOP}},
        {"WORKFLOW_SUSPEND", 1, {ACTION_STOP}},
        {"WORKFLOW_RESUME", 1, {ACTION_STOP}},
        {"WORKFLOW_TERMINATE", 1, {ACTION_TERMINATE}},
    };
    run->rules.count = access_action_named(run->operation.action, &run->rules.actions[0]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_action(&run->operation, others[i].operation)) run->rules = others[i];
}

static void check_rules(struct run *run)
{
    const struct operation_new *operation = &run->operation;
    struct error err;
    run->subject =
        (struct access_subject){operation->runtime, operation->group, operation->kind, operation->ns, operation->name};
    take_rules(run);
    bool is_known = run->rules.count, is_permitted = is_known;
    if (!is_known) is_permitted = !access_field_check("an action without rules", run->pending->request->rules, &err);
    on_permitted(run, is_permitted ? NULL : &err);
}

static void resolve_run_operation(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const struct api_principal *who = &request->principal;
    struct run *run = arena_alloc(request->arena, sizeof *run);
    *run = (struct run){.checked = 0};
    struct error err;
    id_uuid7(run->id);
    run->operation =
        (struct operation_new){.operation_id = run->id,
                               .parameters = STR("{}"),
                               .requested_by = str_c(who->user_id),
                               .requested_by_name = str_c(who->user_name),
                               .open_max = (uint64_t)operation_settings_of(request->api->options.config)->open_max};
    if (take_operation(request, json_get_object(arguments, "operation"), &run->operation, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    run->pending = api_pending_create(request, on_resolved, arg);
    check_rules(run);
}

static const struct gql_resolver resolvers[] = {
    {GQL_MUTATION, "runOperation", resolve_run_operation, .access = API_USERS},
};

// ---- housekeeping -------------------------------------------------------------------------------

static void sweep_finished(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                           store_count_done on_done, void *arg)
{
    operation_store_trim(pg, keep->history_days, sweep->rows, on_done, arg);
}

static const struct sweep sweeps[] = {
    {"operations", SWEEP_ROUND, SWEEP_COUNTS_ROWS, .rows = TRIM_ROWS, .step = sweep_finished},
};

const struct module module_operations = {
    .name = "operations",
    MODULE_LIST(resolvers, resolvers),
    .declared = declared_operations,
    .declared_count = declared_operations_count,
    MODULE_LIST(sweeps, sweeps),
};
