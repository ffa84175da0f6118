// Widespread custom resources, as Argo CD's resource customizations assess them: most by one condition, some by a
// function.
#include "agent/health/health_custom.h"

#include "base/mem.h"

const json_t *health_status_of(const json_t *object)
{
    return json_get_object(object, "status");
}

const json_t *health_conditions_of(const json_t *holder)
{
    return json_get_array(holder, "conditions");
}

bool health_condition_has_type(const json_t *condition, const char *type)
{
    return str_eq(json_get_str(condition, "type"), str_c(type));
}

void health_wait_for_status(struct health *health)
{
    health_set(health, health_progressing, "Waiting for the status");
}

bool health_by_condition(struct health *health, const json_t *object, const char *type)
{
    const json_t *condition = health_condition(object, type);
    bool is_true = health_condition_is(condition, "True");
    if (!is_true && !health_condition_is(condition, "False")) return false;
    health_set_str(health, is_true ? health_healthy : health_degraded, health_condition_text(condition));
    return true;
}

void health_of_ready(struct health *health, const json_t *object)
{
    if (!health_by_condition(health, object, "Ready")) health_wait_for_status(health);
}

bool health_is_among(struct str text, const char *const *texts)
{
    for (; *texts; texts++)
        if (str_eq(text, str_c(*texts))) return true;
    return false;
}

static void of_resources_applied(struct health *health, const json_t *object)
{
    if (!health_by_condition(health, object, "ResourcesApplied")) health_wait_for_status(health);
}

static void of_certificate(struct health *health, const json_t *object)
{
    const json_t *issuing = health_condition(object, "Issuing");
    if (health_condition_is(issuing, "True"))
        health_set_str(health, health_progressing, health_condition_text(issuing));
    else
        health_of_ready(health, object);
}

// Its newest condition is the last.
static void of_cluster_external_secret(struct health *health, const json_t *object)
{
    const json_t *conditions = health_conditions_of(health_status_of(object));
    size_t count = json_array_size(conditions);
    const json_t *last = count ? json_array_get(conditions, count - 1) : NULL;
    bool is_true = health_condition_is(last, "True");
    if (is_true && health_condition_has_type(last, "Ready"))
        health_set_str(health, health_healthy, health_condition_text(last));
    else if (is_true &&
             (health_condition_has_type(last, "PartiallyReady") || health_condition_has_type(last, "NotReady")))
        health_set_str(health, health_degraded, health_condition_text(last));
    else
        health_wait_for_status(health);
}

static void of_sealed_secret(struct health *health, const json_t *object)
{
    const json_t *generation = json_path(object, "metadata", "generation", NULL),
                 *observed = json_path(object, "status", "observedGeneration", NULL);
    bool is_observed = generation && observed && json_equal(generation, observed);
    if (!is_observed || !health_by_condition(health, object, "Synced")) health_wait_for_status(health);
}

// ---- Crossplane ----------------------------------------------------------------------------------------------

// Kinds that never get conditions.
static bool is_without_conditions(struct str kind)
{
    static const char *const kinds[] = {
        "Composition", "CompositionRevision",   "DeploymentRuntimeConfig",    "EnvironmentConfig",
        "ImageConfig", "ProviderConfig",        "ProviderConfigUsage",        "ControllerConfig",
        "StoreConfig", "ClusterProviderConfig", "ClusterProviderConfigUsage", NULL};
    return health_is_among(kind, kinds);
}

