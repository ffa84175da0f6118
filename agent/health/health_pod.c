// Pods: Argo CD's verdict, and in the message what each container waits for or ended with, init containers too.
#include <inttypes.h>

#include "agent/health/health_rule.h"

enum { REASON_MAX = 64, NAME_MAX_BYTES = 63, TEXT_MAX = 300 };

static bool is_failing_reason(struct str reason)
{
    return str_starts(reason, STR("Err")) || str_ends(reason, STR("Error")) || str_ends(reason, STR("BackOff"));
}

static const json_t *state_of(const json_t *container, const char *state, const char *which)
{
    return json_get_object(json_get_object(container, state), which);
}

static void begin(struct strbuf *out, const json_t *container)
{
    if (out->len) strbuf_add_c(out, "; ");
    strbuf_addf(out, "container %.*s: ", STR_ARG(str_first(json_get_str(container, "name"), NAME_MAX_BYTES)));
}

static void add_reason(struct strbuf *out, struct str reason, struct str message)
{
    strbuf_add_str(out, str_first(reason, REASON_MAX));
    if (message.len) strbuf_addf(out, ": %.*s", STR_ARG(str_first(message, TEXT_MAX)));
}

// "OOMKilled (exit code 137)", "Error (exit code 1): the message it left".
static void add_terminated(struct strbuf *out, const json_t *terminated)
{
    struct str reason = json_get_str(terminated, "reason"), message = json_get_str(terminated, "message");
    int64_t code = json_get_int(terminated, "exitCode", 0), signal = json_get_int(terminated, "signal", 0);
    strbuf_add_str(out, str_first(reason.len ? reason : STR("Terminated"), REASON_MAX));
    strbuf_addf(out, " (exit code %" PRId64, code);
    if (signal) strbuf_addf(out, ", signal %" PRId64, signal);
    strbuf_add_c(out, ")");
    if (message.len) strbuf_addf(out, ": %.*s", STR_ARG(str_first(message, TEXT_MAX)));
}

// Why a container is not what it should be; nothing where there is nothing to tell.
static void add_container(struct strbuf *out, const json_t *container, bool is_init)
{
    const json_t *waiting = state_of(container, "state", "waiting"),
                 *terminated = state_of(container, "state", "terminated"),
                 *running = state_of(container, "state", "running"),
                 *last = state_of(container, "lastState", "terminated");
    bool ended_badly =
        json_get_int(terminated, "exitCode", 0) != 0 || str_eq(json_get_str(terminated, "reason"), STR("OOMKilled"));
    bool not_ready = running && !is_init && !json_get_bool(container, "ready", true);
    struct str reason = json_get_str(waiting, "reason");
    bool waits = waiting && !str_eq(reason, STR("ContainerCreating")) && !str_eq(reason, STR("PodInitializing"));
    if (!waits && !ended_badly && !not_ready) return;
    begin(out, container);
    if (waits) {
        add_reason(out, reason.len ? reason : STR("waiting"), json_get_str(waiting, "message"));
    } else if (ended_badly) {
        add_terminated(out, terminated);
    } else {
        // Running, and not ready: of its probes one has not succeeded.
        bool started = json_get_bool(container, "started", true);
        strbuf_add_c(out, started ? "not ready: its readiness probe does not succeed"
                                  : "not started: its startup probe has not succeeded");
    }
    if (!last || ended_badly) return;
    strbuf_add_c(out, ", ended before with ");
    add_terminated(out, last);
    strbuf_addf(out, ", restarted %" PRId64 " times", json_get_int(container, "restartCount", 0));
}

static void add_containers(struct strbuf *out, const json_t *list, bool is_init)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        add_container(out, json_array_get(list, i), is_init);
}

// The pod's own message first, then its containers', then why it cannot be scheduled.
static void explain(struct health *health, const char *verdict, const json_t *object)
{
    const json_t *status = json_get_object(object, "status");
    struct str reason = json_get_str(status, "reason"), message = json_get_str(status, "message");
    struct strbuf text;
    strbuf_init(&text, 64 * 1024);
    if (reason.len) strbuf_add_str(&text, str_first(reason, REASON_MAX));
    if (message.len) strbuf_addf(&text, "%s%.*s", reason.len ? ": " : "", STR_ARG(str_first(message, TEXT_MAX)));
    if (verdict != health_healthy) {
        add_containers(&text, json_get_array(status, "initContainerStatuses"), true);
        add_containers(&text, json_get_array(status, "containerStatuses"), false);
        const json_t *scheduled = health_condition(object, "PodScheduled");
        if (health_condition_is(scheduled, "False")) {
            if (text.len) strbuf_add_c(&text, "; ");
            add_reason(&text, json_get_str(scheduled, "reason"), json_get_str(scheduled, "message"));
        }
    }
    health_set_str(health, verdict, strbuf_str(&text));
    strbuf_finish(&text);
}

// Such a container will not come by itself. Pods that may end are let be: as hooks they would fail a sync that can
// still succeed.
static bool has_failing_container(const json_t *status)
{
    const json_t *list = json_get_array(status, "containerStatuses");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_failing_reason(json_get_str(state_of(json_array_get(list, i), "state", "waiting"), "reason")))
            return true;
    return false;
}

static bool has_restarted_container(const json_t *status)
{
    const json_t *list = json_get_array(status, "containerStatuses");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (state_of(json_array_get(list, i), "lastState", "terminated")) return true;
    return false;
}

static const char *verdict_of_running(const json_t *object, bool restarts_always, bool may_end)
{
    if (may_end) return health_progressing;
    if (!restarts_always) return health_unknown;
    if (health_condition_is(health_condition(object, "Ready"), "True")) return health_healthy;
    return has_restarted_container(json_get_object(object, "status")) ? health_degraded : health_progressing;
}

static const char *verdict_of(const json_t *object)
{
    const json_t *status = json_get_object(object, "status");
    struct str policy = json_get_str(json_get_object(object, "spec"), "restartPolicy"),
               phase = json_get_str(status, "phase");
    bool always = str_eq(policy, STR("Always")),
         may_end = str_eq(policy, STR("OnFailure")) || str_eq(policy, STR("Never"));
    if (always && has_failing_container(status)) return health_degraded;
    if (str_eq(phase, STR("Pending"))) return health_progressing;
    if (str_eq(phase, STR("Succeeded"))) return health_healthy;
    if (str_eq(phase, STR("Failed"))) return health_degraded;
    if (str_eq(phase, STR("Running"))) return verdict_of_running(object, always, may_end);
    return health_unknown;
}

void health_of_pod(struct health *health, const json_t *object)
{
    explain(health, verdict_of(object), object);
}
