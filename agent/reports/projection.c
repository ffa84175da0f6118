#include "agent/reports/projection.h"

#include <string.h>

#include "base/json/json.h"

// Annotations that hold copies of the object, or that controllers rewrite all the time.
static const char *const noisy_annotations[] = {
    "kubectl.kubernetes.io/last-applied-configuration",
    "control-plane.alpha.kubernetes.io/leader",
    "argocd.argoproj.io/refresh",
    "argocd.argoproj.io/hydrate",
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "endpoints.kubernetes.io/last-change-trigger-time",
};

static void drop_annotations(json_t *metadata)
{
    json_t *annotations = json_object_get(metadata, "annotations");
    if (!annotations) return;
    for (size_t i = 0; i < sizeof noisy_annotations / sizeof noisy_annotations[0]; i++)
        json_object_del(annotations, noisy_annotations[i]);
    if (json_object_size(annotations) == 0) json_object_del(metadata, "annotations");
}

static void drop_metadata(json_t *metadata)
{
    static const char *const volatile_members[] = {"managedFields", "resourceVersion", "selfLink", "generateName"};
    for (size_t i = 0; i < sizeof volatile_members / sizeof volatile_members[0]; i++)
        json_object_del(metadata, volatile_members[i]);
    drop_annotations(metadata);
}

// Heartbeats of conditions: their lastTransitionTime is what counts.
static void drop_heartbeats(json_t *status)
{
    size_t i;
    json_t *condition;
    json_array_foreach(json_get_array(status, "conditions"), i, condition)
    {
        json_object_del(condition, "lastHeartbeatTime");
        json_object_del(condition, "lastProbeTime");
        json_object_del(condition, "lastUpdateTime");
    }
}

static void drop_volatile_status(json_t *status)
{
    json_object_del(status, "reconciledAt");
    json_object_del(status, "observedAt");
}

void projection_apply(json_t *object)
{
    json_t *metadata = json_get_object(object, "metadata");
    if (metadata) drop_metadata(metadata);
    // Pod templates are applied objects of their own kind of copy.
    json_t *pod_template = json_path(object, "spec", "template", "metadata", NULL);
    if (json_is_object(pod_template)) drop_annotations(pod_template);
    json_t *status = json_get_object(object, "status");
    if (!status) return;
    drop_heartbeats(status);
    if (str_eq(json_get_str(object, "kind"), STR("Application"))) drop_volatile_status(status);
}
