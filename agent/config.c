#include "agent/config.h"

#include "agent/agent_process_settings.h"
#include "agent/argo/argocd_settings.h"
#include "agent/calls/router_settings.h"
#include "agent/logs/logs_settings.h"
#include "agent/operations/agent_operation_settings.h"
#include "agent/reports/reporter_settings.h"
#include "agent/tunnel/platform_settings.h"
#include "agent/tunnel/runtime_settings.h"

// In the order of the example file.
static const struct config_section *const sections[] = {
    &platform_settings_section, &runtime_settings_section,         &reporter_settings_section,
    &argocd_settings_section,   &agent_operation_settings_section, &logs_settings_section,
    &router_settings_section,   &agent_process_settings_section,
};

const struct config_table agent_config_table = {
    .sections = sections,
    .section_count = sizeof sections / sizeof *sections,
    .program = "culvert-agent",
    .env_prefix = "CULVERT_",
};
