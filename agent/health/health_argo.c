// Argo's own kinds. Of an Application Argo CD says the health itself (status.health): it has no rule here.
#include <inttypes.h>

#include "agent/health/health_rule.h"
#include "base/parse.h"

static struct str text_or(struct str text, const char *def)
{
    return text.len ? text : str_c(def);
}

// ---- rollouts ------------------------------------------------------------------------------------------------

// A number that controllers write as text: observedGeneration of a rollout. -1: none.
static int64_t number_of(const json_t *value)
{
    uint64_t number = 0;
    if (json_is_integer(value)) return json_integer_value(value);
    struct str text = json_str(value);
    return text.len && parse_u64(text, 0, INT64_MAX, &number, NULL) == ERROR_NONE ? (int64_t)number : -1;
}

// Versions before 0.10 wrote a hash, which is no number or a huge one, and count as observed.
static bool rollout_is_observed(const json_t *object)
{
    const json_t *status = json_get_object(object, "status");
    if (!status) return false;
    int64_t observed = number_of(json_object_get(status, "observedGeneration")),
            generation = json_get_int(json_get_object(object, "metadata"), "generation", 0);
    if (observed >= 0 && observed < generation) return false;
    const json_t *annotations = json_path(object, "metadata", "annotations", NULL);
    if (!json_get_object(json_get_object(object, "spec"), "workloadRef") || !annotations) return true;
    return number_of(json_object_get(annotations, "rollout.argoproj.io/workload-generation")) ==
           number_of(json_object_get(status, "workloadObservedGeneration"));
}

static bool rollout_has_failed(struct health *health, const json_t *status)
{
    const json_t *conditions = json_get_array(status, "conditions");
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        struct str type = json_get_str(condition, "type"), reason = json_get_str(condition, "reason");
        bool stuck = str_eq(type, STR("Progressing")) &&
                     (str_eq(reason, STR("RolloutAborted")) || str_eq(reason, STR("ProgressDeadlineExceeded")));
        if (!str_eq(type, STR("InvalidSpec")) && !stuck) continue;
        health_set_str(health, health_degraded, health_condition_text(condition));
        return true;
    }
    return false;
}

static bool rollout_is_paused(const json_t *object)
{
    return json_array_size(json_get_array(json_get_object(object, "status"), "pauseConditions")) > 0 ||
           json_get_bool(json_get_object(object, "spec"), "paused", false);
}

static struct str stable_of(const json_t *status)
{
    struct str stable = json_get_str(status, "stableRS");
    return stable.len ? stable : json_get_str(json_get_object(status, "canary"), "stableRS");
}

// Of controllers before 1.0, which write no phase.
static const char *rollout_waits_for(const json_t *object)
{
    const json_t *spec = json_get_object(object, "spec"), *status = json_get_object(object, "status");
    struct str hash = json_get_str(status, "currentPodHash"), stable = stable_of(status);
    int64_t wanted = json_get_int(spec, "replicas", 1), replicas = json_get_int(status, "replicas", 0),
            updated = json_get_int(status, "updatedReplicas", 0),
            available = json_get_int(status, "availableReplicas", 0);
    const json_t *strategy = json_get_object(spec, "strategy");
    if (!hash.len) return "Waiting for the status";
    if (updated < wanted) return "More replicas need to be updated";
    if (available < updated) return "Updated replicas are not available yet";
    if (json_get_object(strategy, "blueGreen")) {
        struct str active = json_get_str(json_get_object(status, "blueGreen"), "activeSelector");
        if (!str_eq(active, hash)) return "The active service was not switched yet";
        if (stable.len && !str_eq(stable, hash)) return "Waiting for the analysis to complete";
    } else if (json_get_object(strategy, "canary")) {
        if (replicas > updated) return "Old replicas are pending termination";
        if (!str_eq(stable, hash)) return "Waiting for the steps to finish";
    }
    return NULL;
}

static const char *status_of_phase(struct str phase)
{
    static const char *const known[] = {health_healthy, health_progressing, health_degraded};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eq(phase, str_c(known[i]))) return known[i];
    return str_eq(phase, STR("Paused")) ? health_suspended : health_unknown;
}

