#include "storage/reports/report_entity.h"

#include "base/json/json.h"
#include "base/parse.h"

static const int64_t count_max = INT32_MAX;
enum { UID_MAX = 128, NAME_MAX_BYTES = 253 };

void report_entity_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                        struct str sha256)
{
    static const struct {
        const char *group, *kind;
        void (*plan)(struct report_plan *plan, const struct report *report, const json_t *manifest, struct str sha256);
    } kinds[] = {
        {"argoproj.io", "Rollout", report_rollout_plan},
        {"apps", "ReplicaSet", report_replica_set_plan},
        {"argoproj.io", "AnalysisRun", report_analysis_run_plan},
        {"argoproj.io", "Workflow", report_workflow_plan},
    };
    if (!manifest) return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_eq(report->kind, str_c(kinds[i].kind)) && str_eq(report->group, str_c(kinds[i].group)))
            kinds[i].plan(plan, report, manifest, sha256);
    report_image_plan(plan, report, manifest, sha256);
}

void report_entity_params(struct report_params *p, const struct report *report, struct str sha256)
{
    params_key(p, report);
    params_text(p, report->cluster.len ? report->cluster : STR("in-cluster"));
    params_text(p, report->ns);
    params_text(p, report->name);
    params_order(p, report);
    params_bytes_or_null(p, sha256);
}

void params_uid(struct report_params *p, const struct report *report, const json_t *manifest)
{
    struct str uid = report->uid;
    if (!uid.len) uid = report_cut(json_get_str(json_get_object(manifest, "metadata"), "uid"), UID_MAX);
    params_text(p, uid);
}

void params_count(struct report_params *p, const json_t *object, const char *member, int64_t def)
{
    const json_t *value = json_object_get(object, member);
    int64_t number = json_is_integer(value) ? (int64_t)json_integer_value(value) : def;
    if (!json_is_integer(value) && def < 0) {
        params_text_or_null(p, STR_EMPTY);
        return;
    }
    params_int(p, number < 0 ? 0 : number > count_max ? count_max : number);
}

void params_owner(struct report_params *p, const json_t *manifest)
{
    const json_t *list = json_path(manifest, "metadata", "ownerReferences", NULL), *owner = NULL;
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)list, i, each)
    {
        if (!owner && json_get_bool(each, "controller", false)) owner = each;
    }
    params_text(p, report_cut(json_get_str(owner, "kind"), UID_MAX));
    params_text(p, report_cut(json_get_str(owner, "name"), NAME_MAX_BYTES));
    params_text(p, report_cut(json_get_str(owner, "uid"), UID_MAX));
}

void params_revision(struct report_params *p, const json_t *manifest)
{
    const json_t *annotations = json_path(manifest, "metadata", "annotations", NULL);
    struct str text = json_get_str(annotations, "rollout.argoproj.io/revision");
    if (!text.len) text = json_get_str(annotations, "deployment.kubernetes.io/revision");
    uint64_t revision = 0;
    if (parse_u64(text, 0, (uint64_t)count_max, &revision, NULL) == ERROR_NONE)
        params_int(p, (int64_t)revision);
    else
        params_text_or_null(p, STR_EMPTY);
}

void params_member(struct report_params *p, const json_t *object, const char *member, size_t bytes_max)
{
    params_cut(p, json_get_str(object, member), bytes_max);
}
