#include "storage/operations/operation_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct operation_settings, field)

static const struct config_entry entries[] = {
    {.name = "operations.interval",
     .type = CONFIG_DURATION,
     .offset = AT(interval_ms),
     .def = "500ms",
     .min = 50,
     .max = MINUTE,
     .help = "How often a replica looks for operations that its agents have to run. One that was queued on the same "
             "replica is sent at once."},
    {.name = "operations.resend_after",
     .type = CONFIG_DURATION,
     .offset = AT(resend_after_ms),
     .def = "15s",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help =
         "An operation whose end the agent has not reported is sent again after this time; the agent runs it once."},
    {.name = "operations.run_max",
     .type = CONFIG_DURATION,
     .offset = AT(run_max_ms),
     .def = "24h",
     .min = MINUTE,
     .max = 30 * DAY,
     .help = "How long after its expiry an operation that has begun may run; beyond it its end is unknown."},
    {.name = "operations.batch_count",
     .type = CONFIG_INT,
     .offset = AT(batch_count),
     .def = "100",
     .min = 1,
     .max = 200,
     .help = "Operations that are sent at once."},
    {.name = "operations.open_max",
     .type = CONFIG_INT,
     .offset = AT(open_max),
     .def = "5000",
     .min = 1,
     .max = 1000000,
     .help = "Operations of an account that have not ended; beyond it new ones are refused with TOO_MANY_REQUESTS."},
};

const struct config_section operation_settings_section = {
    .size = sizeof(struct operation_settings), .title = "operations", CONFIG_ENTRIES(entries)};
