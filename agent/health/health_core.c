// Services, Ingresses, volume claims, autoscalers, API services, disruption budgets and custom resource definitions.
#include "agent/health/health_rule.h"

static bool has_address(const json_t *object)
{
    const json_t *balancer = json_get_object(json_get_object(object, "status"), "loadBalancer");
    return json_array_size(json_get_array(balancer, "ingress")) > 0;
}

void health_of_service(struct health *health, const json_t *object)
{
    bool balanced = str_eq(json_get_str(json_get_object(object, "spec"), "type"), STR("LoadBalancer"));
    if (balanced && !has_address(object))
        health_set(health, health_progressing, "Waiting for the load balancer's address");
    else
        health_set(health, health_healthy, NULL);
}

void health_of_ingress(struct health *health, const json_t *object)
{
    if (has_address(object))
        health_set(health, health_healthy, NULL);
    else
        health_set(health, health_progressing, "Waiting for the load balancer's address");
}

void health_of_volume_claim(struct health *health, const json_t *object)
{
    struct str phase = json_get_str(json_get_object(object, "status"), "phase");
    if (str_eq(phase, STR("Bound")))
        health_set(health, health_healthy, NULL);
    else if (str_eq(phase, STR("Pending")))
        health_set(health, health_progressing, "The claim is not bound to a volume yet");
    else if (str_eq(phase, STR("Lost")))
        health_set(health, health_degraded, "The claim has lost its volume");
    else
        health_set(health, health_unknown, NULL);
}

// ---- autoscalers ---------------------------------------------------------------------------------------------

static bool scaler_is_degraded(const json_t *condition)
{
    static const struct {
        const char *type, *reason;
    } states[] = {
        {"AbleToScale", "FailedGetScale"},
        {"AbleToScale", "FailedUpdateScale"},
        {"ScalingActive", "FailedGetResourceMetric"},
        {"ScalingActive", "FailedGetObjectMetric"},
        {"ScalingActive", "FailedGetPodsMetric"},
        {"ScalingActive", "FailedGetExternalMetric"},
        {"ScalingActive", "FailedComputeMetricsReplicas"},
        {"ScalingActive", "InvalidSelector"},
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (str_eq(json_get_str(condition, "type"), str_c(states[i].type)) &&
            str_eq(json_get_str(condition, "reason"), str_c(states[i].reason)))
            return true;
    return false;
}

static bool scaler_is_healthy(const json_t *condition)
{
    struct str type = json_get_str(condition, "type");
    return (str_eq(type, STR("AbleToScale")) || str_eq(type, STR("ScalingLimited"))) &&
           health_condition_is(condition, "True");
}

static void assess_scaler(struct health *health, const json_t *conditions)
{
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        if (!scaler_is_degraded(condition)) continue;
        health_set_str(health, health_degraded, health_condition_text(condition));
        return;
    }
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        if (!scaler_is_healthy(condition)) continue;
        health_set_str(health, health_healthy, json_get_str(condition, "message"));
        return;
    }
    health_set(health, health_progressing, "Waiting to Autoscale");
}

// autoscaling/v1 keeps its conditions in an annotation.
void health_of_autoscaler(struct health *health, const json_t *object)
{
    static const struct json_limits limits = {.bytes_max = 64 * 1024, .depth_max = 8, .tokens_max = 2000};
    const json_t *conditions = json_get_array(json_get_object(object, "status"), "conditions");
    const json_t *annotations = json_path(object, "metadata", "annotations", NULL);
    struct str text = json_get_str(annotations, "autoscaling.alpha.kubernetes.io/conditions");
    json_t *decoded = NULL;
    if (!conditions && text.len && json_decode(text, &limits, &decoded, NULL) != ERROR_NONE) {
        health_set(health, health_unknown, "The annotation with the conditions cannot be read");
        return;
    }
    assess_scaler(health, conditions ? conditions : decoded);
    json_decref(decoded);
}

// ---- the API's own -------------------------------------------------------------------------------------------

void health_of_api_service(struct health *health, const json_t *object)
{
    const json_t *available = health_condition(object, "Available");
    if (!available)
        health_set(health, health_progressing, "Waiting to be processed");
    else
        health_set(health, health_condition_is(available, "True") ? health_healthy : health_progressing, "%.*s: %.*s",
                   STR_ARG(json_get_str(available, "reason")), STR_ARG(json_get_str(available, "message")));
}

// Too few pods for a disruption is a state that may be meant.
void health_of_disruption_budget(struct health *health, const json_t *object)
{
    const json_t *conditions = json_get_array(json_get_object(object, "status"), "conditions");
    health_set(health, health_progressing, "Waiting for status");
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        struct str reason = json_get_str(condition, "reason");
        bool degraded = health_condition_is(condition, "False") && !str_eq(reason, STR("InsufficientPods"));
        health_set(health, degraded ? health_degraded : health_healthy, "PodDisruptionBudget has %.*s",
                   STR_ARG(reason));
        if (degraded) return;
    }
}

// False: the condition decides nothing.
static bool assess_definition(struct health *health, const json_t *condition, const json_t **established)
{
    struct str type = json_get_str(condition, "type"), text = health_condition_text(condition);
    bool is_true = health_condition_is(condition, "True"), is_false = health_condition_is(condition, "False");
    if (str_eq(type, STR("Terminating")) && is_true)
        health_set(health, health_progressing, "CRD is terminating: %.*s", STR_ARG(text));
    else if (str_eq(type, STR("NamesAccepted")) && is_false)
        health_set(health, health_degraded, "CRD names have not been accepted: %.*s", STR_ARG(text));
    else if (str_eq(type, STR("NonStructuralSchema")) && is_true)
        health_set(health, health_degraded, "Schema violations found: %.*s", STR_ARG(text));
    else if (!str_eq(type, STR("Established")))
        return false;
    else if (is_true) {
        *established = condition;
        return false;
    } else if (str_eq(json_get_str(condition, "reason"), STR("InvalidCABundle")))
        health_set(health, health_degraded, "CRD is not established: %.*s", STR_ARG(text));
    else if (str_eq(json_get_str(condition, "reason"), STR("Installing")))
        health_set(health, health_progressing, "CRD is being installed");
    else
        return false;
    return true;
}

void health_of_resource_definition(struct health *health, const json_t *object)
{
    const json_t *conditions = json_get_array(json_get_object(object, "status"), "conditions"), *established = NULL;
    for (size_t i = 0; i < json_array_size(conditions); i++)
        if (assess_definition(health, json_array_get(conditions, i), &established)) return;
    health_set(health, established ? health_healthy : health_progressing,
               established ? "CRD is healthy" : "CRD is not established");
}
