#include "agent/logs/logs_settings.h"

#include <stddef.h>

#define AT(field) offsetof(struct logs_settings, field)

static const struct config_entry entries[] = {
    {.name = "logs.calls_max",
     .type = CONFIG_INT,
     .offset = AT(calls_max),
     .def = "6",
     .min = 1,
     .max = 64,
     .help = "Requests for logs of pods that are answered at once; more are refused."},
    {.name = "logs.containers_max",
     .type = CONFIG_INT,
     .offset = AT(containers_max),
     .def = "20",
     .min = 1,
     .max = 100,
     .help = "Containers in one answer with logs; beyond it the answer states that there are more."},
};

const struct config_section logs_settings_section = {
    .title = "logs", .size = sizeof(struct logs_settings), CONFIG_ENTRIES(entries)};
