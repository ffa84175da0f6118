#include "api/access/runtime_token_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct runtime_token_settings, field)

static const struct config_entry entries[] = {
    {.name = "runtime_tokens.valid_max",
     .type = CONFIG_INT,
     .offset = AT(valid_max),
     .def = "2",
     .min = 2,
     .max = 16,
     .help = "Tokens of one runtime that may be valid at the same time. A rotation needs two."},
    {.name = "runtime_tokens.rotation_grace",
     .type = CONFIG_DURATION,
     .offset = AT(rotation_grace_ms),
     .def = "24h",
     .max = 90 * DAY,
     .help = "How long a replaced token stays valid, unless the rotation specifies it."},
    {.name = "runtime_tokens.sessions_per_minute_max",
     .type = CONFIG_INT,
     .offset = AT(sessions_per_minute),
     .def = "100",
     .max = 100000,
     .help = "New tunnel sessions per token at this replica; further ones get 429 with Retry-After. 0: no limit."},
    {.name = "runtime_tokens.last_used_interval",
     .type = CONFIG_DURATION,
     .offset = AT(used_interval_ms),
     .def = "5m",
     .min = SECOND,
     .max = DAY,
     .help = "How often the time of last use is written for tokens that were used since."},
    {.name = "runtime_tokens.enrollments_per_second_max",
     .type = CONFIG_INT,
     .offset = AT(enrollments_per_second),
     .def = "5",
     .min = 1,
     .max = 1000,
     .help = "Attempts to enroll a runtime at this replica, per enrollment token and per address; further ones get "
             "429. Ten seconds' worth may come at once."},
};

const struct config_section runtime_token_settings_section = {
    .size = sizeof(struct runtime_token_settings), .title = "Runtime tokens", CONFIG_ENTRIES(entries)};
