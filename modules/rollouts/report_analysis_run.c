// report_analysis_run: what a rollout's analysis measured, and what it came to.
#include "base/json/json.h"
#include "culvert_statements.h"
#include "modules/rollouts/rollouts.h"
#include "storage/reports/report_entity.h"

enum { TEXT_MAX = 4096, NAME_MAX_BYTES = 253, METRICS_MAX = 100, METRIC_TEXT_MAX = 512 };

enum { SUCCESSFUL, FAILED, INCONCLUSIVE, ERRORED, OUTCOMES };
static const char *const outcomes[OUTCOMES] = {"successful", "failed", "inconclusive", "error"};

static int64_t count_of(const json_t *result, const char *member)
{
    const json_t *value = json_object_get(result, member);
    int64_t number = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
    return number < 0 ? 0 : number > INT32_MAX ? INT32_MAX : number;
}

// One entry of status.metricResults as it is kept; its counts are added to the totals.
static json_t *metric_of(const json_t *result, int64_t totals[OUTCOMES])
{
    json_t *metric = json_object();
    json_object_set_new(metric, "name", json_new_str(report_cut(json_get_str(result, "name"), NAME_MAX_BYTES)));
    json_object_set_new(metric, "phase", json_new_str(report_cut(json_get_str(result, "phase"), 64)));
    struct str message = report_cut(json_get_str(result, "message"), METRIC_TEXT_MAX);
    if (message.len) json_object_set_new(metric, "message", json_new_str(message));
    for (size_t i = 0; i < OUTCOMES; i++) {
        int64_t count = count_of(result, outcomes[i]);
        if (totals[i] <= INT32_MAX - count) totals[i] += count;
        json_object_set_new(metric, outcomes[i], json_integer(count));
    }
    return metric;
}

static struct str known_phase(struct str phase)
{
    static const char *const known[] = {"Pending", "Running", "Successful", "Failed", "Error", "Inconclusive"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eq(phase, str_c(known[i]))) return phase;
    return STR_EMPTY;
}

static struct pg_param step_index_of(struct report_plan *plan, const json_t *labels)
{
    // The label's value is a number as text, where the run belongs to a step.
    struct str text = json_get_str(labels, "step-index");
    bool is_number = text.len > 0 && text.len <= 4;
    int64_t index = 0;
    for (size_t i = 0; i < text.len && is_number; i++) {
        is_number = text.at[i] >= '0' && text.at[i] <= '9';
        index = index * 10 + (text.at[i] - '0');
    }
    return is_number ? value_int(plan, index) : pg_null();
}

void report_analysis_run_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                              struct str sha256)
{
    const json_t *status = json_get_object(manifest, "status");
    const json_t *labels = json_path(manifest, "metadata", "labels", NULL);
    json_t *metrics = json_array(), *each;
    int64_t totals[OUTCOMES] = {0};
    size_t k;
    json_array_foreach(json_get_array(status, "metricResults"), k, each)
    {
        if (k < METRICS_MAX) json_array_append_new(metrics, metric_of(each, totals));
    }
    const struct report_owner owner = report_owner_of(plan, manifest);
    const struct sql_analysis_run_put row = {
        ROW_ENTITY(plan, report, sha256),
        .uid = value_uid(plan, report, manifest),
        .owner_kind = owner.kind,
        .owner_name = owner.name,
        .owner_uid = owner.uid,
        .revision = value_revision(plan, manifest),
        .run_type = value_member(plan, labels, "rollout-type", 64),
        .step_index = step_index_of(plan, labels),
        .phase = value_text_or_null(plan, known_phase(json_get_str(status, "phase"))),
        .message = value_member(plan, status, "message", TEXT_MAX),
        .started_at = value_time_or_null(plan, json_get_str(status, "startedAt")),
        .successful = value_int(plan, totals[SUCCESSFUL]),
        .failed = value_int(plan, totals[FAILED]),
        .inconclusive = value_int(plan, totals[INCONCLUSIVE]),
        .errored = value_int(plan, totals[ERRORED]),
        .metrics = value_json(plan, metrics, METRICS_MAX * 2048, "[]"),
    };
    report_plan_add(plan, analysis_run_put, &row);
    json_decref(metrics);
}
