// Widespread custom resources, as Argo CD's resource customizations assess them: most by one condition, some by a
// function.
#include <inttypes.h>

#include "agent/health/health_rule.h"
#include "base/mem.h"

static const json_t *status_of(const json_t *object)
{
    return json_get_object(object, "status");
}

static const json_t *conditions_of(const json_t *holder)
{
    return json_get_array(holder, "conditions");
}

static bool is_type(const json_t *condition, const char *type)
{
    return str_eq(json_get_str(condition, "type"), str_c(type));
}

static void wait_for_status(struct health *health)
{
    health_set(health, health_progressing, "Waiting for the status");
}

// What most conditions mean: False is degraded, True healthy, anything else not decided yet.
static bool assess_condition(struct health *health, const json_t *object, const char *type)
{
    const json_t *condition = health_condition(object, type);
    bool is_true = health_condition_is(condition, "True");
    if (!is_true && !health_condition_is(condition, "False")) return false;
    health_set_str(health, is_true ? health_healthy : health_degraded, health_condition_text(condition));
    return true;
}

static void of_ready(struct health *health, const json_t *object)
{
    if (!assess_condition(health, object, "Ready")) wait_for_status(health);
}

static void of_resources_applied(struct health *health, const json_t *object)
{
    if (!assess_condition(health, object, "ResourcesApplied")) wait_for_status(health);
}

static void of_certificate(struct health *health, const json_t *object)
{
    const json_t *issuing = health_condition(object, "Issuing");
    if (health_condition_is(issuing, "True"))
        health_set_str(health, health_progressing, health_condition_text(issuing));
    else
        of_ready(health, object);
}

// Its newest condition is the last.
static void of_cluster_external_secret(struct health *health, const json_t *object)
{
    const json_t *conditions = conditions_of(status_of(object));
    size_t count = json_array_size(conditions);
    const json_t *last = count ? json_array_get(conditions, count - 1) : NULL;
    bool is_true = health_condition_is(last, "True");
    if (is_true && is_type(last, "Ready"))
        health_set_str(health, health_healthy, health_condition_text(last));
    else if (is_true && (is_type(last, "PartiallyReady") || is_type(last, "NotReady")))
        health_set_str(health, health_degraded, health_condition_text(last));
    else
        wait_for_status(health);
}

static void of_sealed_secret(struct health *health, const json_t *object)
{
    const json_t *generation = json_path(object, "metadata", "generation", NULL),
                 *observed = json_path(object, "status", "observedGeneration", NULL);
    bool is_observed = generation && observed && json_equal(generation, observed);
    if (!is_observed || !assess_condition(health, object, "Synced")) wait_for_status(health);
}

// ---- Crossplane ----------------------------------------------------------------------------------------------

static bool is_among(struct str word, const char *const *words)
{
    for (; *words; words++)
        if (str_eq(word, str_c(*words))) return true;
    return false;
}

// Kinds that never get conditions.
static bool is_without_conditions(struct str kind)
{
    static const char *const kinds[] = {
        "Composition", "CompositionRevision",   "DeploymentRuntimeConfig",    "EnvironmentConfig",
        "ImageConfig", "ProviderConfig",        "ProviderConfigUsage",        "ControllerConfig",
        "StoreConfig", "ClusterProviderConfig", "ClusterProviderConfigUsage", NULL};
    return is_among(kind, kinds);
}

static void of_crossplane_kind(struct health *health, struct str kind, const json_t *object,
                               const char *const *good_types)
{
    static const char *const bad_types[] = {"LastAsyncOperation", "Synced", NULL};
    const json_t *conditions = conditions_of(status_of(object));
    if (!json_array_size(conditions) && is_without_conditions(kind)) {
        health_set(health, health_healthy, NULL);
        return;
    }
    health_set(health, health_progressing, "Provisioning");
    struct str state = json_get_str(json_get_object(object, "spec"), "state");
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        struct str type = json_get_str(condition, "type"), reason = json_get_str(condition, "reason");
        if (is_among(type, bad_types) && health_condition_is(condition, "False")) {
            health_set_str(health, health_degraded, health_condition_text(condition));
            return;
        }
        bool is_inactive = is_type(condition, "Established") && str_eq(reason, STR("InactiveManagedResource")) &&
                           !str_eq(state, STR("Active"));
        if ((is_among(type, good_types) && health_condition_is(condition, "True")) || is_inactive)
            health_set(health, health_healthy, NULL);
    }
}

