// database_settings: PostgreSQL. Owner: storage/pg.
// Read-only once loaded; any thread.
#ifndef CULVERT_STORAGE_PG_DATABASE_SETTINGS_H
#define CULVERT_STORAGE_PG_DATABASE_SETTINGS_H

#include "base/config/config.h"

struct database_settings {
    char *url;
    int64_t connections;
    int64_t queue_max;
    int64_t statement_timeout_ms;
    int64_t slow_statement_timeout_ms;
    int64_t statements_max;
    int64_t deadline_ms;
};

CONFIG_SECTION(database_settings);

#endif
