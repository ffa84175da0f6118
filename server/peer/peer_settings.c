#include "server/peer/peer_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct peer_settings, field)

static const struct config_entry entries[] = {
    {.name = "peer.connections_max",
     .type = CONFIG_INT,
     .offset = AT(connections_max),
     .def = "256",
     .min = 1,
     .max = 65536,
     .help = "Connections of other replicas to the peer listener, per loop."},
    {.name = "peer.streams_max",
     .type = CONFIG_INT,
     .offset = AT(streams_max),
     .def = "4096",
     .min = 1,
     .max = 1000000,
     .help = "Concurrent calls on one connection between two replicas."},
    {.name = "peer.idle_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(idle_timeout_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "A connection to another replica without a call is closed after this time."},
    {.name = "registry.entries_max",
     .type = CONFIG_INT,
     .offset = AT(registry_entries_max),
     .def = "16384",
     .min = 16,
     .max = 1000000,
     .help = "Runtimes whose replica a loop keeps in memory."},
};

const struct config_section peer_settings_section = {
    .size = sizeof(struct peer_settings), .title = "Other replicas", CONFIG_ENTRIES(entries)};
