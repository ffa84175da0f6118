// storage_settings: how much accounts may store. Owner: storage/reports/storage_usage_store.h.
// Read-only once loaded; any thread.
#ifndef CULVERT_STORAGE_REPORTS_STORAGE_SETTINGS_H
#define CULVERT_STORAGE_REPORTS_STORAGE_SETTINGS_H

#include "base/config/config.h"

struct storage_settings {
    int64_t account_bytes;
    int64_t account_rows;
    int64_t runtime_bytes;
    int64_t runtime_rows;
};

CONFIG_SECTION(storage_settings);

// The quotas, as pg_options.settings has them (migrations/0026).
enum { STORAGE_SETTINGS_BYTES = 256 };
void storage_settings_write(const struct storage_settings *storage, char out[static STORAGE_SETTINGS_BYTES]);

#endif
