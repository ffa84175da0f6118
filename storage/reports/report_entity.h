// report_entity: values that statements of rows beside those of resources share
// (report_beside.plan_row).
#ifndef CULVERT_STORAGE_REPORTS_REPORT_ENTITY_H
#define CULVERT_STORAGE_REPORTS_REPORT_ENTITY_H

#include "storage/reports/report_plan.h"

// The values of `report_row` (report_entity.sql): which row of resources this report wrote. sha256:
// as above.
#define ROW_ENTITY(plan, report, sha256)                                                                               \
    ROW_KEY(plan, report), ROW_ORDER(plan, report),                                                                    \
        .cluster = value_cluster(plan, report), .namespace = value_text(plan, (report)->ref.ns),                       \
        .name = value_text(plan, (report)->ref.name), .manifest_sha256 = value_bytes_or_null(sha256)

struct pg_param value_uid(struct report_plan *plan, const struct report *report, const json_t *manifest);
// A number of things, between 0 and what GraphQL's Int holds; def (or NULL when negative) where there is none.
struct pg_param value_count(struct report_plan *plan, const json_t *object, const char *member, int64_t def);
// The revision that Argo Rollouts or Kubernetes wrote into the annotations, or NULL.
struct pg_param value_revision(struct report_plan *plan, const json_t *manifest);
// A text member, cut.
struct pg_param value_member(struct report_plan *plan, const json_t *object, const char *member, size_t bytes_max);

// The controlling owner; "" without one.
struct report_owner {
    struct pg_param kind, name, uid;
};
struct report_owner report_owner_of(struct report_plan *plan, const json_t *manifest);

#endif
