// Settings: the deployment key.
#include "server/config/sections.h"

static const struct config_entry entries[] = {
    {.name = "security.deployment_key_file",
     .type = CONFIG_PATH,
     .offset = AT(security_deployment_key_file),
     .def = NULL,
     .help = "File with at least 32 random bytes, mode 0600, the same for all replicas; `culvertd admin "
             "create-deployment-key FILE` creates one. It signs and encrypts what is stored in Redis, RabbitMQ and "
             "PostgreSQL."},
    {.name = "security.deployment_key_previous_file",
     .type = CONFIG_PATH,
     .offset = AT(security_deployment_key_previous_file),
     .def = "",
     .help = "A second key that is accepted as well, during a key rotation."},
};

static void check(const void *values, struct strbuf *problems)
{
    const struct server_config *config = values;
    if (config->security_deployment_key_file[0] == '\0')
        strbuf_add_c(problems, "security.deployment_key_file: must not be empty; `culvertd admin create-deployment-key "
                               "FILE` creates a key\n");
}

const struct config_section server_config_security = {
    .title = "The deployment key (required)", CONFIG_ENTRIES(entries), .check = check};
