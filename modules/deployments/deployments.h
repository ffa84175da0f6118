// deployments: what reports over HTTP write of commits. Private to modules/deployments/.
#ifndef CULVERT_MODULES_DEPLOYMENTS_DEPLOYMENTS_H
#define CULVERT_MODULES_DEPLOYMENTS_DEPLOYMENTS_H

#include "storage/reports/report_kind.h"

void report_commit_plan(struct report_plan *plan, const struct report *report, const json_t *manifest);
// Of an application: those of its sources, too.
void report_commit_plan_application(struct report_plan *plan, const struct report *report, const json_t *manifest);

#endif
