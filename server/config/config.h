// server_config: the table of all settings of culvertd. Each section is a struct beside what uses it
// (base/config/config.h, CONFIG_SECTION), those of modules are in struct module.
#ifndef CULVERT_SERVER_CONFIG_CONFIG_H
#define CULVERT_SERVER_CONFIG_CONFIG_H

#include "base/config/config.h"

enum { SERVER_CONFIG_SECTIONS_MAX = 64 };

struct server_config_table {
    struct config_table table; // refers to sections: not to be copied
    const struct config_section *sections[SERVER_CONFIG_SECTIONS_MAX];
};

// In the order of the example file.
void server_config_table_init(struct server_config_table *out);

// Why database.migrate_url, a setting of older versions, is refused.
#define SERVER_CONFIG_NO_OWNER                                                                                         \
    "the server must not have the owner's credential; remove the setting and run `culvertd migrate --url-file FILE`"

// The purpose of the key that encrypts columns in PostgreSQL.
#define SERVER_COLUMN_KEY "database columns"

#endif