static void of_crossplane_kind(struct health *health, struct str kind, const json_t *object,
                               const char *const *good_types)
{
    static const char *const bad_types[] = {"LastAsyncOperation", "Synced", NULL};
    const json_t *conditions = health_conditions_of(health_status_of(object));
    if (!json_array_size(conditions) && is_without_conditions(kind)) {
        health_set(health, health_healthy, NULL);
        return;
    }
    health_set(health, health_progressing, "Provisioning");
    struct str state = json_get_str(json_get_object(object, "spec"), "state");
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        struct str type = json_get_str(condition, "type"), reason = json_get_str(condition, "reason");
        if (health_is_among(type, bad_types) && health_condition_is(condition, "False")) {
            health_set_str(health, health_degraded, health_condition_text(condition));
            return;
        }
        bool is_inactive = health_condition_has_type(condition, "Established") &&
                           str_eq(reason, STR("InactiveManagedResource")) && !str_eq(state, STR("Active"));
        if ((health_is_among(type, good_types) && health_condition_is(condition, "True")) || is_inactive)
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
    if (!health_conditions_of(health_status_of(object)))
        health_wait_for_status(health);
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
    const json_t *status = health_status_of(object), *observed = json_object_get(status, "observedGeneration");
    health_set(health, health_progressing, "Waiting for the status");
    if (observed && json_get_int(status, "observedGeneration", 0) !=
                        json_get_int(json_get_object(object, "metadata"), "generation", 0))
        return;
    if (json_is_boolean(json_object_get(status, "healthy"))) {
        health_set(health, json_get_bool(status, "healthy", false) ? health_healthy : health_degraded, NULL);
        return;
    }
    for (size_t i = 0; i < json_array_size(health_conditions_of(status)); i++) {
        const json_t *condition = json_array_get(health_conditions_of(status), i);
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
        health_wait_for_status(health);
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
    const json_t *conditions = health_conditions_of(health_status_of(object)), *worst = NULL;
    int good = 0;
    bool any_false = false;
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        bool is_false = health_condition_is(condition, "False");
        good += health_condition_is(condition, "True") && health_is_among(json_get_str(condition, "type"), needed);
        if (!is_false && !health_condition_is(condition, "Unknown")) continue;
        if (!worst || (is_false && !any_false)) worst = condition;
        any_false = any_false || is_false;
    }
    if (good == 3 && !worst)
        health_set(health, health_healthy, NULL);
    else if (worst)
        health_set_str(health, any_false ? health_degraded : health_progressing, health_condition_text(worst));
    else
        health_wait_for_status(health);
}

// ---- the table -----------------------------------------------------------------------------------------------

// clang-format off
static const struct health_rule rules[] = {
    {"cert-manager.io", "Certificate", of_certificate},
    {"cert-manager.io", "ClusterIssuer", health_of_ready},
    {"cert-manager.io", "Issuer", health_of_ready},
    {"certmanager.k8s.io", "Certificate", health_of_ready},
    {"certmanager.k8s.io", "Issuer", health_of_ready},
    {"external-secrets.io", "ExternalSecret", health_of_ready},
    {"external-secrets.io", "SecretStore", health_of_ready},
    {"external-secrets.io", "ClusterSecretStore", health_of_ready},
    {"external-secrets.io", "PushSecret", health_of_ready},
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
    {"addons.cluster.x-k8s.io", "ClusterResourceSet", of_resources_applied},
    {"karpenter.sh", "NodePool", health_of_ready},
    {"karpenter.k8s.aws", "EC2NodeClass", health_of_ready},
    {"camel.apache.org", "Integration", health_of_ready},
};
// clang-format on

static const struct health_rule_table own_rules = {rules, sizeof rules / sizeof *rules};

static bool assess_by_table(const struct health_rule_table *table, struct health *health, struct str group,
                            struct str kind, const json_t *object)
{
    for (size_t i = 0; i < table->count; i++) {
        if (!str_eq(group, str_c(table->rules[i].group)) || !str_eq(kind, str_c(table->rules[i].kind))) continue;
        table->rules[i].assess(health, object);
        return true;
    }
    return false;
}

bool health_of_custom(struct health *health, struct str group, struct str kind, const json_t *object)
{
    static const char *const crossplane[] = {"Ready",         "Healthy",         "Offered", "Established",
                                             "ValidPipeline", "RevisionHealthy", NULL};
    static const char *const upbound[] = {"Ready", NULL};
    static const struct health_rule_table *const tables[] = {&own_rules, &health_flux_rules, &health_gateway_api_rules,
                                                             &health_infrastructure_rules};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (assess_by_table(tables[i], health, group, kind, object)) return true;
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
