// report_replica_set: one revision of a Rollout or a Deployment, and how many pods of it there are.
#include "base/json/json.h"
#include "culvert_statements.h"
#include "modules/rollouts/rollouts.h"
#include "storage/reports/report_entity.h"

enum { HASH_MAX = 128 };

static struct str pod_hash(const json_t *manifest)
{
    const json_t *labels = json_path(manifest, "metadata", "labels", NULL);
    struct str hash = json_get_str(labels, "rollouts-pod-template-hash");
    return hash.len ? hash : json_get_str(labels, "pod-template-hash");
}

void report_replica_set_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                             struct str sha256)
{
    const json_t *spec = json_get_object(manifest, "spec"), *status = json_get_object(manifest, "status");
    const struct report_owner owner = report_owner_of(plan, manifest);
    const struct sql_replica_set_put row = {
        ROW_ENTITY(plan, report, sha256),
        .uid = value_uid(plan, report, manifest),
        .owner_kind = owner.kind,
        .owner_name = owner.name,
        .owner_uid = owner.uid,
        .revision = value_revision(plan, manifest),
        .pod_template_hash = value_cut(plan, pod_hash(manifest), HASH_MAX),
        .desired_replicas = value_count(plan, spec, "replicas", 1),
        .current_replicas = value_count(plan, status, "replicas", -1),
        .ready_replicas = value_count(plan, status, "readyReplicas", -1),
        .available_replicas = value_count(plan, status, "availableReplicas", -1),
    };
    report_plan_add(plan, replica_set_put, &row);
}
