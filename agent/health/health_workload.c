// Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs and CronJobs.
#include <inttypes.h>
#include <string.h>

#include "agent/health/health_rule.h"
#include "base/mem.h"

static int64_t spec_replicas(const json_t *spec)
{
    return json_is_integer(json_object_get(spec, "replicas")) ? json_get_int(spec, "replicas", 0) : -1;
}

// What else is wrong with pods that do not come: quota, admission, a missing service account.
static void add_failure(struct health *health, const json_t *object)
{
    const json_t *failure = health_condition(object, "ReplicaFailure");
    if (!health_condition_is(failure, "True")) return;
    AUTO_FREE char *whole =
        mem_printf("%.*s; %.*s", STR_ARG(strbuf_str(&health->message)), STR_ARG(health_condition_text(failure)));
    health_set_str(health, health->status, str_c(whole));
}

void health_of_deployment(struct health *health, const json_t *object)
{
    const json_t *spec = json_get_object(object, "spec"), *status = json_get_object(object, "status");
    int64_t wanted = spec_replicas(spec), replicas = json_get_int(status, "replicas", 0),
            updated = json_get_int(status, "updatedReplicas", 0),
            available = json_get_int(status, "availableReplicas", 0);
    const json_t *progressing = health_condition(object, "Progressing");
    if (json_get_bool(spec, "paused", false))
        health_set(health, health_suspended, "Deployment is paused");
    else if (health_is_unobserved(object))
        health_set(health, health_progressing, "Waiting for the controller to observe the new spec");
    else if (str_eq(json_get_str(progressing, "reason"), STR("ProgressDeadlineExceeded")))
        health_set(health, health_degraded,
                   "ProgressDeadlineExceeded: %" PRId64 " of %" PRId64 " replicas are available", available,
                   wanted < 0 ? 1 : wanted);
    else if (wanted >= 0 && updated < wanted)
        health_set(health, health_progressing, "%" PRId64 " of %" PRId64 " replicas are updated", updated, wanted);
    else if (replicas > updated)
        health_set(health, health_progressing, "%" PRId64 " old replicas are pending termination", replicas - updated);
    else if (available < updated)
        health_set(health, health_progressing, "%" PRId64 " of %" PRId64 " updated replicas are available", available,
                   updated);
    else {
        health_set(health, health_healthy, NULL);
        return;
    }
    add_failure(health, object);
}

void health_of_stateful_set(struct health *health, const json_t *object)
{
    const json_t *spec = json_get_object(object, "spec"), *status = json_get_object(object, "status");
    const json_t *strategy = json_get_object(spec, "updateStrategy");
    const json_t *rolling = json_get_object(strategy, "rollingUpdate");
    struct str type = json_get_str(strategy, "type");
    int64_t wanted = spec_replicas(spec), ready = json_get_int(status, "readyReplicas", 0),
            updated = json_get_int(status, "updatedReplicas", 0), partition = json_get_int(rolling, "partition", -1);
    struct str current_revision = json_get_str(status, "currentRevision"),
               update_revision = json_get_str(status, "updateRevision");
    if (json_get_int(status, "observedGeneration", 0) == 0 || health_is_unobserved(object))
        health_set(health, health_progressing, "Waiting for the controller to observe the new spec");
    else if (wanted >= 0 && ready < wanted)
        health_set(health, health_progressing, "%" PRId64 " of %" PRId64 " pods are ready", ready, wanted);
    else if (str_eq(type, STR("RollingUpdate")) && rolling) {
        if (wanted >= 0 && partition >= 0 && updated < wanted - partition)
            health_set(health, health_progressing, "%" PRId64 " of %" PRId64 " pods beyond the partition are updated",
                       updated, wanted - partition);
        else
            health_set(health, health_healthy, "%" PRId64 " pods are updated", updated);
    } else if (str_eq(type, STR("OnDelete")))
        health_set(health, health_healthy, "%" PRId64 " pods are ready", ready);
    else if (!str_eq(update_revision, current_revision))
        health_set(health, health_progressing, "%" PRId64 " pods are at revision %.*s", updated,
                   STR_ARG(update_revision));
    else
        health_set(health, health_healthy, "%" PRId64 " pods are at revision %.*s",
                   json_get_int(status, "currentReplicas", 0), STR_ARG(current_revision));
}

