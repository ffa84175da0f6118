#include "api/access/access_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct access_settings, field)

static const struct config_entry entries[] = {
    {.name = "access.rules_max",
     .type = CONFIG_INT,
     .offset = AT(rules_max),
     .def = "2000",
     .min = 1,
     .max = 100000,
     .help = "Rules of an account; beyond it new ones are refused with TOO_MANY_REQUESTS."},
    {.name = "access.rule_values_max",
     .type = CONFIG_INT,
     .offset = AT(rule_values_max),
     .def = "20000",
     .min = 1,
     .max = 1000000,
     .help = "Combinations of attribute values that all rules of an account name together. Each query of a user whom "
             "rules limit sends those that apply to the user to the database."},
    {.name = "access.simulated_applications_max",
     .type = CONFIG_INT,
     .offset = AT(simulated_applications_max),
     .def = "100000",
     .min = 1,
     .max = 10000000,
     .help = "Applications that one simulated change of rules looks at. Beyond it the answer is marked "
             "as incomplete."},
};

const struct config_section access_settings_section = {
    .size = sizeof(struct access_settings), .title = "Rules", CONFIG_ENTRIES(entries)};
