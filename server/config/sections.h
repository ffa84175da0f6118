// sections: the settings of culvertd, one noun a file; server/config/config.c puts them together in
// the order of the example file. A new setting is a field of struct server_config and an entry
// here; a new noun is a file and a line there.
#ifndef CULVERT_SERVER_CONFIG_SECTIONS_H
#define CULVERT_SERVER_CONFIG_SECTIONS_H

#include <stddef.h>

#include "server/config/config.h"

#define AT(field) offsetof(struct server_config, field)
#define KIB       1024ll
#define MIB       (1024ll * KIB)
#define GIB       (1024ll * MIB)
#define SECOND    1000ll
#define MINUTE    (60ll * SECOND)
#define DAY       (24ll * 60 * MINUTE)

extern const struct config_section server_config_process;
extern const struct config_section server_config_doors;
extern const struct config_section server_config_tls;
extern const struct config_section server_config_security;
extern const struct config_section server_config_database;
extern const struct config_section server_config_redis;
extern const struct config_section server_config_api;
extern const struct config_section server_config_ui;
extern const struct config_section server_config_ingress;
extern const struct config_section server_config_tunnel;
extern const struct config_section server_config_authentication;
extern const struct config_section server_config_sessions;
extern const struct config_section server_config_runtime_tokens;
extern const struct config_section server_config_peer;
extern const struct config_section server_config_reports;
extern const struct config_section server_config_bus;
extern const struct config_section server_config_operations;
extern const struct config_section server_config_storage;
extern const struct config_section server_config_retention;
extern const struct config_section server_config_shutdown;

// Complains when only one of <what>.certificate_file and <what>.key_file is set.
void server_config_check_pair(const char *what, const char *certificate, const char *key, struct strbuf *problems);

#endif