void health_of_daemon_set(struct health *health, const json_t *object)
{
    const json_t *status = json_get_object(object, "status");
    int64_t wanted = json_get_int(status, "desiredNumberScheduled", 0),
            updated = json_get_int(status, "updatedNumberScheduled", 0),
            available = json_get_int(status, "numberAvailable", 0);
    struct str type = json_str(json_path(object, "spec", "updateStrategy", "type", NULL));
    if (health_is_unobserved(object))
        health_set(health, health_progressing, "Waiting for the controller to observe the new spec");
    else if (str_eq(type, STR("OnDelete")))
        health_set(health, health_healthy, "%" PRId64 " of %" PRId64 " pods are updated", updated, wanted);
    else if (updated < wanted)
        health_set(health, health_progressing, "%" PRId64 " of %" PRId64 " pods are updated", updated, wanted);
    else if (available < wanted)
        health_set(health, health_progressing, "%" PRId64 " of %" PRId64 " updated pods are available", available,
                   wanted);
    else
        health_set(health, health_healthy, NULL);
}

void health_of_replica_set(struct health *health, const json_t *object)
{
    const json_t *failure = health_condition(object, "ReplicaFailure");
    int64_t wanted = spec_replicas(json_get_object(object, "spec")),
            available = json_get_int(json_get_object(object, "status"), "availableReplicas", 0);
    if (health_is_unobserved(object))
        health_set(health, health_progressing, "Waiting for the controller to observe the new spec");
    else if (health_condition_is(failure, "True"))
        health_set_str(health, health_degraded, health_condition_text(failure));
    else if (wanted >= 0 && available < wanted)
        health_set(health, health_progressing, "%" PRId64 " of %" PRId64 " replicas are available", available, wanted);
    else
        health_set(health, health_healthy, NULL);
}

// The status of Failed and Complete conditions is not looked at: Argo CD does not, either.
void health_of_job(struct health *health, const json_t *object)
{
    const json_t *failed = health_condition(object, "Failed"), *complete = health_condition(object, "Complete"),
                 *suspended = health_condition(object, "Suspended");
    if (failed)
        health_set_str(health, health_degraded, health_condition_text(failed));
    else if (health_condition_is(suspended, "True"))
        health_set_str(health, health_suspended, health_condition_text(suspended));
    else if (complete || suspended)
        health_set_str(health, health_healthy, json_get_str(complete ? complete : suspended, "message"));
    else
        health_set(health, health_progressing, "%" PRId64 " pods run, %" PRId64 " have failed",
                   json_get_int(json_get_object(object, "status"), "active", 0),
                   json_get_int(json_get_object(object, "status"), "failed", 0));
}

// Times are RFC 3339 in UTC, as the API server writes them: they compare as texts.
static bool is_before(struct str a, struct str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.at, b.at, len) : 0;
    return order < 0 || (order == 0 && a.len < b.len);
}

void health_of_cron_job(struct health *health, const json_t *object)
{
    const json_t *status = json_get_object(object, "status");
    struct str scheduled = json_get_str(status, "lastScheduleTime"),
               successful = json_get_str(status, "lastSuccessfulTime");
    if (json_get_bool(json_get_object(object, "spec"), "suspend", false))
        health_set(health, health_healthy, "CronJob is Suspended");
    else if (!status)
        health_set(health, health_progressing, "Waiting for CronJob");
    else if (!scheduled.len)
        health_set(health, health_healthy, "CronJob has not been scheduled yet");
    else if (!successful.len)
        health_set(health, health_healthy, "The CronJob never completed successfully. It may not be healthy");
    else if (json_array_size(json_get_array(status, "active")))
        health_set(health, health_healthy, "The job is running. Its last execution may not have been successful");
    else if (is_before(successful, scheduled))
        health_set(health, health_degraded, "CronJob has not completed its last execution successfully");
    else
        health_set(health, health_healthy, "CronJob has completed its last execution successfully");
}
