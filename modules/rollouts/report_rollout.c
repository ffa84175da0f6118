// report_rollout: a Rollout of Argo Rollouts: strategy, steps, where it stands.
#include "base/json/json.h"
#include "culvert_statements.h"
#include "modules/rollouts/rollouts.h"
#include "storage/reports/report_entity.h"

enum { TEXT_MAX = 4096, NAME_MAX_BYTES = 253, STEPS_MAX = 64 * 1024, HISTORY_DEFAULT = 10 };

static int64_t bounded_weight(const json_t *value)
{
    int64_t weight = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
    return weight < 0 ? 0 : weight > 100 ? 100 : weight;
}

// In percent. The controller tells it where it steers traffic; elsewhere it is what the last step before this one asked
// for, and everything once the rollout is through.
static int64_t weight_of(const json_t *steps, const json_t *status)
{
    const json_t *told = json_path(status, "canary", "weights", "canary", "weight", NULL);
    if (json_is_integer(told)) return bounded_weight(told);
    struct str current = json_get_str(status, "currentPodHash"), stable = json_get_str(status, "stableRS");
    if (current.len && str_eq(current, stable)) return 100;
    const json_t *index = json_object_get(status, "currentStepIndex");
    int64_t weight = 0;
    for (size_t i = 0; i < json_array_size(steps) && json_is_integer(index); i++) {
        const json_t *set = json_object_get(json_array_get(steps, i), "setWeight");
        // The step that is under way counts: its weight is set at its beginning.
        if ((json_int_t)i <= json_integer_value(index) && json_is_integer(set)) weight = bounded_weight(set);
    }
    return weight;
}

static void add_run(json_t *analysis, const char *name, const json_t *run)
{
    static const char *const members[] = {"name", "status", "message"};
    if (!json_get_str(run, "name").len) return;
    json_t *copy = json_object();
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct str text = report_cut(json_get_str(run, members[i]), 1024);
        if (text.len) json_object_set_new(copy, members[i], json_new_str(text));
    }
    json_object_set_new(analysis, name, copy);
}

static json_t *analysis_of(const json_t *status)
{
    const json_t *canary = json_get_object(status, "canary"), *blue_green = json_get_object(status, "blueGreen");
    json_t *analysis = json_object();
    add_run(analysis, "step", json_get_object(canary, "currentStepAnalysisRunStatus"));
    add_run(analysis, "background", json_get_object(canary, "currentBackgroundAnalysisRunStatus"));
    add_run(analysis, "prePromotion", json_get_object(blue_green, "prePromotionAnalysisRunStatus"));
    add_run(analysis, "postPromotion", json_get_object(blue_green, "postPromotionAnalysisRunStatus"));
    return analysis;
}

static void plan_progress(struct report_plan *plan, struct sql_rollout_put *row, const json_t *spec,
                          const json_t *status, const json_t *steps)
{
    bool is_paused = json_get_bool(spec, "paused", false) || json_get_bool(status, "controllerPause", false) ||
                     json_array_size(json_get_array(status, "pauseConditions")) > 0;
    row->steps = value_json(plan, steps, STEPS_MAX, NULL);
    row->current_step_index = value_count(plan, status, "currentStepIndex", -1);
    row->weight = value_int(plan, weight_of(steps, status));
    row->is_aborted = value_bool(json_get_bool(status, "abort", false));
    row->is_paused = value_bool(is_paused);
    row->is_promote_full = value_bool(json_get_bool(status, "promoteFull", false));
}

void report_rollout_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                         struct str sha256)
{
    const json_t *spec = json_get_object(manifest, "spec"), *status = json_get_object(manifest, "status");
    const json_t *canary = json_path(spec, "strategy", "canary", NULL);
    const json_t *blue_green = json_path(spec, "strategy", "blueGreen", NULL);
    bool is_blue_green = json_is_object(blue_green);
    struct str phase = json_get_str(status, "phase");
    json_t *analysis = analysis_of(status);
    const json_t *services = is_blue_green ? blue_green : canary;
    struct sql_rollout_put row = {
        ROW_ENTITY(plan, report, sha256),
        .uid = value_uid(plan, report, manifest),
        .phase = value_text(plan, phase.len ? report_cut(phase, 64) : STR("Unknown")),
        .message = value_member(plan, status, "message", TEXT_MAX),
        .strategy = pg_text(is_blue_green            ? STR("blueGreen")
                            : json_is_object(canary) ? STR("canary")
                                                     : STR("")),
        .revision = value_revision(plan, manifest),
        .desired_replicas = value_count(plan, spec, "replicas", 1),
        .revision_history_limit = value_count(plan, spec, "revisionHistoryLimit", HISTORY_DEFAULT),
        .current_replicas = value_count(plan, status, "replicas", -1),
        .ready_replicas = value_count(plan, status, "readyReplicas", -1),
        .available_replicas = value_count(plan, status, "availableReplicas", -1),
        .updated_replicas = value_count(plan, status, "updatedReplicas", -1),
        .stable_service =
            value_member(plan, services, is_blue_green ? "activeService" : "stableService", NAME_MAX_BYTES),
        .new_service = value_member(plan, services, is_blue_green ? "previewService" : "canaryService", NAME_MAX_BYTES),
        .stable_hash = value_member(plan, status, "stableRS", 128),
        .current_hash = value_member(plan, status, "currentPodHash", 128),
        .analysis = value_json(plan, analysis, 16 * 1024, "{}"),
    };
    plan_progress(plan, &row, spec, status, json_get_array(canary, "steps"));
    report_plan_add(plan, rollout_put, &row);
    json_decref(analysis);
}
