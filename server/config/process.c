// Settings: the process itself.
#include "server/config/sections.h"

#include <string.h>

static const struct config_entry entries[] = {
    {.name = "node.name",
     .type = CONFIG_STRING,
     .offset = AT(node_name),
     .def = "culvertd-0",
     .help = "Name of this replica in leases and logs; unique among the replicas of one database."},
    {.name = "loops",
     .type = CONFIG_INT,
     .offset = AT(loops),
     .def = "0",
     .max = 16,
     .help = "Loop threads; 0: one per processor, at most 16."},
    {.name = "log.level",
     .type = CONFIG_CHOICE,
     .offset = AT(log_level),
     .def = "info",
     .choices = "debug|info|warn|error",
     .reloadable = true,
     .help = "Lowest level that is logged."},
};

static void check(const void *values, struct strbuf *problems)
{
    const struct server_config *config = values;
    if (config->node_name[0] == '\0') strbuf_add_c(problems, "node.name: is empty\n");
    if (strlen(config->node_name) > 100) strbuf_add_c(problems, "node.name: is longer than 100 bytes\n");
    if (config->peer_listen[0] && strpbrk(config->node_name, " \t\r\n"))
        strbuf_add_c(problems, "node.name: has a space\n");
}

const struct config_section server_config_process = {.title = "Process", CONFIG_ENTRIES(entries), .check = check};
