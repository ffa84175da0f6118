#include "agent/operations/operation_rights.h"

#include "base/json/json.h"
#include "base/mem.h"

enum right {
    RIGHT_REFRESH,
    RIGHT_SYNC,
    RIGHT_SYNC_PRUNE,
    RIGHT_SYNC_FORCE,
    RIGHT_SYNC_REPLACE,
    RIGHT_TERMINATE,
    RIGHT_ROLLBACK,
    RIGHT_RESTART,
    RIGHT_ROLLOUT,
    RIGHT_LOGS, // of pods; no operation
    RIGHT_DELETE,
    RIGHT_DELETE_APPLICATION,
    RIGHT_WORKFLOW,
    RIGHT_COUNT
};

static const char *const right_names[RIGHT_COUNT] = {
    [RIGHT_REFRESH] = "refresh",
    [RIGHT_SYNC] = "sync",
    [RIGHT_SYNC_PRUNE] = "sync-prune",
    [RIGHT_SYNC_FORCE] = "sync-force",
    [RIGHT_SYNC_REPLACE] = "sync-replace",
    [RIGHT_TERMINATE] = "terminate",
    [RIGHT_ROLLBACK] = "rollback",
    [RIGHT_RESTART] = "restart",
    [RIGHT_ROLLOUT] = "rollout",
    [RIGHT_LOGS] = "logs",
    [RIGHT_DELETE] = "delete",
    [RIGHT_DELETE_APPLICATION] = "delete-application",
    [RIGHT_WORKFLOW] = "workflow",
};

enum { ENTRIES_MAX = 256 };

struct entry {
    enum right right;
    char *pattern; // NULL: all objects
};

struct operation_rights {
    struct entry entries[ENTRIES_MAX];
    size_t count;
};

// ---- the setting --------------------------------------------------------------------------------

static enum error_code add_entry(struct operation_rights *rights, struct str item, struct error *err)
{
    struct str pattern = item, name;
    bool has_pattern = str_cut(&pattern, ':', &name);
    if (rights->count == ENTRIES_MAX) return error_set(err, ERROR_INVALID, "more than %d entries", ENTRIES_MAX);
    if (has_pattern && !pattern.len)
        return error_set(err, ERROR_INVALID, "\"%.*s\": the pattern behind : is empty", STR_ARG(item));
    struct strbuf known;
    strbuf_init(&known, ERROR_TEXT_BYTES);
    for (int i = 0; i < RIGHT_COUNT; i++) {
        strbuf_addf(&known, "%s%s", i ? ", " : "", right_names[i]);
        if (!str_eq(name, str_c(right_names[i]))) continue;
        strbuf_finish(&known);
        rights->entries[rights->count++] =
            (struct entry){(enum right)i, has_pattern ? mem_strndup(pattern.at, pattern.len) : NULL};
        return ERROR_NONE;
    }
    error_set(err, ERROR_INVALID, "invalid right \"%.*s\", must be one of %.*s", STR_ARG(str_first(name, 60)),
              STR_ARG(strbuf_str(&known)));
    strbuf_finish(&known);
    return ERROR_INVALID;
}

enum error_code operation_rights_create(struct str text, struct operation_rights **out, struct error *err)
{
    struct operation_rights *rights = mem_zalloc(sizeof *rights);
    enum error_code code = ERROR_NONE;
    for (bool more = text.len > 0; more && code == ERROR_NONE;) {
        struct str item;
        more = str_cut(&text, ',', &item);
        item = str_trim(item);
        if (item.len) code = add_entry(rights, item, err);
    }
    if (code == ERROR_NONE)
        *out = rights;
    else
        operation_rights_destroy(rights);
    return code;
}

void operation_rights_destroy(struct operation_rights *rights)
{
    if (!rights) return;
    for (size_t i = 0; i < rights->count; i++)
        mem_free(rights->entries[i].pattern);
    mem_free(rights);
}

bool operation_rights_is_empty(const struct operation_rights *rights)
{
    return rights->count == 0;
}

// ---- checking -----------------------------------------------------------------------------------

