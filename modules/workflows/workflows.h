// workflows: rows that reports of its kinds write beside those of resources. Private to
// modules/workflows/.
#ifndef CULVERT_MODULES_WORKFLOWS_WORKFLOWS_H
#define CULVERT_MODULES_WORKFLOWS_WORKFLOWS_H

#include "storage/reports/report_kind.h"

void report_workflow_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                          struct str sha256);

#endif
