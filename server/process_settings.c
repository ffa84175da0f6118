#include "server/process_settings.h"

#include <stddef.h>
#include <string.h>

#include "base/config/config_units.h"
#include "server/listener_settings.h"

#define AT(field) offsetof(struct process_settings, field)

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

static void check(const struct config *config, struct strbuf *problems)
{
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct process_settings *process = process_settings_of(config);
    if (process->node_name[0] == '\0') strbuf_add_c(problems, "node.name: is empty\n");
    if (strlen(process->node_name) > 100) strbuf_add_c(problems, "node.name: is longer than 100 bytes\n");
    if (listeners->peer[0] && strpbrk(process->node_name, " \t\r\n"))
        strbuf_add_c(problems, "node.name: has a space\n");
}

const struct config_section process_settings_section = {
    .size = sizeof(struct process_settings), .title = "Process", CONFIG_ENTRIES(entries), .check = check};
