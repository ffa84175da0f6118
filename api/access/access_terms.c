#include "api/access/access_terms.h"

#include <assert.h>

static const char *const entities[] = {
    [ENTITY_CLUSTERS] = "clusters",
    [ENTITY_EXECUTION_CONTEXT] = "executionContext",
    [ENTITY_GIT_CONTEXTS] = "gitContexts",
    [ENTITY_GITOPS_APPLICATIONS] = "gitopsApplications",
    [ENTITY_PROMOTION_FLOWS] = "promotionFlows",
    [ENTITY_PRODUCTS] = "products",
    [ENTITY_ENVIRONMENTS] = "environments",
    [ENTITY_HELM_CHARTS] = "helmCharts",
    [ENTITY_PIPELINES] = "pipelines",
    [ENTITY_PROJECTS] = "projects",
    [ENTITY_SHARED_CONFIGURATION] = "sharedConfiguration",
    [ENTITY_WORKFLOWS] = "workflows",
    [ENTITY_WORKFLOW_TEMPLATES] = "workflowTemplates",
};

static const char *const actions[] = {
    [ACTION_DELETE_RESOURCE] = "DELETE_RESOURCE",
    [ACTION_EXEC_TO_POD] = "EXEC_TO_POD",
    [ACTION_REFRESH] = "REFRESH",
    [ACTION_SYNC] = "SYNC",
    [ACTION_TERMINATE_SYNC] = "TERMINATE_SYNC",
    [ACTION_VIEW] = "VIEW",
    [ACTION_VIEW_POD_LOGS] = "VIEW_POD_LOGS",
    [ACTION_APP_ROLLBACK] = "APP_ROLLBACK",
    [ACTION_ROLLOUT_PAUSE] = "ROLLOUT_PAUSE",
    [ACTION_ROLLOUT_RESUME] = "ROLLOUT_RESUME",
    [ACTION_ROLLOUT_PROMOTE_FULL] = "ROLLOUT_PROMOTE_FULL",
    [ACTION_ROLLOUT_SKIP_CURRENT_STEP] = "ROLLOUT_SKIP_CURRENT_STEP",
    [ACTION_ROLLOUT_ABORT] = "ROLLOUT_ABORT",
    [ACTION_ROLLOUT_RETRY] = "ROLLOUT_RETRY",
    [ACTION_ACCESS_ARTIFACTS] = "ACCESS_ARTIFACTS",
    [ACTION_ACCESS_LOGS] = "ACCESS_LOGS",
    [ACTION_CREATE] = "CREATE",
    [ACTION_RESTART] = "RESTART",
    [ACTION_RESUBMIT] = "RESUBMIT",
    [ACTION_STOP] = "STOP",
    [ACTION_TERMINATE] = "TERMINATE",
    [ACTION_TRIGGER_PROMOTION] = "TRIGGER_PROMOTION",
    [ACTION_RETRY_RELEASE] = "RETRY_RELEASE",
    [ACTION_PROMOTE_TO] = "PROMOTE_TO",
};

static const char *const attributes[] = {
    [ATTRIBUTE_CLUSTER] = "CLUSTER",
    [ATTRIBUTE_GIT_SOURCE] = "GIT_SOURCE",
    [ATTRIBUTE_NAMESPACE] = "NAMESPACE",
    [ATTRIBUTE_RUNTIME] = "RUNTIME",
    [ATTRIBUTE_PRODUCT_NAME] = "PRODUCT_NAME",
    [ATTRIBUTE_ENVIRONMENT_NAME] = "ENVIRONMENT_NAME",
    [ATTRIBUTE_ENVIRONMENT_KIND] = "ENVIRONMENT_KIND",
    [ATTRIBUTE_LABEL] = "LABEL",
};

static_assert(sizeof entities / sizeof *entities == ENTITY_COUNT, "each entity type has a name");
static_assert(sizeof actions / sizeof *actions == ACTION_COUNT, "each action has a name");
static_assert(sizeof attributes / sizeof *attributes == ATTRIBUTE_COUNT, "each attribute has a name");

static bool find(const char *const *names, size_t count, struct str name, size_t *out)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(name, str_c(names[i]))) {
            *out = i;
            return true;
        }
    return false;
}

bool access_entity_named(struct str name, enum access_entity *out)
{
    size_t i;
    if (!find(entities, ENTITY_COUNT, name, &i)) return false;
    *out = (enum access_entity)i;
    return true;
}

bool access_action_named(struct str name, enum access_action *out)
{
    size_t i;
    if (!find(actions, ACTION_COUNT, name, &i)) return false;
    *out = (enum access_action)i;
    return true;
}

bool access_attribute_named(struct str name, enum access_attribute_name *out)
{
    size_t i;
    if (!find(attributes, ATTRIBUTE_COUNT, name, &i)) return false;
    *out = (enum access_attribute_name)i;
    return true;
}

const char *access_entity_name(enum access_entity entity)
{
    return entities[entity];
}

const char *access_action_name(enum access_action action)
{
    return actions[action];
}

const char *access_attribute_text(enum access_attribute_name name)
{
    return attributes[name];
}

// Environments and products are not assigned to clusters and namespaces yet, so no application has
// the attributes of one; its product stands in its annotations.
bool access_entity_has(enum access_entity entity, enum access_attribute_name name)
{
    bool is_environment = name == ATTRIBUTE_ENVIRONMENT_NAME || name == ATTRIBUTE_ENVIRONMENT_KIND;
    switch (entity) {
    case ENTITY_CLUSTERS: return name == ATTRIBUTE_CLUSTER || name == ATTRIBUTE_RUNTIME;
    case ENTITY_GITOPS_APPLICATIONS: return !is_environment;
    case ENTITY_WORKFLOWS:
    case ENTITY_WORKFLOW_TEMPLATES:
    case ENTITY_PIPELINES: return !is_environment && name != ATTRIBUTE_PRODUCT_NAME;
    default: return true;
    }
}
