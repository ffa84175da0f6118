// health_rule: what the rules of agent/health share: the verdict, and short access to conditions.
#ifndef CULVERT_AGENT_HEALTH_RULE_H
#define CULVERT_AGENT_HEALTH_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/health/health.h"
#include "base/json/json.h"

extern const char health_healthy[], health_progressing[], health_degraded[], health_suspended[], health_unknown[];

// The table of kinds (health.c).
struct health_rule {
    const char *group, *kind;
    void (*assess)(struct health *health, const json_t *object);
};

// The verdict; a format of NULL gives no message. The message is cut between characters.
void health_set(struct health *health, const char *status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void health_set_str(struct health *health, const char *status, struct str message);

// The condition of a type among status.conditions, or NULL.
const json_t *health_condition(const json_t *object, const char *type);
bool health_condition_is(const json_t *condition, const char *status); // false for NULL
// Its message, else its reason.
struct str health_condition_text(const json_t *condition);
// The spec has been changed since the controller looked: metadata.generation > status.observedGeneration.
bool health_is_unobserved(const json_t *object);

void health_of_deployment(struct health *health, const json_t *object);
void health_of_stateful_set(struct health *health, const json_t *object);
void health_of_daemon_set(struct health *health, const json_t *object);
void health_of_replica_set(struct health *health, const json_t *object);
void health_of_job(struct health *health, const json_t *object);
void health_of_cron_job(struct health *health, const json_t *object);
void health_of_pod(struct health *health, const json_t *object);
void health_of_service(struct health *health, const json_t *object);
void health_of_ingress(struct health *health, const json_t *object);
void health_of_volume_claim(struct health *health, const json_t *object);
void health_of_autoscaler(struct health *health, const json_t *object);
void health_of_api_service(struct health *health, const json_t *object);
void health_of_disruption_budget(struct health *health, const json_t *object);
void health_of_resource_definition(struct health *health, const json_t *object);
void health_of_rollout(struct health *health, const json_t *object);
void health_of_analysis_run(struct health *health, const json_t *object);
void health_of_experiment(struct health *health, const json_t *object);
void health_of_workflow(struct health *health, const json_t *object);
void health_of_cron_workflow(struct health *health, const json_t *object);
void health_of_application_set(struct health *health, const json_t *object);
void health_of_event_bus(struct health *health, const json_t *object);

// Custom resources whose health is in their conditions (health_custom.c): false where none of them fits.
bool health_of_custom(struct health *health, struct str group, struct str kind, const json_t *object);

#endif
