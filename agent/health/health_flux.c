// Flux (fluxcd.io): kinds differ in which conditions have to hold and which mean work under
// way.
#include "agent/health/health_custom.h"

// How a kind counts its conditions.
struct flux {
    const char *good;                // another one that must be True to be healthy; NULL: Ready is enough
    const char *or_good;             // or this one
    const char *busy;                // what Ready is while it is under way; NULL: it never is
    const char *const *busy_reasons; // of Reconciling; NULL: any
    bool may_be_suspended;
};

static void assess_flux(struct health *health, const json_t *object, const struct flux *flux)
{
    if (flux->may_be_suspended && json_get_bool(json_get_object(object, "spec"), "suspend", false)) {
        health_set(health, health_suspended, "Reconciliation is suspended");
        return;
    }
    if (!health_conditions_of(health_status_of(object))) {
        health_wait_for_status(health);
        return;
    }
    const json_t *ready = health_condition(object, "Ready");
    bool good = health_condition_is(health_condition(object, flux->good ? flux->good : "Ready"), "True");
    if (flux->or_good) good = good || health_condition_is(health_condition(object, flux->or_good), "True");
    const json_t *reconciling = health_condition(object, "Reconciling");
    bool busy = flux->busy && health_condition_is(ready, flux->busy) && health_condition_is(reconciling, "True") &&
                (!flux->busy_reasons || health_is_among(json_get_str(reconciling, "reason"), flux->busy_reasons));
    const char *verdict = busy                                         ? health_progressing
                          : good && health_condition_is(ready, "True") ? health_healthy
                                                                       : health_degraded;
    health_set_str(health, verdict, health_condition_text(ready));
}

static void of_flux(struct health *health, const json_t *object)
{
    assess_flux(health, object, &(struct flux){.busy = "Unknown", .may_be_suspended = true});
}

static void of_flux_source(struct health *health, const json_t *object)
{
    assess_flux(health, object,
                &(struct flux){.good = "ArtifactInStorage", .busy = "Unknown", .may_be_suspended = true});
}

// One of an OCI registry says nothing of itself.
static void of_helm_repository(struct health *health, const json_t *object)
{
    const json_t *spec = json_get_object(object, "spec");
    if (!json_get_bool(spec, "suspend", false) && str_eq(json_get_str(spec, "type"), STR("oci")))
        health_set(health, health_healthy, NULL);
    else
        of_flux_source(health, object);
}

static void of_helm_release(struct health *health, const json_t *object)
{
    assess_flux(
        health, object,
        &(struct flux){.good = "Released", .or_good = "TestSuccess", .busy = "Unknown", .may_be_suspended = true});
}

static void of_image_repository(struct health *health, const json_t *object)
{
    static const char *const reasons[] = {"NewGeneration", "Scanning", NULL};
    assess_flux(health, object, &(struct flux){.busy = "False", .busy_reasons = reasons, .may_be_suspended = true});
}

static void of_image_policy(struct health *health, const json_t *object)
{
    static const char *const reasons[] = {"NewGeneration", "AccessingRepository", "ApplyingPolicy", NULL};
    assess_flux(health, object, &(struct flux){.busy = "False", .busy_reasons = reasons});
}

static void of_receiver(struct health *health, const json_t *object)
{
    assess_flux(health, object, &(struct flux){.may_be_suspended = true});
}

// clang-format off
static const struct health_rule rules[] = {
    {"kustomize.toolkit.fluxcd.io", "Kustomization", of_flux},
    {"helm.toolkit.fluxcd.io", "HelmRelease", of_helm_release},
    {"source.toolkit.fluxcd.io", "Bucket", of_flux_source},
    {"source.toolkit.fluxcd.io", "GitRepository", of_flux_source},
    {"source.toolkit.fluxcd.io", "HelmChart", of_flux_source},
    {"source.toolkit.fluxcd.io", "OCIRepository", of_flux_source},
    {"source.toolkit.fluxcd.io", "HelmRepository", of_helm_repository},
    {"image.toolkit.fluxcd.io", "ImageUpdateAutomation", of_flux},
    {"image.toolkit.fluxcd.io", "ImageRepository", of_image_repository},
    {"image.toolkit.fluxcd.io", "ImagePolicy", of_image_policy},
    {"notification.toolkit.fluxcd.io", "Receiver", of_receiver},
};
// clang-format on

const struct health_rule_table health_flux_rules = {rules, sizeof rules / sizeof *rules};
