// access_terms: what rules are about, by the names of Codefresh's ABAC (the contract's
// AbacEntityValues, AbacActionNames and AbacAttributeNames). Constant data; any thread.
#ifndef CULVERT_API_ACCESS_ACCESS_TERMS_H
#define CULVERT_API_ACCESS_ACCESS_TERMS_H

#include <stdbool.h>

#include "base/str.h"

enum access_entity {
    ENTITY_CLUSTERS,
    ENTITY_EXECUTION_CONTEXT,
    ENTITY_GIT_CONTEXTS,
    ENTITY_GITOPS_APPLICATIONS,
    ENTITY_PROMOTION_FLOWS,
    ENTITY_PRODUCTS,
    ENTITY_ENVIRONMENTS,
    ENTITY_HELM_CHARTS,
    ENTITY_PIPELINES,
    ENTITY_PROJECTS,
    ENTITY_SHARED_CONFIGURATION,
    ENTITY_WORKFLOWS,
    ENTITY_WORKFLOW_TEMPLATES,
    ENTITY_COUNT,
};

enum access_action {
    ACTION_DELETE_RESOURCE,
    ACTION_EXEC_TO_POD,
    ACTION_REFRESH,
    ACTION_SYNC,
    ACTION_TERMINATE_SYNC,
    ACTION_VIEW,
    ACTION_VIEW_POD_LOGS,
    ACTION_APP_ROLLBACK,
    ACTION_ROLLOUT_PAUSE,
    ACTION_ROLLOUT_RESUME,
    ACTION_ROLLOUT_PROMOTE_FULL,
    ACTION_ROLLOUT_SKIP_CURRENT_STEP,
    ACTION_ROLLOUT_ABORT,
    ACTION_ROLLOUT_RETRY,
    ACTION_ACCESS_ARTIFACTS,
    ACTION_ACCESS_LOGS,
    ACTION_CREATE,
    ACTION_RESTART,
    ACTION_RESUBMIT,
    ACTION_STOP,
    ACTION_TERMINATE,
    ACTION_TRIGGER_PROMOTION,
    ACTION_RETRY_RELEASE,
    ACTION_PROMOTE_TO,
    ACTION_COUNT,
};

enum access_attribute_name {
    ATTRIBUTE_CLUSTER,
    ATTRIBUTE_GIT_SOURCE,
    ATTRIBUTE_NAMESPACE,
    ATTRIBUTE_RUNTIME,
    ATTRIBUTE_PRODUCT_NAME,
    ATTRIBUTE_ENVIRONMENT_NAME,
    ATTRIBUTE_ENVIRONMENT_KIND,
    ATTRIBUTE_LABEL, // has a key besides its value; an entity has many
    ATTRIBUTE_COUNT,
};

// False: there is none of this name.
bool access_entity_named(struct str name, enum access_entity *out);
bool access_action_named(struct str name, enum access_action *out);
bool access_attribute_named(struct str name, enum access_attribute_name *out);
const char *access_entity_name(enum access_entity entity);
const char *access_action_name(enum access_action action);
const char *access_attribute_text(enum access_attribute_name name);

// Whether entities of this type have such an attribute: a rule cannot ask for others.
bool access_entity_has(enum access_entity entity, enum access_attribute_name name);

#endif
