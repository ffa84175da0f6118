#include "agent/health/health.h"

#include <stdarg.h>
#include <stdio.h>

#include "agent/health/health_rule.h"

const char health_healthy[] = "Healthy", health_progressing[] = "Progressing", health_degraded[] = "Degraded",
           health_suspended[] = "Suspended", health_unknown[] = "Unknown";

// clang-format off
static const struct health_rule rules[] = {
    {"apps", "Deployment", health_of_deployment},
    {"apps", "StatefulSet", health_of_stateful_set},
    {"apps", "DaemonSet", health_of_daemon_set},
    {"apps", "ReplicaSet", health_of_replica_set},
    {"batch", "Job", health_of_job},
    {"batch", "CronJob", health_of_cron_job},
    {"", "Pod", health_of_pod},
    {"", "Service", health_of_service},
    {"", "PersistentVolumeClaim", health_of_volume_claim},
    {"networking.k8s.io", "Ingress", health_of_ingress},
    {"extensions", "Ingress", health_of_ingress},
    {"autoscaling", "HorizontalPodAutoscaler", health_of_autoscaler},
    {"apiregistration.k8s.io", "APIService", health_of_api_service},
    {"policy", "PodDisruptionBudget", health_of_disruption_budget},
    {"apiextensions.k8s.io", "CustomResourceDefinition", health_of_resource_definition},
    {"argoproj.io", "Rollout", health_of_rollout},
    {"argoproj.io", "AnalysisRun", health_of_analysis_run},
    {"argoproj.io", "Experiment", health_of_experiment},
    {"argoproj.io", "Workflow", health_of_workflow},
    {"argoproj.io", "CronWorkflow", health_of_cron_workflow},
    {"argoproj.io", "ApplicationSet", health_of_application_set},
    {"argoproj.io", "EventBus", health_of_event_bus},
};
// clang-format on

void health_init(struct health *health)
{
    health->status = NULL;
    strbuf_init(&health->message, HEALTH_MESSAGE_BYTES_MAX);
}

void health_finish(struct health *health)
{
    strbuf_finish(&health->message);
}

// ---- for the rules -------------------------------------------------------------------------------------------

void health_set_str(struct health *health, const char *status, struct str message)
{
    health->status = status;
    strbuf_clear(&health->message);
    size_t len = message.len;
    if (len > HEALTH_MESSAGE_BYTES_MAX - 1) len = HEALTH_MESSAGE_BYTES_MAX - 1;
    while (len && len < message.len && ((unsigned char)message.at[len] & 0xc0) == 0x80)
        len--;
    if (len) strbuf_add(&health->message, message.at, len);
}

void health_set(struct health *health, const char *status, const char *format, ...)
{
    char text[HEALTH_MESSAGE_BYTES_MAX * 2] = "";
    va_list args;
    va_start(args, format);
    int len = format ? vsnprintf(text, sizeof text, format, args) : 0;
    va_end(args);
    if (len < 0) len = 0;
    if ((size_t)len >= sizeof text) len = sizeof text - 1;
    // Views of JSON that were printed with a precision may have been cut inside a character.
    health_set_str(health, status, str_of(text, (size_t)len));
}

const json_t *health_condition(const json_t *object, const char *type)
{
    const json_t *conditions = json_get_array(json_get_object(object, "status"), "conditions");
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        if (str_eq(json_get_str(condition, "type"), str_c(type))) return condition;
    }
    return NULL;
}

bool health_condition_is(const json_t *condition, const char *status)
{
    return str_eq(json_get_str(condition, "status"), str_c(status));
}

struct str health_condition_text(const json_t *condition)
{
    struct str message = json_get_str(condition, "message");
    return message.len ? message : json_get_str(condition, "reason");
}

bool health_is_unobserved(const json_t *object)
{
    return json_get_int(json_get_object(object, "metadata"), "generation", 0) >
           json_get_int(json_get_object(object, "status"), "observedGeneration", 0);
}

// ---- an object -----------------------------------------------------------------------------------------------

// Hooks of Argo CD hold back their own deletion and are what their rule says until then.
static bool is_being_deleted(const json_t *metadata)
{
    if (!json_get_str(metadata, "deletionTimestamp").len) return false;
    const json_t *finalizers = json_get_array(metadata, "finalizers");
    for (size_t i = 0; i < json_array_size(finalizers); i++)
        if (str_eq(json_str(json_array_get(finalizers, i)), STR("argocd.argoproj.io/hook-finalizer"))) return false;
    return true;
}

void health_assess(struct health *health, struct str group, struct str kind, const json_t *object)
{
    health->status = NULL;
    strbuf_clear(&health->message);
    if (is_being_deleted(json_get_object(object, "metadata"))) {
        health_set(health, health_progressing, "Pending deletion");
        return;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!str_eq(group, str_c(rules[i].group)) || !str_eq(kind, str_c(rules[i].kind))) continue;
        rules[i].assess(health, object);
        return;
    }
    health_of_custom(health, group, kind, object);
}
