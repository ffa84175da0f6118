// config_name: what settings are called in the environment, and which name somebody meant who wrote another.
// Serves base/config/config.c and base/config/config_print.c; any thread.
#ifndef CULVERT_BASE_CONFIG_CONFIG_NAME_H
#define CULVERT_BASE_CONFIG_CONFIG_NAME_H

#include "base/config/config_table.h"
#include "base/str.h"

enum { CONFIG_NAME_BYTES_MAX = 128 };

void config_name_env(const struct config_table *table, const struct config_entry *entry,
                     char out[CONFIG_NAME_BYTES_MAX]);
// The setting whose name is at most three letters away; NULL: none.
const struct config_entry *config_name_nearest(const struct config_table *table, struct str name);
// Is this variable of the environment, which no setting reads, probably one of ours misspelt? It is when it is two
// letters away from one, or stands beside a secret setting (CULVERT_DATABASE_...). Others (of tools, tests, the command
// line) are left alone.
bool config_name_is_misspelt(const struct config_table *table, struct str name, struct str value);

#endif
