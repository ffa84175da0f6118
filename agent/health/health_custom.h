// health_custom: what the rules of custom resources share, and their tables. Source: the resource
// customizations of Argo CD 3, and each project's documentation of its conditions.
#ifndef CULVERT_AGENT_HEALTH_CUSTOM_H
#define CULVERT_AGENT_HEALTH_CUSTOM_H

#include "agent/health/health_rule.h"

struct health_rule_table {
    const struct health_rule *rules;
    size_t count;
};
extern const struct health_rule_table health_flux_rules, health_gateway_api_rules, health_infrastructure_rules;

const json_t *health_status_of(const json_t *object);     // NULL: none
const json_t *health_conditions_of(const json_t *holder); // of a status, or a part of one; NULL: none
bool health_condition_has_type(const json_t *condition, const char *type);
bool health_is_among(struct str text, const char *const *texts); // texts end with NULL
void health_wait_for_status(struct health *health);
// What most conditions mean: False is degraded, True healthy. False: neither, nothing is set.
bool health_by_condition(struct health *health, const json_t *object, const char *type);
void health_of_ready(struct health *health, const json_t *object); // by the condition Ready alone

#endif
