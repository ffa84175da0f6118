#include "agent/operations/operation_judge.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json/json.h"

#define REFRESH_ANNOTATION "argocd.argoproj.io/refresh"
#define RESTART_ANNOTATION "kubectl.kubernetes.io/restartedAt"
#define OPERATION_MARK     "culvert.dev/operation"

static const char merge_patch[] = "application/merge-patch+json";

// What is being judged, for the functions of this file.
struct look {
    const struct operation *operation;
    const char *id;
    const json_t *object; // not NULL
    const struct operation_past *past;
    struct operation_decision *out;
};

// ---- decisions ----------------------------------------------------------------------------------

static void decide(struct operation_decision *out, enum operation_verdict verdict, const char *code, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

static void decide(struct operation_decision *out, enum operation_verdict verdict, const char *code, const char *format,
                   ...)
{
    va_list args;
    out->verdict = verdict;
    out->code = code;
    va_start(args, format);
    vsnprintf(out->message, sizeof out->message, format, args);
    va_end(args);
}

// A merge patch, from the state that was looked at.
static void change(const struct look *look, json_t *body)
{
    json_t *metadata = json_object_get(body, "metadata");
    if (!metadata) {
        metadata = json_object();
        json_object_set_new(body, "metadata", metadata);
    }
    json_object_set(metadata, "resourceVersion",
                    json_object_get(json_get_object(look->object, "metadata"), "resourceVersion"));
    look->out->verdict = OPERATION_CHANGE;
    look->out->method = "PATCH";
    look->out->content_type = merge_patch;
    look->out->body = body;
}

// ---- what the request demands of the object -----------------------------------------------------

// False: it is another object or state than the one that was meant, and that was decided.
static bool is_meant(const struct look *look)
{
    const struct operation *operation = look->operation;
    const json_t *metadata = json_get_object(look->object, "metadata");
    bool same_uid = !operation->ref.uid.len || str_eq(operation->ref.uid, json_get_str(metadata, "uid"));
    bool same_version = !operation->resource_version.len ||
                        str_eq(operation->resource_version, json_get_str(metadata, "resourceVersion"));
    if (same_uid && same_version) return true;
    if (look->past->is_maybe) // it may be this operation that changed it
        decide(look->out, OPERATION_UNKNOWN, "MAYBE_RUN",
               "the agent was interrupted, and the object has changed since; it is not repeated");
    else
        decide(look->out, OPERATION_FAILED, "CONFLICT", "%s of the object is not the one that was given",
               same_uid ? "resourceVersion" : "uid");
    return false;
}

// ---- Applications -------------------------------------------------------------------------------

static void judge_refresh(const struct look *look)
{
    const json_t *annotations = json_path(look->object, "metadata", "annotations", NULL);
    if (look->past->is_sent && json_object_get(annotations, REFRESH_ANNOTATION)) {
        look->out->verdict = OPERATION_WAIT;
    } else if (look->past->is_sent) {
        look->out->verdict = OPERATION_DONE;
    } else {
        bool is_hard = look->operation->action == OPERATION_HARD_REFRESH;
        change(look,
               json_pack("{s:{s:{s:s}}}", "metadata", "annotations", REFRESH_ANNOTATION, is_hard ? "hard" : "normal"));
    }
}

// An attempt that was interrupted and cannot be seen any more: it is not repeated.
static void decide_maybe(const struct look *look)
{
    decide(look->out, OPERATION_UNKNOWN, "MAYBE_RUN",
           "the agent was interrupted, and the object does not show whether it ran; it is not repeated");
}

// The mark of this operation in an operation of Argo CD, which keeps it in its state.
static bool is_marked(const struct look *look, const json_t *argo_operation)
{
    size_t i;
    json_t *each;
    json_array_foreach(json_get_array(argo_operation, "info"), i, each)
    {
        if (str_eq(json_get_str(each, "name"), STR(OPERATION_MARK)) &&
            str_eq(json_get_str(each, "value"), str_c(look->id)))
            return true;
    }
    return false;
}

// Whether the last operation of the Application began clearly before this one was asked for, so
// that this one has not been replaced by it. Clocks may differ by the margin.
static bool last_began_before(const struct look *look)
{
    enum { MARGIN_MS = 30000 };
    int64_t asked_ms, began_ms;
    const json_t *state = json_path(look->object, "status", "operationState", NULL);
    if (!state) return true;
    return clock_parse_rfc3339(look->operation->at, &asked_ms, NULL) == ERROR_NONE &&
           clock_parse_rfc3339(json_get_str(state, "startedAt"), &began_ms, NULL) == ERROR_NONE &&
           began_ms + MARGIN_MS < asked_ms;
}

// True: the Application shows this operation, and that was decided.
static bool judge_marked(const struct look *look)
{
    const json_t *asked = json_get_object(look->object, "operation");
    const json_t *state = json_path(look->object, "status", "operationState", NULL);
    struct str phase = json_get_str(state, "phase");
    if (is_marked(look, asked)) {
        look->out->verdict = OPERATION_WAIT;
        return true;
    }
    if (!is_marked(look, json_get_object(state, "operation"))) return false;
    if (str_eq(phase, STR("Succeeded")))
        look->out->verdict = OPERATION_DONE;
    else if (str_eq(phase, STR("Running")) || str_eq(phase, STR("Terminating")))
        look->out->verdict = OPERATION_WAIT;
    else
        decide(look->out, OPERATION_FAILED, "SYNC_FAILED", "Argo CD ended it as %.*s; the application has its message",
               STR_ARG(str_first(phase, 20)));
    return true;
}

// Argo CD takes an operation as the field of that name, and begins anew when the state of the last
// one is gone.
static void begin_argo_operation(const struct look *look, json_t *sync)
{
    const json_t *policy = json_path(look->object, "spec", "syncPolicy", NULL);
    const json_t *retry = json_get_object(policy, "retry");
    json_t *begun = json_pack("{s:o, s:{s:s%}, s:[{s:s, s:s}]}", "sync", sync, "initiatedBy", "username",
                              look->operation->by.len ? look->operation->by.at : "", look->operation->by.len, "info",
                              "name", OPERATION_MARK, "value", look->id);
    if (retry && look->operation->action == OPERATION_SYNC) json_object_set(begun, "retry", (json_t *)(uintptr_t)retry);
    change(look, json_pack("{s:o, s:{s:n}}", "operation", begun, "status", "operationState"));
}

static void copy(const json_t *from, const char *member, json_t *to)
{
    json_t *value = json_object_get(from, member);
    if (value && !json_is_null(value)) json_object_set(to, member, value);
}

// True: an operation of Argo CD cannot be begun now, and that was decided.
static bool is_hindered(const struct look *look)
{
    if (judge_marked(look)) return true;
    if (look->past->is_sent || (look->past->is_maybe && !last_began_before(look)))
        decide_maybe(look); // another one has taken its place
    else if (json_is_object(json_object_get(look->object, "operation")))
        decide(look->out, OPERATION_FAILED, "IN_PROGRESS", "another operation of the application is in progress");
    else if (json_object_get(json_get_object(look->object, "metadata"), "deletionTimestamp"))
        decide(look->out, OPERATION_FAILED, "CONFLICT", "the application is being deleted");
    else
        return false;
    return true;
}

static bool is_automated(const struct look *look)
{
    const json_t *automated = json_path(look->object, "spec", "syncPolicy", "automated", NULL);
    return json_is_object(automated) && json_get_bool(automated, "enabled", true);
}

// The application's own options, and Replace where it is asked for.
static json_t *sync_options(const struct look *look)
{
    json_t *options = json_array();
    const json_t *own = json_path(look->object, "spec", "syncPolicy", "syncOptions", NULL);
    if (json_is_array(own)) json_array_extend(options, (json_t *)(uintptr_t)own);
    if (json_get_bool(look->operation->parameters, "replace", false))
        json_array_append_new(options, json_string("Replace=true"));
    return options;
}

static void judge_sync(const struct look *look)
{
    const json_t *parameters = look->operation->parameters;
    struct str revision = json_get_str(parameters, "revision");
    struct str target = json_str(json_path(look->object, "spec", "source", "targetRevision", NULL));
    if (is_hindered(look)) return;
    if (is_automated(look) && revision.len && !str_eq(revision, target) &&
        !json_get_bool(parameters, "dryRun", false)) {
        decide(look->out, OPERATION_FAILED, "AUTOMATED",
               "auto-sync would undo the sync of another revision than the one in the application's source");
        return;
    }
    json_t *sync = json_object(), *options = sync_options(look);
    json_object_set_new(sync, "revision", json_new_str(revision.len ? revision : target));
    copy(parameters, "prune", sync);
    copy(parameters, "dryRun", sync);
    copy(parameters, "resources", sync);
    if (json_get_bool(parameters, "force", false))
        json_object_set_new(sync, "syncStrategy", json_pack("{s:{s:b}}", "hook", "force", true));
    if (json_array_size(options)) json_object_set(sync, "syncOptions", options);
    json_decref(options);
    begin_argo_operation(look, sync);
}

static void judge_rollback(const struct look *look)
{
    int64_t wanted = json_get_int(look->operation->parameters, "historyId", -1);
    const json_t *history = json_path(look->object, "status", "history", NULL);
    json_t *entry = NULL, *each;
    size_t i;
    if (is_hindered(look)) return;
    if (is_automated(look)) {
        decide(look->out, OPERATION_FAILED, "AUTOMATED", "auto-sync would undo the rollback: switch it off first");
        return;
    }
    json_array_foreach((json_t *)(uintptr_t)history, i, each) if (json_get_int(each, "id", -1) == wanted) entry = each;
    if (!entry) {
        decide(look->out, OPERATION_FAILED, "NOT_FOUND", "the application's history has no entry %lld",
               (long long)wanted);
        return;
    }
    json_t *sync = json_pack("{s:{s:{}}}", "syncStrategy", "apply");
    static const char *const members[] = {"revision", "revisions", "source", "sources"};
    for (i = 0; i < sizeof members / sizeof *members; i++)
        copy(entry, members[i], sync);
    copy(look->operation->parameters, "prune", sync);
    copy(look->operation->parameters, "dryRun", sync);
    begin_argo_operation(look, sync);
}

static void judge_terminate(const struct look *look)
{
    const json_t *state = json_path(look->object, "status", "operationState", NULL);
    bool is_running = json_is_object(json_object_get(look->object, "operation"));
    bool was_sent = look->past->is_sent || (look->past->is_maybe && !last_began_before(look));
    if (!is_running && (look->past->is_sent || look->past->is_maybe))
        look->out->verdict = OPERATION_DONE;
    else if (!is_running || !state)
        decide(look->out, OPERATION_FAILED, "NOT_RUNNING", "no operation of the application is in progress");
    else if (str_eq(json_get_str(state, "phase"), STR("Terminating")))
        look->out->verdict = OPERATION_WAIT;
    else if (was_sent) // this is another one: not to be ended
        look->out->verdict = OPERATION_DONE;
    else
        change(look, json_pack("{s:{s:{s:s}}}", "status", "operationState", "phase", "Terminating"));
}

// ---- workloads and Rollouts ---------------------------------------------------------------------

// The time of the request is the mark: written twice, it is the same restart.
static void judge_restart(const struct look *look)
{
    struct str at = look->operation->at;
    bool is_rollout = str_eq(look->operation->ref.kind, STR("Rollout"));
    const json_t *now =
        is_rollout ? json_path(look->object, "spec", "restartAt", NULL)
                   : json_path(look->object, "spec", "template", "metadata", "annotations", RESTART_ANNOTATION, NULL);
    if (look->past->is_sent || str_eq(json_str(now), at))
        look->out->verdict = OPERATION_DONE;
    else if (is_rollout)
        change(look, json_pack("{s:{s:s%}}", "spec", "restartAt", at.len ? at.at : "", at.len));
    else
        change(look, json_pack("{s:{s:{s:{s:{s:s%}}}}}", "spec", "template", "metadata", "annotations",
                               RESTART_ANNOTATION, at.len ? at.at : "", at.len));
}

static void change_status(const struct look *look, json_t *status)
{
    change(look, json_pack("{s:o}", "status", status));
    look->out->subresource = "status";
}

static void judge_skip(const struct look *look)
{
    const json_t *status = json_get_object(look->object, "status");
    int64_t step = json_get_int(status, "currentStepIndex", -1);
    size_t steps = json_array_size(json_path(look->object, "spec", "strategy", "canary", "steps", NULL));
    if (look->past->is_sent)
        look->out->verdict = OPERATION_DONE;
    else if (look->past->is_maybe) // it may be a step further already
        decide_maybe(look);
    else if (step < 0 || (uint64_t)step >= steps)
        decide(look->out, OPERATION_FAILED, "NOT_RUNNING", "the rollout is at none of its steps");
    else
        change_status(look, json_pack("{s:n, s:I}", "pauseConditions", "currentStepIndex", (json_int_t)(step + 1)));
}

// In two changes where it is paused by its spec and by its controller.
static void judge_resume(const struct look *look)
{
    const json_t *status = json_get_object(look->object, "status");
    if (json_is_true(json_path(look->object, "spec", "paused", NULL)))
        change(look, json_pack("{s:{s:b}}", "spec", "paused", false));
    else if (json_array_size(json_object_get(status, "pauseConditions")) && !look->past->is_sent)
        change_status(look, json_pack("{s:n}", "pauseConditions"));
    else
        look->out->verdict = OPERATION_DONE;
}

// As the plugin for kubectl: what is paused goes on, else the step is left.
static void judge_promote(const struct look *look)
{
    bool is_paused = json_is_true(json_path(look->object, "spec", "paused", NULL)) ||
                     json_array_size(json_path(look->object, "status", "pauseConditions", NULL));
    if (is_paused)
        judge_resume(look);
    else
        judge_skip(look);
}

static void judge_rollout(const struct look *look)
{
    const json_t *status = json_get_object(look->object, "status");
    bool is_aborted = json_get_bool(status, "abort", false);
    bool is_stable = str_eq(json_get_str(status, "currentPodHash"), json_get_str(status, "stableRS"));
    look->out->verdict = OPERATION_DONE; // of what is so already, too
    switch (look->operation->action) {
    case OPERATION_ROLLOUT_PAUSE:
        if (!json_is_true(json_path(look->object, "spec", "paused", NULL)))
            change(look, json_pack("{s:{s:b}}", "spec", "paused", true));
        break;
    case OPERATION_ROLLOUT_RESUME: judge_resume(look); break;
    case OPERATION_ROLLOUT_SKIP_CURRENT_STEP: judge_skip(look); break;
    case OPERATION_ROLLOUT_PROMOTE: judge_promote(look); break;
    case OPERATION_ROLLOUT_PROMOTE_FULL:
        if (!look->past->is_sent && !is_stable) change_status(look, json_pack("{s:b}", "promoteFull", true));
        break;
    case OPERATION_ROLLOUT_ABORT:
        if (!look->past->is_sent && !is_aborted) change_status(look, json_pack("{s:b}", "abort", true));
        break;
    default: // retry
        if (!look->past->is_sent && is_aborted) change_status(look, json_pack("{s:b}", "abort", false));
        break;
    }
}

// ---- deletion -----------------------------------------------------------------------------------

#define CASCADE_FINALIZER "resources-finalizer.argocd.argoproj.io"

static bool has_finalizer(const json_t *metadata)
{
    size_t i;
    json_t *each;
    json_array_foreach(json_get_array(metadata, "finalizers"), i, each)
    {
        if (str_starts(json_str(each), STR(CASCADE_FINALIZER))) return true;
    }
    return false;
}

// With `cascade` an Application gets Argo CD's finalizer first, which deletes its resources.
static void judge_delete(const struct look *look)
{
    const json_t *metadata = json_get_object(look->object, "metadata");
    bool is_other = look->past->uid.len && !str_eq(look->past->uid, json_get_str(metadata, "uid"));
    bool cascades = json_get_bool(look->operation->parameters, "cascade", false);
    if (is_other) { // it was deleted, and made again
        look->out->verdict = OPERATION_DONE;
    } else if (json_object_get(metadata, "deletionTimestamp")) {
        look->out->verdict = OPERATION_WAIT;
    } else if (look->past->is_maybe && !look->past->uid.len && !look->operation->ref.uid.len) {
        decide_maybe(look); // this may be one that was made since
    } else if (cascades && object_ref_is_application(&look->operation->ref) && !has_finalizer(metadata)) {
        json_t *finalizers = json_deep_copy(json_object_get(metadata, "finalizers"));
        if (!finalizers) finalizers = json_array();
        json_array_append_new(finalizers, json_string(CASCADE_FINALIZER));
        change(look, json_pack("{s:{s:o}}", "metadata", "finalizers", finalizers));
    } else {
        change(look, json_pack("{s:s, s:s, s:{s:O*, s:O*}}", "apiVersion", "v1", "kind", "DeleteOptions",
                               "preconditions", "uid", json_object_get(metadata, "uid"), "resourceVersion",
                               json_object_get(metadata, "resourceVersion")));
        json_object_del(look->out->body, "metadata");
        look->out->method = "DELETE";
        look->out->content_type = "application/json";
    }
}

// ---- Workflows ----------------------------------------------------------------------------------

// Nodes that wait to be resumed, as they are once they were; NULL: there are none.
static json_t *resumed_nodes(const struct look *look)
{
    json_t *changed = json_object(), *node;
    const char *id;
    json_object_foreach(json_path(look->object, "status", "nodes", NULL), id, node)
    {
        bool waits =
            str_eq(json_get_str(node, "type"), STR("Suspend")) && str_eq(json_get_str(node, "phase"), STR("Running"));
        if (!waits) continue;
        struct str at = look->operation->at;
        json_object_set_new(changed, id,
                            json_pack("{s:s, s:s%}", "phase", "Succeeded", "finishedAt", at.len ? at.at : "", at.len));
    }
    if (json_object_size(changed)) return changed;
    json_decref(changed);
    return NULL;
}

static void judge_resume_workflow(const struct look *look)
{
    json_t *nodes = resumed_nodes(look);
    bool is_suspended = json_is_true(json_path(look->object, "spec", "suspend", NULL));
    bool is_packed = json_get_str(json_get_object(look->object, "status"), "compressedNodes").len > 0;
    if (nodes)
        change(look, json_pack("{s:{s:n}, s:{s:o}}", "spec", "suspend", "status", "nodes", nodes));
    else if (is_suspended)
        change(look, json_pack("{s:{s:n}}", "spec", "suspend"));
    else if (look->past->is_sent || look->past->is_maybe)
        look->out->verdict = OPERATION_DONE;
    else if (is_packed)
        decide(look->out, OPERATION_FAILED, "NOT_SUPPORTED", "the nodes of the workflow are compressed in its status");
    else
        decide(look->out, OPERATION_FAILED, "NOT_RUNNING", "the workflow is not suspended");
}

static void judge_workflow(const struct look *look)
{
    const json_t *spec = json_get_object(look->object, "spec");
    struct str phase = json_str(json_path(look->object, "status", "phase", NULL));
    bool has_ended = str_eq(phase, STR("Succeeded")) || str_eq(phase, STR("Failed")) || str_eq(phase, STR("Error"));
    enum operation_action action = look->operation->action;
    const char *shutdown = action == OPERATION_WORKFLOW_STOP ? "Stop" : "Terminate";
    bool was_sent = look->past->is_sent || look->past->is_maybe;
    if (has_ended && was_sent)
        look->out->verdict = OPERATION_DONE;
    else if (has_ended)
        decide(look->out, OPERATION_FAILED, "NOT_RUNNING", "the workflow has ended as %.*s", STR_ARG(phase));
    else if (action == OPERATION_WORKFLOW_RESUME)
        judge_resume_workflow(look);
    else if (action == OPERATION_WORKFLOW_SUSPEND && json_get_bool(spec, "suspend", false))
        look->out->verdict = OPERATION_DONE;
    else if (action == OPERATION_WORKFLOW_SUSPEND)
        change(look, json_pack("{s:{s:b}}", "spec", "suspend", true));
    else if (str_eq(json_get_str(spec, "shutdown"), str_c(shutdown)))
        look->out->verdict = OPERATION_WAIT; // for its end
    else
        change(look, json_pack("{s:{s:s}}", "spec", "shutdown", shutdown));
}

static void judge(const struct look *look)
{
    switch (look->operation->action) {
    case OPERATION_REFRESH:
    case OPERATION_HARD_REFRESH: judge_refresh(look); break;
    case OPERATION_SYNC: judge_sync(look); break;
    case OPERATION_TERMINATE_SYNC: judge_terminate(look); break;
    case OPERATION_APP_ROLLBACK: judge_rollback(look); break;
    case OPERATION_RESTART: judge_restart(look); break;
    case OPERATION_DELETE: judge_delete(look); break;
    case OPERATION_WORKFLOW_STOP:
    case OPERATION_WORKFLOW_TERMINATE:
    case OPERATION_WORKFLOW_SUSPEND:
    case OPERATION_WORKFLOW_RESUME: judge_workflow(look); break;
    default: judge_rollout(look); break;
    }
}

void operation_judge(const struct operation *operation, const char *id, const json_t *object,
                     const struct operation_past *past, struct operation_decision *out)
{
    const struct look look = {operation, id, object, past, out};
    *out = (struct operation_decision){.verdict = OPERATION_WAIT};
    if (!object) {
        bool is_gone = past->is_sent || past->is_maybe;
        if (is_gone && operation->action == OPERATION_DELETE) {
            out->verdict = OPERATION_DONE;
            return;
        }
        decide(out, is_gone ? OPERATION_UNKNOWN : OPERATION_FAILED, is_gone ? "OBJECT_GONE" : "NOT_FOUND",
               is_gone ? "the object was deleted meanwhile" : "the cluster has no such object");
        return;
    }
    if (!past->is_sent && !is_meant(&look)) return;
    judge(&look);
}
