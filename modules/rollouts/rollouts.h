// rollouts: rows that reports of its kinds write beside those of resources. Private to
// modules/rollouts/.
#ifndef CULVERT_MODULES_ROLLOUTS_ROLLOUTS_H
#define CULVERT_MODULES_ROLLOUTS_ROLLOUTS_H

#include "storage/reports/report_kind.h"

void report_rollout_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                         struct str sha256);
void report_replica_set_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                             struct str sha256);
void report_analysis_run_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                              struct str sha256);

#endif
