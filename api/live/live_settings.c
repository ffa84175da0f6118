#include "api/live/live_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct live_settings, field)

static const struct config_entry entries[] = {
    {.name = "live.streams_max",
     .type = CONFIG_INT,
     .offset = AT(streams_max),
     .def = "2000",
     .min = 1,
     .max = 1000000,
     .help = "Open subscriptions of this replica; further ones are refused with TOO_MANY_REQUESTS."},
    {.name = "live.streams_per_account_max",
     .type = CONFIG_INT,
     .offset = AT(streams_per_account_max),
     .def = "1000",
     .min = 1,
     .max = 1000000,
     .help = "Open subscriptions of one account on this replica."},
    {.name = "live.streams_per_user_max",
     .type = CONFIG_INT,
     .offset = AT(streams_per_user_max),
     .def = "50",
     .min = 1,
     .max = 1000000,
     .help = "Open subscriptions of one user, or of one runtime, on this replica."},
    {.name = "live.reads_max",
     .type = CONFIG_INT,
     .offset = AT(reads_max),
     .def = "4",
     .min = 1,
     .max = 1000,
     .help =
         "Statements for subscribers that each loop runs at once; others wait, and take up what changes meanwhile."},
    {.name = "live.delay",
     .type = CONFIG_DURATION,
     .offset = AT(delay_ms),
     .def = "100ms",
     .min = 10,
     .max = MINUTE,
     .help = "A subscriber is sent events at most this often; changes meanwhile are sent together."},
    {.name = "live.refresh",
     .type = CONFIG_DURATION,
     .offset = AT(refresh_ms),
     .def = "10s",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "How often all that a subscriber follows is read again. It bounds how late changes of other replicas are "
             "noticed without Redis."},
    {.name = "live.heartbeat",
     .type = CONFIG_DURATION,
     .offset = AT(heartbeat_ms),
     .def = "5s",
     .min = SECOND,
     .max = MINUTE,
     .help = "How often a subscriber is sent the server's time while nothing else is."},
    {.name = "live.stall",
     .type = CONFIG_DURATION,
     .offset = AT(stall_ms),
     .def = "10s",
     .min = SECOND,
     .max = 10 * MINUTE,
     .help = "A subscriber that takes nothing for so long is disconnected."},
};

const struct config_section live_settings_section = {
    .size = sizeof(struct live_settings), .title = "GraphQL subscriptions", CONFIG_ENTRIES(entries)};