static void of_crossplane_provider(struct health *health, const json_t *object)
{
    const json_t *installed = health_condition(object, "Installed"), *healthy = health_condition(object, "Healthy");
    if (!installed && !healthy) {
        health_set(health, health_progressing, "Waiting for the provider to be installed");
        return;
    }
    bool good = health_condition_is(installed, "True") && health_condition_is(healthy, "True");
    const json_t *worst = health_condition_is(installed, "True") ? healthy : installed;
    health_set_str(health, good ? health_healthy : health_degraded,
                   health_condition_text(worst       ? worst
                                         : installed ? installed
                                                     : healthy));
}

// The classic AWS provider's kinds that have rules of their own.
static void of_crossplane_aws(struct health *health, const json_t *object)
{
    const json_t *ready = health_condition(object, "Ready"), *synced = health_condition(object, "Synced");
    bool is_ready = health_condition_is(ready, "True"), is_synced = health_condition_is(synced, "True"),
         is_paused = str_eq(json_get_str(synced, "reason"), STR("ReconcilePaused"));
    if (!conditions_of(status_of(object)))
        wait_for_status(health);
    else if (is_ready && is_synced)
        health_set_str(health, health_healthy, json_get_str(ready, "reason"));
    else if (!is_synced && is_paused)
        health_set(health, health_suspended, "ReconcilePaused");
    else if (is_synced && !is_paused)
        health_set_str(health, health_progressing, health_condition_text(ready));
    else
        health_set_str(health, health_degraded, health_condition_text(synced));
}

// Config Connector.
static void of_config_connector(struct health *health, const json_t *object)
{
    const json_t *status = status_of(object), *observed = json_object_get(status, "observedGeneration");
    health_set(health, health_progressing, "Waiting for the status");
    if (observed && json_get_int(status, "observedGeneration", 0) !=
                        json_get_int(json_get_object(object, "metadata"), "generation", 0))
        return;
    if (json_is_boolean(json_object_get(status, "healthy"))) {
        health_set(health, json_get_bool(status, "healthy", false) ? health_healthy : health_degraded, NULL);
        return;
    }
    for (size_t i = 0; i < json_array_size(conditions_of(status)); i++) {
        const json_t *condition = json_array_get(conditions_of(status), i);
        struct str reason = json_get_str(condition, "reason");
        const char *verdict = NULL;
        if (str_eq(reason, STR("UpToDate")) && health_condition_is(condition, "True")) verdict = health_healthy;
        if (str_eq(reason, STR("UpdateFailed")) || str_eq(reason, STR("DependencyNotFound"))) verdict = health_degraded;
        if (str_eq(reason, STR("DependencyNotReady"))) verdict = health_suspended;
        if (!verdict) continue;
        health_set_str(health, verdict, health_condition_text(condition));
        return;
    }
}

// ---- KEDA, Knative -------------------------------------------------------------------------------------------

static void of_scaled(struct health *health, const json_t *object, const json_t *also_degraded)
{
    const json_t *ready = health_condition(object, "Ready"), *paused = health_condition(object, "Paused");
    bool is_ready = health_condition_is(ready, "True"), is_paused = health_condition_is(paused, "True");
    if (also_degraded)
        health_set_str(health, health_degraded, health_condition_text(also_degraded));
    else if (health_condition_is(ready, "False"))
        health_set_str(health, health_degraded, health_condition_text(ready));
    else if (is_ready)
        health_set_str(health, is_paused ? health_suspended : health_healthy,
                       health_condition_text(is_paused ? paused : ready));
    else
        wait_for_status(health);
}

static void of_scaled_object(struct health *health, const json_t *object)
{
    const json_t *fallback = health_condition(object, "Fallback");
    of_scaled(health, object, health_condition_is(fallback, "True") ? fallback : NULL);
}

static void of_scaled_job(struct health *health, const json_t *object)
{
    const json_t *ready = health_condition(object, "Ready");
    of_scaled(health, object, health_condition_is(ready, "Unknown") ? ready : NULL);
}

