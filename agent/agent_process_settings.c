#include "agent/agent_process_settings.h"

#include <stddef.h>

#define AT(field) offsetof(struct agent_process_settings, field)

static const struct config_entry entries[] = {
    {.name = "admin.listen",
     .type = CONFIG_STRING,
     .offset = AT(admin_listen),
     .def = "127.0.0.1:8086",
     .help = "Listener for /livez, /readyz, /metrics and /version; empty: no listener."},
    {.name = "shutdown.deadline",
     .type = CONFIG_DURATION,
     .offset = AT(shutdown_deadline_ms),
     .def = "20s",
     .min = 0,
     .max = 3600000,
     .help = "After SIGTERM calls may take this long to finish."},
    {.name = "log.level",
     .type = CONFIG_CHOICE,
     .offset = AT(log_level),
     .def = "info",
     .choices = "debug|info|warn|error",
     .help = "Lowest level that is logged."},
};

const struct config_section agent_process_settings_section = {
    .title = "process", .size = sizeof(struct agent_process_settings), CONFIG_ENTRIES(entries)};
