#include "agent/operations/operation_judge.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/json/json.h"

#define REFRESH_ANNOTATION "argocd.argoproj.io/refresh"

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
    bool same_uid = !operation->uid.len || str_eq(operation->uid, json_get_str(metadata, "uid"));
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

void operation_judge(const struct operation *operation, const char *id, const json_t *object,
                     const struct operation_past *past, struct operation_decision *out)
{
    const struct look look = {operation, id, object, past, out};
    *out = (struct operation_decision){.verdict = OPERATION_WAIT};
    if (!object) {
        bool is_gone = past->is_sent || past->is_maybe;
        decide(out, is_gone ? OPERATION_UNKNOWN : OPERATION_FAILED, is_gone ? "OBJECT_GONE" : "NOT_FOUND",
               is_gone ? "the object was deleted meanwhile" : "the cluster has no such object");
        return;
    }
    if (!past->is_sent && !is_meant(&look)) return;
    switch (operation->action) {
    case OPERATION_REFRESH:
    case OPERATION_HARD_REFRESH: judge_refresh(&look); break;
    case OPERATION_ACTION_COUNT: break;
    }
}