static void of_knative_service(struct health *health, const json_t *object)
{
    static const char *const needed[] = {"ConfigurationsReady", "RoutesReady", "Ready", NULL};
    const json_t *conditions = conditions_of(status_of(object)), *worst = NULL;
    int good = 0;
    bool any_false = false;
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        bool is_false = health_condition_is(condition, "False");
        good += health_condition_is(condition, "True") && is_among(json_get_str(condition, "type"), needed);
        if (!is_false && !health_condition_is(condition, "Unknown")) continue;
        if (!worst || (is_false && !any_false)) worst = condition;
        any_false = any_false || is_false;
    }
    if (good == 3 && !worst)
        health_set(health, health_healthy, NULL);
    else if (worst)
        health_set_str(health, any_false ? health_degraded : health_progressing, health_condition_text(worst));
    else
        wait_for_status(health);
}

// ---- Flux ----------------------------------------------------------------------------------------------------

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
    if (!conditions_of(status_of(object))) {
        wait_for_status(health);
        return;
    }
    const json_t *ready = health_condition(object, "Ready");
    bool good = health_condition_is(health_condition(object, flux->good ? flux->good : "Ready"), "True");
    if (flux->or_good) good = good || health_condition_is(health_condition(object, flux->or_good), "True");
    const json_t *reconciling = health_condition(object, "Reconciling");
    bool busy = flux->busy && health_condition_is(ready, flux->busy) && health_condition_is(reconciling, "True") &&
                (!flux->busy_reasons || is_among(json_get_str(reconciling, "reason"), flux->busy_reasons));
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

// ---- Gateway API ---------------------------------------------------------------------------------------------

static const json_t *condition_in(const json_t *holder, const char *type)
{
    const json_t *conditions = conditions_of(holder);
    for (size_t i = 0; i < json_array_size(conditions); i++)
        if (is_type(json_array_get(conditions, i), type)) return json_array_get(conditions, i);
    return NULL;
}

// True: what holds the conditions (a gateway, a listener, a parent of a route) is not fine, and the verdict is set.
static bool gateway_is_bad(struct health *health, const json_t *holder)
{
    static const char *const refusing[] = {"ResolvedRefs", "Accepted"};
    for (size_t i = 0; i < sizeof refusing / sizeof *refusing; i++) {
        const json_t *condition = condition_in(holder, refusing[i]);
        if (!health_condition_is(condition, "False")) continue;
        health_set(health, health_degraded, "%s: %.*s", refusing[i], STR_ARG(health_condition_text(condition)));
        return true;
    }
    const json_t *programmed = condition_in(holder, "Programmed");
    if (!programmed || health_condition_is(programmed, "True")) return false;
    health_set_str(health, health_progressing, health_condition_text(programmed));
    return true;
}

static void of_gateway(struct health *health, const json_t *object)
{
    const json_t *status = status_of(object), *listeners = json_get_array(status, "listeners");
    if (gateway_is_bad(health, status)) return;
    for (size_t i = 0; i < json_array_size(listeners); i++)
        if (gateway_is_bad(health, json_array_get(listeners, i))) return;
    if (conditions_of(status) || json_array_size(listeners))
        health_set(health, health_healthy, NULL);
    else
        wait_for_status(health);
}

// Of the generation that the object has now; where one of both is not told, it counts as such.
static bool is_current(const json_t *object, const json_t *condition)
{
    const json_t *generation = json_path(object, "metadata", "generation", NULL),
                 *observed = json_object_get(condition, "observedGeneration");
    return !generation || !observed || json_equal(generation, observed);
}

static bool are_current(const json_t *object, const json_t *holder)
{
    const json_t *conditions = conditions_of(holder);
    for (size_t i = 0; i < json_array_size(conditions); i++)
        if (!is_current(object, json_array_get(conditions, i))) return false;
    return json_array_size(conditions) > 0;
}

static void of_route(struct health *health, const json_t *object)
{
    const json_t *parents = json_get_array(status_of(object), "parents");
    bool any = false;
    for (size_t i = 0; i < json_array_size(parents); i++) {
        const json_t *parent = json_array_get(parents, i);
        if (!are_current(object, parent)) continue;
        if (gateway_is_bad(health, parent)) return;
        any = true;
    }
    if (any)
        health_set(health, health_healthy, NULL);
    else
        wait_for_status(health);
}

