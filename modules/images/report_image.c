// report_image: the images that a workload runs. Of workloads that nothing else made: what they make runs the same.
#include "base/json/json.h"
#include "culvert_statements.h"
#include "modules/images/images.h"
#include "storage/reports/report_entity.h"

static bool is_workload(const struct report *report)
{
    static const struct {
        const char *group, *kind;
    } kinds[] = {{"apps", "Deployment"},
                 {"apps", "StatefulSet"},
                 {"apps", "DaemonSet"},
                 {"argoproj.io", "Rollout"},
                 {"batch", "CronJob"},
                 {"batch", "Job"},
                 {"", "Pod"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_eq(report->ref.kind, str_c(kinds[i].kind)) && str_eq(report->ref.group, str_c(kinds[i].group)))
            return true;
    return false;
}

void report_image_plan(struct report_plan *plan, const struct report *report, const json_t *manifest, struct str sha256)
{
    const json_t *owners = json_path(manifest, "metadata", "ownerReferences", NULL);
    if (!is_workload(report) || json_array_size(owners) > 0) return;
    const struct sql_image_uses_put row = {
        ROW_ENTITY(plan, report, sha256),
        .api_group = value_text(plan, report->ref.group),
        .kind = value_text(plan, report->ref.kind),
    };
    report_plan_add(plan, image_uses_put, &row);
}
