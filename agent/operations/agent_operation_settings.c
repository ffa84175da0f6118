#include "agent/operations/agent_operation_settings.h"

#include <stddef.h>

#include "agent/operations/operation_rights.h"
#include "agent/reports/reporter_settings.h"

#define AT(field) offsetof(struct agent_operation_settings, field)

static const struct config_entry entries[] = {
    {.name = "operations.allowed",
     .type = CONFIG_STRING,
     .offset = AT(allowed),
     .def = "",
     .help =
         "What users of the platform may do in this cluster, comma-separated: refresh, sync, sync-prune, sync-force, "
         "sync-replace, terminate, rollback, restart, rollout, delete, delete-application, workflow, logs (reading "
         "logs of pods, which are not redacted). "
         "Each may be limited to objects by a pattern of namespace/name, for example refresh:argocd/team-a-*; logs "
         "by the pod's. Empty: nothing, the agent only reads. culvert-agent --print-rbac --config FILE prints the "
         "Kubernetes permissions that it needs."},
    {.name = "operations.held_max",
     .type = CONFIG_INT,
     .offset = AT(held_max),
     .def = "1000",
     .min = 10,
     .max = 100000,
     .help = "Operations that run or whose end is remembered; beyond it the platform is let to repeat them later."},
    {.name = "operations.at_once_max",
     .type = CONFIG_INT,
     .offset = AT(at_once_max),
     .def = "8",
     .min = 1,
     .max = 64,
     .help = "Concurrent requests to the Kubernetes API for operations."},
    {.name = "operations.follow_max",
     .type = CONFIG_DURATION,
     .offset = AT(follow_ms),
     .def = "1h",
     .min = 1000,
     .max = 7 * 24 * 60 * 60 * 1000ll,
     .help = "How long a controller's work on an operation is waited for; beyond it its end is reported as unknown."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct reporter_settings *reporter = reporter_settings_of(config);
    const struct agent_operation_settings *operations = agent_operation_settings_of(config);
    struct operation_rights *rights = NULL;
    struct error err;
    if (operation_rights_create(str_c(operations->allowed), &rights, &err) != ERROR_NONE)
        strbuf_addf(problems, "operations.allowed: %s\n", err.text);
    else if (!operation_rights_is_empty(rights) && !reporter->enabled)
        strbuf_add_c(problems, "operations.allowed: requires reporter.enabled\n");
    operation_rights_destroy(rights);
}

const struct config_section agent_operation_settings_section = {
    .title = "operations", .size = sizeof(struct agent_operation_settings), CONFIG_ENTRIES(entries), .check = check};
