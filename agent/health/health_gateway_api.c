// Gateway API (gateway.networking.k8s.io): conditions of a gateway, of its listeners, and of a
// route at each parent.
#include "agent/health/health_custom.h"

static const json_t *condition_in(const json_t *holder, const char *type)
{
    const json_t *conditions = health_conditions_of(holder);
    for (size_t i = 0; i < json_array_size(conditions); i++)
        if (health_condition_has_type(json_array_get(conditions, i), type)) return json_array_get(conditions, i);
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
    const json_t *status = health_status_of(object), *listeners = json_get_array(status, "listeners");
    if (gateway_is_bad(health, status)) return;
    for (size_t i = 0; i < json_array_size(listeners); i++)
        if (gateway_is_bad(health, json_array_get(listeners, i))) return;
    if (health_conditions_of(status) || json_array_size(listeners))
        health_set(health, health_healthy, NULL);
    else
        health_wait_for_status(health);
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
    const json_t *conditions = health_conditions_of(holder);
    for (size_t i = 0; i < json_array_size(conditions); i++)
        if (!is_current(object, json_array_get(conditions, i))) return false;
    return json_array_size(conditions) > 0;
}

static void of_route(struct health *health, const json_t *object)
{
    const json_t *parents = json_get_array(health_status_of(object), "parents");
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
        health_wait_for_status(health);
}

static void of_gateway_class(struct health *health, const json_t *object)
{
    const json_t *accepted = health_condition(object, "Accepted");
    if (!accepted || !is_current(object, accepted) || !health_by_condition(health, object, "Accepted"))
        health_wait_for_status(health);
}

static void of_backend_tls_policy(struct health *health, const json_t *object)
{
    const json_t *ancestors = json_get_array(health_status_of(object), "ancestors");
    health_wait_for_status(health);
    for (size_t i = 0; i < json_array_size(ancestors); i++)
        if (health_conditions_of(json_array_get(ancestors, i)) && !are_current(object, json_array_get(ancestors, i)))
            return;
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

// clang-format off
static const struct health_rule rules[] = {
    {"gateway.networking.k8s.io", "Gateway", of_gateway},
    {"gateway.networking.k8s.io", "GatewayClass", of_gateway_class},
    {"gateway.networking.k8s.io", "HTTPRoute", of_route},
    {"gateway.networking.k8s.io", "GRPCRoute", of_route},
    {"gateway.networking.k8s.io", "BackendTLSPolicy", of_backend_tls_policy},
};
// clang-format on

const struct health_rule_table health_gateway_api_rules = {rules, sizeof rules / sizeof *rules};
