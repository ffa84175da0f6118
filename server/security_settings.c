#include "server/security_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct security_settings, field)

static const struct config_entry entries[] = {
    {.name = "security.deployment_key_file",
     .type = CONFIG_PATH,
     .offset = AT(deployment_key_file),
     .def = NULL,
     .help = "File with at least 32 random bytes, mode 0600, the same for all replicas; `culvertd admin "
             "create-deployment-key FILE` creates one. It signs and encrypts what is stored in Redis, RabbitMQ and "
             "PostgreSQL."},
    {.name = "security.deployment_key_previous_file",
     .type = CONFIG_PATH,
     .offset = AT(deployment_key_previous_file),
     .def = "",
     .help = "A second key that is accepted as well, during a key rotation."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct security_settings *security = security_settings_of(config);
    if (security->deployment_key_file[0] == '\0')
        strbuf_add_c(problems, "security.deployment_key_file: must not be empty; `culvertd admin create-deployment-key "
                               "FILE` creates a key\n");
}

const struct config_section security_settings_section = {.size = sizeof(struct security_settings),
                                                         .title = "The deployment key (required)",
                                                         CONFIG_ENTRIES(entries),
                                                         .check = check};
