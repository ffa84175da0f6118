#include "server/chores/authentication_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct authentication_settings, field)

static const struct config_entry entries[] = {
    {.name = "authentication.failures_per_address_max",
     .type = CONFIG_INT,
     .offset = AT(failures_per_address),
     .def = "60",
     .max = 1000000,
     .help = "Invalid credentials per minute from one address (IPv6: per /64), except ingress.trusted_proxies, at all "
             "listeners of this replica; beyond it 429, except for credentials that are in use. 0: no limit."},
    {.name = "authentication.failures_per_key_max",
     .type = CONFIG_INT,
     .offset = AT(failures_per_key),
     .def = "30",
     .max = 1000000,
     .help = "Wrong secrets per minute for one key id, from any address; beyond it 429, except for the correct secret "
             "where it is in use. 0: no limit."},
};

const struct config_section authentication_settings_section = {
    .size = sizeof(struct authentication_settings), .title = "Failed authentication", CONFIG_ENTRIES(entries)};
