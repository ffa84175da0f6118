#include "agent/tunnel/runtime_settings.h"

#include <stddef.h>

#define AT(field) offsetof(struct runtime_settings, field)

static const struct config_entry entries[] = {
    {.name = "runtime.name",
     .type = CONFIG_STRING,
     .offset = AT(name),
     .help = "Name of this runtime; must be the one that the token was issued for."},
    {.name = "runtime.token_file",
     .type = CONFIG_PATH,
     .offset = AT(token_file),
     .reloadable = true,
     .help = "File that contains the runtime token and nothing else."},
    {.name = "instance.id",
     .type = CONFIG_STRING,
     .offset = AT(instance_id),
     .def = "",
     .help = "Distinguishes agents of one runtime and stays the same over restarts; empty: the host name."},
};

const struct config_section runtime_settings_section = {
    .title = "runtime", .size = sizeof(struct runtime_settings), CONFIG_ENTRIES(entries)};
