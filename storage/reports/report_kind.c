#include "storage/reports/report_kind.h"

#include <assert.h>

const struct report_kind *report_kinds_find(const struct report_kinds *kinds, const struct report *report)
{
    const struct report_kind *any = NULL;
    for (size_t i = 0; i < kinds->count; i++) {
        const struct report_kind *kind = &kinds->kinds[i];
        if (!kind->matches)
            any = kind;
        else if (kind->matches(report))
            return kind;
    }
    assert(any);
    return any;
}

static bool is_about(const struct report_beside *beside, const struct report *report)
{
    return !beside->kind || object_ref_is(&report->ref, beside->group, beside->kind);
}

void report_kinds_plan_rows(struct report_plan *plan, const struct report *report, const json_t *manifest,
                            struct str sha256, int step)
{
    if (!manifest) return;
    for (size_t i = 0; i < plan->kinds->beside_count; i++) {
        const struct report_beside *beside = &plan->kinds->besides[i];
        size_t first = plan->step_count;
        if (!beside->plan_row || !is_about(beside, report)) continue;
        beside->plan_row(plan, report, manifest, sha256);
        if (!beside->is_counted_apart && plan->step_count > first) report_plan_beside(plan, step, first);
    }
}

void report_kinds_plan_http(struct report_plan *plan, const struct report *report, const json_t *manifest)
{
    for (size_t i = 0; i < plan->kinds->beside_count; i++) {
        const struct report_beside *beside = &plan->kinds->besides[i];
        bool is_for_it = report->source == REPORT_FROM_HTTP || beside->for_tunnel;
        if (beside->plan_http && is_for_it && is_about(beside, report)) beside->plan_http(plan, report, manifest);
    }
}
