// Settings: changes to clusters that users ask for.
#include "server/config/sections.h"

static const struct config_entry entries[] = {
    {.name = "operations.interval",
     .type = CONFIG_DURATION,
     .offset = AT(operations_interval_ms),
     .def = "500ms",
     .min = 50,
     .max = MINUTE,
     .help = "How often a replica looks for operations that its agents have to run. One that was queued on the same "
             "replica is sent at once."},
    {.name = "operations.resend_after",
     .type = CONFIG_DURATION,
     .offset = AT(operations_resend_after_ms),
     .def = "15s",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help =
         "An operation whose end the agent has not reported is sent again after this time; the agent runs it once."},
    {.name = "operations.run_max",
     .type = CONFIG_DURATION,
     .offset = AT(operations_run_max_ms),
     .def = "24h",
     .min = MINUTE,
     .max = 30 * DAY,
     .help = "How long after its expiry an operation that has begun may run; beyond it its end is unknown."},
    {.name = "operations.batch_count",
     .type = CONFIG_INT,
     .offset = AT(operations_batch_count),
     .def = "100",
     .min = 1,
     .max = 200,
     .help = "Operations that are sent at once."},
    {.name = "operations.open_max",
     .type = CONFIG_INT,
     .offset = AT(operations_open_max),
     .def = "5000",
     .min = 1,
     .max = 1000000,
     .help = "Operations of an account that have not ended; beyond it new ones are refused with TOO_MANY_REQUESTS."},
};

const struct config_section server_config_operations = {.title = "operations", CONFIG_ENTRIES(entries)};
