// operation: one change of the cluster that a user of the platform asked for, as it comes over the
// tunnel: a JSON object
//   {"action", "group", "kind", "namespace", "name", "uid", "resourceVersion", "by", "at",
//   "parameters"}
// The platform is not trusted: what is not exactly of that form is refused, and names that could
// mean another path of the Kubernetes API are. A value; owned by the caller. One thread.
#ifndef CULVERT_AGENT_OPERATION_H
#define CULVERT_AGENT_OPERATION_H

#include <jansson.h>

#include "base/error.h"
#include "base/object_ref.h"
#include "base/str.h"

enum operation_action {
    OPERATION_REFRESH,
    OPERATION_HARD_REFRESH,
    OPERATION_SYNC, // parameters: revision, prune, dryRun, force, replace, resources
    OPERATION_TERMINATE_SYNC,
    OPERATION_APP_ROLLBACK, // parameters: historyId, prune, dryRun
    OPERATION_RESTART,
    OPERATION_ROLLOUT_PAUSE,
    OPERATION_ROLLOUT_RESUME,
    OPERATION_ROLLOUT_SKIP_CURRENT_STEP,
    OPERATION_ROLLOUT_PROMOTE_FULL,
    OPERATION_ROLLOUT_ABORT,
    OPERATION_ROLLOUT_RETRY,
    OPERATION_ROLLOUT_PROMOTE,
    OPERATION_DELETE, // parameters: cascade (of an Application)
    OPERATION_WORKFLOW_STOP,
    OPERATION_WORKFLOW_TERMINATE,
    OPERATION_WORKFLOW_SUSPEND,
    OPERATION_WORKFLOW_RESUME,
    OPERATION_ACTION_COUNT,
};

struct operation {
    enum operation_action action;
    struct object_ref ref;       // views into document
    struct str resource_version; // empty: any
    struct str by, at;           // who asked, and when (RFC 3339)
    const json_t *parameters;
    json_t *document;
};

MUST_CHECK enum error_code operation_parse(struct str text, struct operation *out, struct error *err);
void operation_finish(struct operation *operation);

// The object's path in the Kubernetes API, with the subresource if there is one; mem_free.
char *operation_path(const struct operation *operation, const char *subresource);
const char *operation_plural(const struct operation *operation); // "applications"

#endif