static void of_gateway_class(struct health *health, const json_t *object)
{
    const json_t *accepted = health_condition(object, "Accepted");
    if (!accepted || !is_current(object, accepted) || !assess_condition(health, object, "Accepted"))
        wait_for_status(health);
}

static void of_backend_tls_policy(struct health *health, const json_t *object)
{
    const json_t *ancestors = json_get_array(status_of(object), "ancestors");
    wait_for_status(health);
    for (size_t i = 0; i < json_array_size(ancestors); i++)
        if (conditions_of(json_array_get(ancestors, i)) && !are_current(object, json_array_get(ancestors, i))) return;
    for (size_t i = 0; i < json_array_size(ancestors); i++) {
        const json_t *ancestor = json_array_get(ancestors, i), *accepted = condition_in(ancestor, "Accepted"),
                     *resolved = condition_in(ancestor, "ResolvedRefs");
        const json_t *bad = accepted && !health_condition_is(accepted, "True")   ? accepted
                            : resolved && !health_condition_is(resolved, "True") ? resolved
                                                                                 : NULL;
        if (bad) {
            health_set_str(health, health_degraded, health_condition_text(bad));
            return;
        }
        if (accepted) health_set(health, health_healthy, NULL);
    }
}

// ---- Cluster API, Karpenter ----------------------------------------------------------------------------------

static bool is_paused(struct health *health, const json_t *object)
{
    bool paused = json_get_bool(json_get_object(object, "spec"), "paused", false);
    if (paused) health_set(health, health_suspended, "Reconciliation is paused");
    return paused;
}

static void of_phase(struct health *health, const json_t *object, const char *good)
{
    struct str phase = json_get_str(status_of(object), "phase");
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
    const json_t *status = status_of(object);
    if (!json_object_get(status, "currentHealthy"))
        wait_for_status(health);
    else {
        int64_t now = json_get_int(status, "currentHealthy", 0), wanted = json_get_int(status, "expectedMachines", 0);
        health_set(health, now == wanted ? health_healthy : health_degraded,
                   "%" PRId64 " of %" PRId64 " machines are healthy", now, wanted);
    }
}

static void of_node_claim(struct health *health, const json_t *object)
{
    const json_t *disrupting = health_condition(object, "Disrupting");
    const json_t *observed = json_object_get(status_of(object), "observedGeneration");
    if (observed && json_get_int(status_of(object), "observedGeneration", 0) !=
                        json_get_int(json_get_object(object, "metadata"), "generation", 0))
        health_set(health, health_progressing, "Waiting for the controller to observe the new spec");
    else if (health_condition_is(disrupting, "True"))
        health_set_str(health, health_suspended, health_condition_text(disrupting));
    else
        of_ready(health, object);
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
    const json_t *status = status_of(object), *hibernation = health_condition(object, "cnpg.io/hibernation");
    struct str phase = json_get_str(status, "phase"), reason = json_get_str(status, "phaseReason");
    struct str loop = json_get_str(json_path(object, "metadata", "annotations", NULL), "cnpg.io/reconciliationLoop");
    const char *verdict = !conditions_of(status)                           ? health_progressing
                          : str_eq(phase, STR("Cluster in healthy state")) ? health_healthy
                          : is_among(phase, progressing)                   ? health_progressing
                          : is_among(phase, degraded)                      ? health_degraded
                          : is_among(phase, suspended)                     ? health_suspended
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
    struct str word = json_get_str(status_of(object), "PostgresClusterStatus");
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
        wait_for_status(health);
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
    const json_t *status = status_of(object), *error = json_get_object(status, "error");
    if (json_get_bool(status, "readyToUse", false))
        health_set(health, health_healthy, "Ready to use");
    else if (error)
        health_set_str(health, health_degraded, json_get_str(error, "message"));
    else
        wait_for_status(health);
}

