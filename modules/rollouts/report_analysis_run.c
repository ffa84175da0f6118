// report_analysis_run: what a rollout's analysis measured, and what it came to.
#include "base/json/json.h"
#include "culvert_statements.h"
#include "storage/reports/report_entity.h"

enum { TEXT_MAX = 4096, NAME_MAX_BYTES = 253, METRICS_MAX = 100, METRIC_TEXT_MAX = 512 };

static const char *const outcomes[] = {"successful", "failed", "inconclusive", "error"};
enum { OUTCOMES = sizeof outcomes / sizeof *outcomes };

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

static void plan_step_index(struct report_params *p, const json_t *labels)
{
    // The label's value is a number as text, where the run belongs to a step.
    struct str text = json_get_str(labels, "step-index");
    bool is_number = text.len > 0 && text.len <= 4;
    int64_t index = 0;
    for (size_t i = 0; i < text.len && is_number; i++) {
        is_number = text.at[i] >= '0' && text.at[i] <= '9';
        index = index * 10 + (text.at[i] - '0');
    }
    if (is_number)
        params_int(p, index);
    else
        params_text_or_null(p, STR_EMPTY);
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
    struct report_params p = {.plan = plan};
    report_entity_params(&p, report, sha256);
    params_uid(&p, report, manifest);
    params_owner(&p, manifest);
    params_revision(&p, manifest);
    params_member(&p, labels, "rollout-type", 64);
    plan_step_index(&p, labels);
    params_text_or_null(&p, known_phase(json_get_str(status, "phase")));
    params_member(&p, status, "message", TEXT_MAX);
    params_time_or_null(&p, json_get_str(status, "startedAt"));
    for (size_t i = 0; i < OUTCOMES; i++)
        params_int(&p, totals[i]);
    params_json(&p, metrics, METRICS_MAX * 2048, "[]");
    report_plan_add(plan, &statement_analysis_run_put, &p);
    json_decref(metrics);
}
