#include "api/oidc/sign_in_settings.h"

#include <stddef.h>

#include "api/oidc/provider_settings.h"
#include "base/config/config_units.h"

#define AT(field) offsetof(struct sign_in_settings, field)

static const struct config_entry entries[] = {
    {.name = "sign_in.providers_file",
     .type = CONFIG_PATH,
     .offset = AT(providers_file),
     .def = "",
     .help = "JSON file with the OpenID Connect providers that people sign in at (docs/operations.md). Empty: none. "
             "Secrets are in files of their own or in the environment. Read at start."},
    {.name = "sign_in.ca_file",
     .type = CONFIG_PATH,
     .offset = AT(ca_file),
     .def = "",
     .help = "PEM file with the certificate authorities of the providers. Empty: the system's."},
    {.name = "sign_in.attempt_life",
     .type = CONFIG_DURATION,
     .offset = AT(attempt_life_ms),
     .def = "10m",
     .min = MINUTE,
     .max = 60 * MINUTE,
     .help = "How long a person may take at the provider."},
    {.name = "sign_in.clock_skew",
     .type = CONFIG_DURATION,
     .offset = AT(clock_skew_ms),
     .def = "60s",
     .max = 10 * MINUTE,
     .help = "How much the clock of a provider may differ from this one, for the times in its tokens."},
    {.name = "sign_in.request_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(timeout_ms),
     .def = "10s",
     .min = SECOND,
     .max = MINUTE,
     .help = "How long a request to a provider may take."},
    {.name = "sign_in.answer_bytes_max",
     .type = CONFIG_BYTES,
     .offset = AT(answer_bytes_max),
     .def = "256KiB",
     .min = 4 * KIB,
     .max = MIB,
     .help = "Size of an answer of a provider."},
    {.name = "sign_in.requests_max",
     .type = CONFIG_INT,
     .offset = AT(requests_max),
     .def = "64",
     .min = 1,
     .max = 1000,
     .help = "Requests to providers that may be under way at once, half of them to the same one. Further sign-ins get "
             "429."},
    {.name = "sign_in.keys_life",
     .type = CONFIG_DURATION,
     .offset = AT(keys_life_ms),
     .def = "1h",
     .min = MINUTE,
     .max = DAY,
     .help = "How long a provider's keys and addresses are used before they are read again."},
    {.name = "sign_in.keys_interval",
     .type = CONFIG_DURATION,
     .offset = AT(keys_interval_ms),
     .def = "10s",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "How often a provider's keys are read at most because a token names an unknown one."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    struct provider_list list;
    const char *file = sign_in_settings_of(config)->providers_file;
    if (*file && provider_list_load(file, &list, problems) == ERROR_NONE) provider_list_finish(&list);
}

const struct config_section sign_in_settings_section = {.size = sizeof(struct sign_in_settings),
                                                        .title = "Sign-in at identity providers",
                                                        CONFIG_ENTRIES(entries),
                                                        .check = check};
