#include "server/drain_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct drain_settings, field)

static const struct config_entry entries[] = {
    {.name = "drain.lame_duck",
     .type = CONFIG_DURATION,
     .offset = AT(lame_duck_ms),
     .def = "1s",
     .max = 10 * MINUTE,
     .help = "After SIGTERM /readyz fails for this long before anything else changes, so that balancers use other "
             "replicas."},
    {.name = "drain.spread",
     .type = CONFIG_DURATION,
     .offset = AT(spread_ms),
     .def = "2s",
     .max = 10 * MINUTE,
     .help = "After SIGTERM agents are asked to reconnect elsewhere, distributed over this time."},
    {.name = "drain.deadline",
     .type = CONFIG_DURATION,
     .offset = AT(deadline_ms),
     .def = "20s",
     .min = 100,
     .max = 60 * MINUTE,
     .help = "After SIGTERM requests in flight may take this long to finish."},
};

const struct config_section drain_settings_section = {
    .size = sizeof(struct drain_settings), .title = "Shutdown", CONFIG_ENTRIES(entries)};