static void of_prometheus(struct health *health, const json_t *object)
{
    const json_t *available = health_condition(object, "Available");
    bool waits = str_eq(json_get_str(available, "reason"), STR("SomePodsNotReady"));
    if (!available)
        wait_for_status(health);
    else if (health_condition_is(available, "True"))
        health_set(health, health_healthy, NULL);
    else
        health_set_str(health, waits ? health_progressing : health_degraded, health_condition_text(available));
}

// ---- the table -----------------------------------------------------------------------------------------------

// clang-format off
static const struct health_rule custom_rules[] = {
    {"cert-manager.io", "Certificate", of_certificate},
    {"cert-manager.io", "ClusterIssuer", of_ready},
    {"cert-manager.io", "Issuer", of_ready},
    {"certmanager.k8s.io", "Certificate", of_ready},
    {"certmanager.k8s.io", "Issuer", of_ready},
    {"external-secrets.io", "ExternalSecret", of_ready},
    {"external-secrets.io", "SecretStore", of_ready},
    {"external-secrets.io", "ClusterSecretStore", of_ready},
    {"external-secrets.io", "PushSecret", of_ready},
    {"external-secrets.io", "ClusterExternalSecret", of_cluster_external_secret},
    {"bitnami.com", "SealedSecret", of_sealed_secret},
    {"pkg.crossplane.io", "Provider", of_crossplane_provider},
    {"cloudfront.aws.crossplane.io", "Distribution", of_crossplane_aws},
    {"iam.aws.crossplane.io", "Policy", of_crossplane_aws},
    {"iam.aws.crossplane.io", "Role", of_crossplane_aws},
    {"iam.aws.crossplane.io", "RolePolicyAttachment", of_crossplane_aws},
    {"rds.aws.crossplane.io", "DBCluster", of_crossplane_aws},
    {"rds.aws.crossplane.io", "DBInstance", of_crossplane_aws},
    {"route53.aws.crossplane.io", "ResourceRecordSet", of_crossplane_aws},
    {"s3.aws.crossplane.io", "Bucket", of_crossplane_aws},
    {"keda.sh", "ScaledObject", of_scaled_object},
    {"keda.sh", "ScaledJob", of_scaled_job},
    {"serving.knative.dev", "Service", of_knative_service},
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
    {"gateway.networking.k8s.io", "Gateway", of_gateway},
    {"gateway.networking.k8s.io", "GatewayClass", of_gateway_class},
    {"gateway.networking.k8s.io", "HTTPRoute", of_route},
    {"gateway.networking.k8s.io", "GRPCRoute", of_route},
    {"gateway.networking.k8s.io", "BackendTLSPolicy", of_backend_tls_policy},
    {"cluster.x-k8s.io", "Cluster", of_capi_cluster},
    {"cluster.x-k8s.io", "Machine", of_capi_machine},
    {"cluster.x-k8s.io", "MachineDeployment", of_capi_machine_deployment},
    {"cluster.x-k8s.io", "MachineHealthCheck", of_capi_machine_health_check},
    {"addons.cluster.x-k8s.io", "ClusterResourceSet", of_resources_applied},
    {"karpenter.sh", "NodePool", of_ready},
    {"karpenter.sh", "NodeClaim", of_node_claim},
    {"karpenter.k8s.aws", "EC2NodeClass", of_ready},
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
    {"camel.apache.org", "Integration", of_ready},
};
// clang-format on

bool health_of_custom(struct health *health, struct str group, struct str kind, const json_t *object)
{
    static const char *const crossplane[] = {"Ready",         "Healthy",         "Offered", "Established",
                                             "ValidPipeline", "RevisionHealthy", NULL};
    static const char *const upbound[] = {"Ready", NULL};
    for (size_t i = 0; i < sizeof custom_rules / sizeof *custom_rules; i++) {
        if (!str_eq(group, str_c(custom_rules[i].group)) || !str_eq(kind, str_c(custom_rules[i].kind))) continue;
        custom_rules[i].assess(health, object);
        return true;
    }
    if (str_ends(group, STR(".crossplane.io")))
        of_crossplane_kind(health, kind, object, crossplane);
    else if (str_ends(group, STR(".upbound.io")))
        of_crossplane_kind(health, kind, object, upbound);
    else if (str_ends(group, STR(".cnrm.cloud.google.com")))
        of_config_connector(health, object);
    else
        return false;
    return true;
}
