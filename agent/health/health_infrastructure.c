// Operators of machines and nodes, databases, queues, storage and monitoring.
#include <inttypes.h>

#include "agent/health/health_custom.h"

// ---- Cluster API, Karpenter ----------------------------------------------------------------------------------

static bool is_paused(struct health *health, const json_t *object)
{
    bool paused = json_get_bool(json_get_object(object, "spec"), "paused", false);
    if (paused) health_set(health, health_suspended, "Reconciliation is paused");
    return paused;
}

static void of_phase(struct health *health, const json_t *object, const char *good)
{
    struct str phase = json_get_str(health_status_of(object), "phase");
    const char *verdict = str_eq(phase, str_c(good))     ? health_healthy
                          : str_eq(phase, STR("Failed")) ? health_degraded
                                                         : health_progressing;
    health_set_str(health, verdict, phase.len ? phase : STR("Waiting for the status"));
}

static void of_capi_cluster(struct health *health, const json_t *object)
{
    if (is_paused(health, object)) return;
    of_phase(health, object, "Provisioned");
    const json_t *ready = health_condition(object, "Ready");
    // While it is provisioned Ready is False with the severity Info.
    if (health_condition_is(ready, "False") && !str_eq(json_get_str(ready, "severity"), STR("Info")))
        health_set_str(health, health_degraded, health_condition_text(ready));
}

static void of_capi_machine(struct health *health, const json_t *object)
{
    of_phase(health, object, "Running");
    const json_t *ready = health_condition(object, "Ready");
    if (health->status != health_healthy && health_condition_is(ready, "False"))
        health_set_str(health, health->status, health_condition_text(ready));
}

static void of_capi_machine_deployment(struct health *health, const json_t *object)
{
    if (!is_paused(health, object)) of_phase(health, object, "Running");
}

static void of_capi_machine_health_check(struct health *health, const json_t *object)
{
    const json_t *status = health_status_of(object);
    if (!json_object_get(status, "currentHealthy"))
        health_wait_for_status(health);
    else {
        int64_t now = json_get_int(status, "currentHealthy", 0), wanted = json_get_int(status, "expectedMachines", 0);
        health_set(health, now == wanted ? health_healthy : health_degraded,
                   "%" PRId64 " of %" PRId64 " machines are healthy", now, wanted);
    }
}

static void of_node_claim(struct health *health, const json_t *object)
{
    const json_t *disrupting = health_condition(object, "Disrupting");
    const json_t *observed = json_object_get(health_status_of(object), "observedGeneration");
    if (observed && json_get_int(health_status_of(object), "observedGeneration", 0) !=
                        json_get_int(json_get_object(object, "metadata"), "generation", 0))
        health_set(health, health_progressing, "Waiting for the controller to observe the new spec");
    else if (health_condition_is(disrupting, "True"))
        health_set_str(health, health_suspended, health_condition_text(disrupting));
    else
        health_of_ready(health, object);
}

// ---- databases, queues, storage, monitoring -------------------------------------------------------------------

static void of_cnpg_cluster(struct health *health, const json_t *object)
{
    static const char *const progressing[] = {"Setting up primary",
                                              "Creating a new replica",
                                              "Upgrading cluster",
                                              "Waiting for the instances to become active",
                                              "Promoting to primary cluster",
                                              NULL};
    static const char *const degraded[] = {
        "Switchover in progress",
        "Failing over",
        "Upgrading Postgres major version",
        "Cluster upgrade delayed",
        "Waiting for user action",
        "Primary instance is being restarted in-place",
        "Primary instance is being restarted without a switchover",
        "Cluster cannot execute instance online upgrade due to missing architecture binary",
        "Online upgrade in progress",
        "Applying configuration",
        NULL};
    static const char *const suspended[] = {
        "Unable to create required cluster objects",
        "Cluster cannot proceed to reconciliation due to an unknown plugin being required",
        "Cluster has incomplete or invalid image catalog", "Cluster is unrecoverable and needs manual intervention",
        NULL};
    const json_t *status = health_status_of(object), *hibernation = health_condition(object, "cnpg.io/hibernation");
    struct str phase = json_get_str(status, "phase"), reason = json_get_str(status, "phaseReason");
    struct str loop = json_get_str(json_path(object, "metadata", "annotations", NULL), "cnpg.io/reconciliationLoop");
    const char *verdict = !health_conditions_of(status)                    ? health_progressing
                          : str_eq(phase, STR("Cluster in healthy state")) ? health_healthy
                          : health_is_among(phase, progressing)            ? health_progressing
                          : health_is_among(phase, degraded)               ? health_degraded
                          : health_is_among(phase, suspended)              ? health_suspended
                                                                           : health_unknown;
    if (str_eq(loop, STR("disabled")))
        health_set(health, health_suspended, "Reconciliation is disabled");
    else if (hibernation)
        health_set_str(health, health_condition_is(hibernation, "True") ? health_suspended : health_degraded,
                       health_condition_text(hibernation));
    else
        health_set_str(health, verdict, reason.len ? reason : phase);
}

static void of_zalando_postgresql(struct health *health, const json_t *object)
{
    struct str word = json_get_str(health_status_of(object), "PostgresClusterStatus");
    const char *verdict = str_eq(word, STR("Running")) ? health_healthy
                          : !word.len || str_eq(word, STR("Creating")) || str_eq(word, STR("Updating"))
                              ? health_progressing
                              : health_degraded;
    health_set_str(health, verdict, word);
}