void health_of_rollout(struct health *health, const json_t *object)
{
    const json_t *status = json_get_object(object, "status");
    struct str phase = json_get_str(status, "phase");
    if (!rollout_is_observed(object)) {
        health_set(health, health_progressing, "Waiting for rollout spec update to be observed");
    } else if (phase.len) {
        health_set_str(health, status_of_phase(phase), json_get_str(status, "message"));
    } else if (!rollout_has_failed(health, status)) {
        const char *waits_for = rollout_waits_for(object);
        if (rollout_is_paused(object))
            health_set(health, health_suspended, "Rollout is paused");
        else
            health_set_str(health, waits_for ? health_progressing : health_healthy, str_c(waits_for));
    }
}

// ---- phases --------------------------------------------------------------------------------------------------

struct phase {
    const char *phase, *status, *message;
};

// False: the phase is not in the table.
static bool assess_phase(struct health *health, const json_t *object, const struct phase *phases)
{
    const json_t *status = json_get_object(object, "status");
    struct str phase = json_get_str(status, "phase");
    for (; phases->phase; phases++) {
        if (!str_eq(phase, str_c(phases->phase))) continue;
        health_set_str(health, phases->status, text_or(json_get_str(status, "message"), phases->message));
        return true;
    }
    return false;
}

void health_of_analysis_run(struct health *health, const json_t *object)
{
    static const struct phase phases[] = {{"Pending", health_progressing, "Analysis run is pending"},
                                          {"Running", health_progressing, "Analysis run is running"},
                                          {"Successful", health_healthy, "Analysis run was successful"},
                                          {"Failed", health_degraded, "Analysis run failed"},
                                          {"Error", health_degraded, "Analysis run had an error"},
                                          {"Inconclusive", health_unknown, "Analysis run was inconclusive"},
                                          {NULL, NULL, NULL}};
    if (!assess_phase(health, object, phases)) health_set(health, health_progressing, "Waiting for the status");
}

void health_of_experiment(struct health *health, const json_t *object)
{
    static const struct phase phases[] = {{"Pending", health_progressing, "Experiment is pending"},
                                          {"Running", health_progressing, "Experiment is running"},
                                          {"Successful", health_healthy, "Experiment was successful"},
                                          {"Failed", health_degraded, "Experiment failed"},
                                          {"Error", health_degraded, "Experiment had an error"},
                                          {NULL, NULL, NULL}};
    if (!assess_phase(health, object, phases)) health_set(health, health_progressing, "Waiting for the status");
}

void health_of_workflow(struct health *health, const json_t *object)
{
    static const struct phase phases[] = {{"", health_progressing, ""},
                                          {"Pending", health_progressing, ""},
                                          {"Running", health_progressing, ""},
                                          {"Succeeded", health_healthy, ""},
                                          {"Failed", health_degraded, ""},
                                          {"Error", health_degraded, ""},
                                          {NULL, NULL, NULL}};
    if (!assess_phase(health, object, phases))
        health_set_str(health, health_unknown, json_get_str(json_get_object(object, "status"), "message"));
}

// ---- conditions ----------------------------------------------------------------------------------------------

struct verdict {
    const char *type, *is, *status;
};

static bool assess_conditions(struct health *health, const json_t *object, const struct verdict *verdicts)
{
    for (; verdicts->type; verdicts++) {
        const json_t *condition = health_condition(object, verdicts->type);
        if (!health_condition_is(condition, verdicts->is)) continue;
        health_set_str(health, verdicts->status, health_condition_text(condition));
        return true;
    }
    return false;
}

void health_of_application_set(struct health *health, const json_t *object)
{
    static const struct verdict verdicts[] = {{"ErrorOccurred", "True", health_degraded},
                                              {"ResourcesUpToDate", "False", health_degraded},
                                              {"RolloutProgressing", "True", health_progressing},
                                              {"ResourcesUpToDate", "True", health_healthy},
                                              {NULL, NULL, NULL}};
    if (!assess_conditions(health, object, verdicts)) health_set(health, health_progressing, "Waiting for the status");
}

void health_of_cron_workflow(struct health *health, const json_t *object)
{
    static const struct verdict verdicts[] = {
        {"SpecError", "True", health_degraded}, {"SubmissionError", "True", health_degraded}, {NULL, NULL, NULL}};
    if (!assess_conditions(health, object, verdicts)) health_set(health, health_healthy, NULL);
}

void health_of_event_bus(struct health *health, const json_t *object)
{
    static const struct verdict verdicts[] = {
        {"Deployed", "False", health_degraded}, {"Deployed", "True", health_healthy}, {NULL, NULL, NULL}};
    if (!assess_conditions(health, object, verdicts)) health_set(health, health_progressing, "Waiting for the status");
}
