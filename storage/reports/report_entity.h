// report_entity: rows beside those of resources, for the kinds that people ask about by their own columns. Each is
// written by the statement that follows its resource's, and only if that row is this report's: what is older, repeated
// out of order or overtaken within the batch writes nothing. For the files that plan one of these kinds.
#ifndef CULVERT_STORAGE_REPORTS_REPORT_ENTITY_H
#define CULVERT_STORAGE_REPORTS_REPORT_ENTITY_H

#include "storage/reports/report_plan.h"

// Adds what the kind of the report's object has beside its resource; nothing for most kinds. sha256: of the manifest as
// report_plan_blob() gave it.
void report_entity_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                        struct str sha256);

// ---- one kind each (report_rollout.c, report_replica_set.c, report_analysis_run.c, report_workflow.c) --------------

void report_rollout_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                         struct str sha256);
void report_replica_set_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                             struct str sha256);
void report_analysis_run_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                              struct str sha256);
void report_workflow_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                          struct str sha256);

// Any workload (report_image.c).
void report_image_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                       struct str sha256);

// $1 to $9 of their statements: account, runtime, cluster, namespace, name; epoch, sequence, observed_at, manifest's
// hash.
void report_entity_params(struct report_params *p, const struct report *report, struct str sha256);
// $10: the object's uid.
void params_uid(struct report_params *p, const struct report *report, const json_t *manifest);
// A number of things, between 0 and what GraphQL's Int holds; def (or NULL when negative) where there is none.
void params_count(struct report_params *p, const json_t *object, const char *member, int64_t def);
// Three: kind, name and uid of the controlling owner, "" without one.
void params_owner(struct report_params *p, const json_t *manifest);
// The revision that Argo Rollouts or Kubernetes wrote into the annotations, or NULL.
void params_revision(struct report_params *p, const json_t *manifest);
// A text member, cut.
void params_member(struct report_params *p, const json_t *object, const char *member, size_t bytes_max);

#endif
