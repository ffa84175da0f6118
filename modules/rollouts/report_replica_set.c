// report_replica_set: one revision of a Rollout or a Deployment, and how many pods of it there are.
#include "base/json/json.h"
#include "culvert_statements.h"
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
    struct report_params p = {.plan = plan};
    report_entity_params(&p, report, sha256);
    params_uid(&p, report, manifest);
    params_owner(&p, manifest);
    params_revision(&p, manifest);
    params_cut(&p, pod_hash(manifest), HASH_MAX);
    params_count(&p, spec, "replicas", 1);
    params_count(&p, status, "replicas", -1);
    params_count(&p, status, "readyReplicas", -1);
    params_count(&p, status, "availableReplicas", -1);
    report_plan_add(plan, &statement_replica_set_put, &p);
}