// * stands for any characters, also none. Linear: after a * only the last one is tried again.
static bool matches(struct str pattern, struct str text)
{
    size_t p = 0, t = 0, star = pattern.len, star_text = 0;
    while (t < text.len) {
        if (p < pattern.len && pattern.at[p] == '*') {
            star = p++;
            star_text = t;
        } else if (p < pattern.len && pattern.at[p] == text.at[t]) {
            p++;
            t++;
        } else if (star < pattern.len) {
            p = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.at[p] == '*')
        p++;
    return p == pattern.len;
}

static bool has_right(const struct operation_rights *rights, enum right right, struct str ns, struct str name)
{
    AUTO_FREE char *object = mem_printf("%.*s/%.*s", STR_ARG(ns), STR_ARG(name));
    for (size_t i = 0; i < rights->count; i++) {
        const struct entry *entry = &rights->entries[i];
        if (entry->right == right && (!entry->pattern || matches(str_c(entry->pattern), str_c(object)))) return true;
    }
    return false;
}

// The rights that an operation needs, all of them.
static size_t needed(const struct operation *operation, enum right out[RIGHT_COUNT])
{
    size_t count = 0;
    bool is_sync = operation->action == OPERATION_SYNC, is_rollback = operation->action == OPERATION_APP_ROLLBACK;
    if ((is_sync || is_rollback) && json_is_true(json_object_get(operation->parameters, "prune")))
        out[count++] = RIGHT_SYNC_PRUNE;
    if (is_sync && json_is_true(json_object_get(operation->parameters, "force"))) out[count++] = RIGHT_SYNC_FORCE;
    if (is_sync && json_is_true(json_object_get(operation->parameters, "replace"))) out[count++] = RIGHT_SYNC_REPLACE;
    switch (operation->action) {
    case OPERATION_REFRESH:
    case OPERATION_HARD_REFRESH: out[count++] = RIGHT_REFRESH; break;
    case OPERATION_SYNC: out[count++] = RIGHT_SYNC; break;
    case OPERATION_TERMINATE_SYNC: out[count++] = RIGHT_TERMINATE; break;
    case OPERATION_APP_ROLLBACK: out[count++] = RIGHT_ROLLBACK; break;
    case OPERATION_RESTART: out[count++] = RIGHT_RESTART; break;
    case OPERATION_ROLLOUT_PAUSE:
    case OPERATION_ROLLOUT_RESUME:
    case OPERATION_ROLLOUT_SKIP_CURRENT_STEP:
    case OPERATION_ROLLOUT_PROMOTE_FULL:
    case OPERATION_ROLLOUT_ABORT:
    case OPERATION_ROLLOUT_PROMOTE:
    case OPERATION_ROLLOUT_RETRY: out[count++] = RIGHT_ROLLOUT; break;
    case OPERATION_DELETE:
        out[count++] = object_ref_is_application(&operation->ref) ? RIGHT_DELETE_APPLICATION : RIGHT_DELETE;
        break;
    case OPERATION_WORKFLOW_STOP:
    case OPERATION_WORKFLOW_TERMINATE:
    case OPERATION_WORKFLOW_SUSPEND:
    case OPERATION_WORKFLOW_RESUME: out[count++] = RIGHT_WORKFLOW; break;
    case OPERATION_ACTION_COUNT: break;
    }
    return count;
}

enum error_code operation_rights_check(const struct operation_rights *rights, const struct operation *operation,
                                       struct error *err)
{
    enum right wanted[RIGHT_COUNT];
    size_t count = needed(operation, wanted);
    for (size_t i = 0; i < count; i++)
        if (!has_right(rights, wanted[i], operation->ref.ns, operation->ref.name))
            return error_set(err, ERROR_FORBIDDEN,
                             "the agent's setting operations.allowed does not permit \"%s\" for %.*s/%.*s",
                             right_names[wanted[i]], STR_ARG(operation->ref.ns), STR_ARG(operation->ref.name));
    return count ? ERROR_NONE : error_set(err, ERROR_FORBIDDEN, "the agent does not permit this action");
}

bool operation_rights_allow_logs(const struct operation_rights *rights, struct str ns, struct str pod)
{
    return has_right(rights, RIGHT_LOGS, ns, pod);
}

// ---- RBAC ---------------------------------------------------------------------------------------

static bool is_granted(const struct operation_rights *rights, enum right right)
{
    for (size_t i = 0; i < rights->count; i++)
        if (rights->entries[i].right == right) return true;
    return false;
}

bool operation_rights_has_logs(const struct operation_rights *rights)
{
    return is_granted(rights, RIGHT_LOGS);
}

void operation_rights_print_rbac(const struct operation_rights *rights, struct strbuf *out)
{
    static const struct {
        enum right right;
        const char *group, *resources, *verbs;
    } rules[] = {
        {RIGHT_REFRESH, "argoproj.io", "applications", "get, patch"},
        {RIGHT_SYNC, "argoproj.io", "applications", "get, patch"},
        {RIGHT_TERMINATE, "argoproj.io", "applications", "get, patch"},
        {RIGHT_ROLLBACK, "argoproj.io", "applications", "get, patch"},
        {RIGHT_RESTART, "apps", "deployments, statefulsets, daemonsets", "get, patch"},
        {RIGHT_RESTART, "argoproj.io", "rollouts", "get, patch"},
        {RIGHT_ROLLOUT, "argoproj.io", "rollouts, rollouts/status", "get, patch"},
        {RIGHT_DELETE_APPLICATION, "argoproj.io", "applications", "get, patch, delete"},
        {RIGHT_DELETE, "argoproj.io", "rollouts, workflows", "get, delete"},
        {RIGHT_DELETE, "apps", "deployments, statefulsets, daemonsets, replicasets", "get, delete"},
        {RIGHT_DELETE, "batch", "jobs, cronjobs", "get, delete"},
        {RIGHT_DELETE, "networking.k8s.io", "ingresses", "get, delete"},
        {RIGHT_DELETE, "\"\"", "pods, services, configmaps, persistentvolumeclaims", "get, delete"},
        {RIGHT_WORKFLOW, "argoproj.io", "workflows", "get, patch"},
        {RIGHT_LOGS, "\"\"", "pods", "get, list"},
        {RIGHT_LOGS, "\"\"", "pods/log, replicationcontrollers", "get"},
        {RIGHT_LOGS, "apps", "deployments, statefulsets, daemonsets, replicasets", "get"},
        {RIGHT_LOGS, "batch", "jobs", "get"},
        {RIGHT_LOGS, "argoproj.io", "rollouts, applications", "get"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (is_granted(rights, rules[i].right))
            strbuf_addf(out, "  - apiGroups: [%s] # operations.allowed: %s\n    resources: [%s]\n    verbs: [%s]\n",
                        rules[i].group, right_names[rules[i].right], rules[i].resources, rules[i].verbs);
}
