#include "modules/identity/browser_session_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct browser_session_settings, field)

static const struct config_entry entries[] = {
    {.name = "sessions.idle_max",
     .type = CONFIG_DURATION,
     .offset = AT(idle_max_ms),
     .def = "12h",
     .min = 5 * MINUTE,
     .max = 90 * DAY,
     .help = "A browser session ends after so long without a request. Of new sessions."},
    {.name = "sessions.life_max",
     .type = CONFIG_DURATION,
     .offset = AT(life_max_ms),
     .def = "7d",
     .min = 10 * MINUTE,
     .max = 90 * DAY,
     .help = "A browser session ends so long after its sign-in, however much it is used. Of new sessions."},
    {.name = "sessions.per_user_max",
     .type = CONFIG_INT,
     .offset = AT(per_user_max),
     .def = "20",
     .min = 1,
     .max = 1000,
     .help = "Browser sessions of one user. A further sign-in ends the session that was used least recently."},
    {.name = "sessions.link_life",
     .type = CONFIG_DURATION,
     .offset = AT(link_life_ms),
     .def = "15m",
     .min = MINUTE,
     .max = 7 * DAY,
     .help = "How long a link of `culvertd admin sign-in-link` can be used. It can be used once."},
    {.name = "sessions.device_life",
     .type = CONFIG_DURATION,
     .offset = AT(device_life_ms),
     .def = "30d",
     .min = 10 * MINUTE,
     .max = 365 * DAY,
     .help = "The key that `culvert login` gets when a person allows it in a browser ends so long after it. A user has "
             "sessions.per_user_max of them; a further one ends that which was used least recently."},
    {.name = "sessions.device_code_life",
     .type = CONFIG_DURATION,
     .offset = AT(device_code_life_ms),
     .def = "10m",
     .min = MINUTE,
     .max = 60 * MINUTE,
     .help = "How long a person has to allow a `culvert login`."},
    {.name = "sessions.device_codes_max",
     .type = CONFIG_INT,
     .offset = AT(device_codes_max),
     .def = "1000",
     .min = 1,
     .max = 100000,
     .help =
         "Sign-ins of `culvert login` of all accounts that have not expired. Beyond it new ones are refused with 429."},
    {.name = "sessions.device_codes_per_address_max",
     .type = CONFIG_INT,
     .offset = AT(device_codes_per_address_max),
     .def = "20",
     .min = 1,
     .max = 100000,
     .help = "Sign-ins of `culvert login` from one address that wait for a decision. Beyond it new ones are refused "
             "with 429."},
};

const struct config_section browser_session_settings_section = {
    .size = sizeof(struct browser_session_settings), .title = "Browser sessions", CONFIG_ENTRIES(entries)};