static void of_strimzi(struct health *health, const json_t *object)
{
    const json_t *not_ready = health_condition(object, "NotReady");
    if (health_condition_is(not_ready, "True"))
        health_set_str(health, health_degraded, health_condition_text(not_ready));
    else if (health_condition_is(health_condition(object, "Ready"), "True"))
        health_set(health, health_healthy, NULL);
    else
        health_wait_for_status(health);
}

static void of_strimzi_kafka(struct health *health, const json_t *object)
{
    const json_t *not_ready = health_condition(object, "NotReady");
    if (health_condition_is(not_ready, "True") && str_eq(json_get_str(not_ready, "reason"), STR("Creating")) &&
        !health_condition_is(health_condition(object, "Ready"), "True"))
        health_set_str(health, health_progressing, health_condition_text(not_ready));
    else
        of_strimzi(health, object);
}

static void of_rabbitmq_cluster(struct health *health, const json_t *object)
{
    const json_t *success = health_condition(object, "ReconcileSuccess"),
                 *available = health_condition(object, "ClusterAvailable"),
                 *ready = health_condition(object, "AllReplicasReady");
    if (health_condition_is(success, "False"))
        health_set_str(health, health_degraded, health_condition_text(success));
    else if (health_condition_is(available, "True") && health_condition_is(ready, "True"))
        health_set(health, health_healthy, NULL);
    else
        health_set_str(health, health_progressing,
                       health_condition_text(health_condition_is(available, "True") ? ready : available));
}

static void of_rabbitmq_topology(struct health *health, const json_t *object)
{
    const json_t *ready = health_condition(object, "Ready");
    struct str reason = json_get_str(ready, "reason");
    const char *verdict =
        health_condition_is(ready, "True") && str_eq(reason, STR("SuccessfulCreateOrUpdate")) ? health_healthy
        : health_condition_is(ready, "False") && str_eq(reason, STR("FailedCreateOrUpdate"))  ? health_degraded
                                                                                              : health_unknown;
    health_set_str(health, verdict, health_condition_text(ready));
}

static void of_volume_snapshot(struct health *health, const json_t *object)
{
    const json_t *status = health_status_of(object), *error = json_get_object(status, "error");
    if (json_get_bool(status, "readyToUse", false))
        health_set(health, health_healthy, "Ready to use");
    else if (error)
        health_set_str(health, health_degraded, json_get_str(error, "message"));
    else
        health_wait_for_status(health);
}

static void of_prometheus(struct health *health, const json_t *object)
{
    const json_t *available = health_condition(object, "Available");
    bool waits = str_eq(json_get_str(available, "reason"), STR("SomePodsNotReady"));
    if (!available)
        health_wait_for_status(health);
    else if (health_condition_is(available, "True"))
        health_set(health, health_healthy, NULL);
    else
        health_set_str(health, waits ? health_progressing : health_degraded, health_condition_text(available));
}

// clang-format off
static const struct health_rule rules[] = {
    {"cluster.x-k8s.io", "Cluster", of_capi_cluster},
    {"cluster.x-k8s.io", "Machine", of_capi_machine},
    {"cluster.x-k8s.io", "MachineDeployment", of_capi_machine_deployment},
    {"cluster.x-k8s.io", "MachineHealthCheck", of_capi_machine_health_check},
    {"karpenter.sh", "NodeClaim", of_node_claim},
    {"postgresql.cnpg.io", "Cluster", of_cnpg_cluster},
    {"acid.zalan.do", "postgresql", of_zalando_postgresql},
    {"kafka.strimzi.io", "Kafka", of_strimzi_kafka},
    {"kafka.strimzi.io", "KafkaBridge", of_strimzi},
    {"kafka.strimzi.io", "KafkaConnect", of_strimzi},
    {"kafka.strimzi.io", "KafkaConnector", of_strimzi},
    {"kafka.strimzi.io", "KafkaTopic", of_strimzi},
    {"kafka.strimzi.io", "KafkaUser", of_strimzi},
    {"rabbitmq.com", "RabbitmqCluster", of_rabbitmq_cluster},
    {"rabbitmq.com", "Binding", of_rabbitmq_topology},
    {"rabbitmq.com", "Exchange", of_rabbitmq_topology},
    {"rabbitmq.com", "Permission", of_rabbitmq_topology},
    {"rabbitmq.com", "Policy", of_rabbitmq_topology},
    {"rabbitmq.com", "Queue", of_rabbitmq_topology},
    {"rabbitmq.com", "Shovel", of_rabbitmq_topology},
    {"rabbitmq.com", "User", of_rabbitmq_topology},
    {"rabbitmq.com", "Vhost", of_rabbitmq_topology},
    {"snapshot.storage.k8s.io", "VolumeSnapshot", of_volume_snapshot},
    {"snapshot.storage.k8s.io", "VolumeSnapshotContent", of_volume_snapshot},
    {"monitoring.coreos.com", "Prometheus", of_prometheus},
};
// clang-format on

const struct health_rule_table health_infrastructure_rules = {rules, sizeof rules / sizeof *rules};
