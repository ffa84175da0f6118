#include "storage/reports/storage_settings.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct storage_settings, field)

static const struct config_entry entries[] = {
    {.name = "storage.account_bytes",
     .type = CONFIG_BYTES,
     .offset = AT(account_bytes),
     .def = "64GiB",
     .max = 1024 * 1024 * GIB,
     .help = "Bytes that one account may store; beyond it reports that grow are refused (HTTP 429) until there is "
             "room. culvertd admin set-quota sets the quota of one account. 0: no limit."},
    {.name = "storage.account_rows",
     .type = CONFIG_INT,
     .offset = AT(account_rows),
     .def = "20000000",
     .max = 1000000000000,
     .help = "The same in rows: objects, deployments, operations, events, images, annotations."},
    {.name = "storage.runtime_bytes",
     .type = CONFIG_BYTES,
     .offset = AT(runtime_bytes),
     .def = "16GiB",
     .max = 1024 * 1024 * GIB,
     .help = "Bytes that one runtime may store."},
    {.name = "storage.runtime_rows",
     .type = CONFIG_INT,
     .offset = AT(runtime_rows),
     .def = "5000000",
     .max = 1000000000000,
     .help = "The same in rows."},
};

void storage_settings_write(const struct storage_settings *storage, char out[static STORAGE_SETTINGS_BYTES])
{
    snprintf(out, STORAGE_SETTINGS_BYTES,
             "app.quota_bytes=%" PRId64 " app.quota_rows=%" PRId64 " app.quota_runtime_bytes=%" PRId64
             " app.quota_runtime_rows=%" PRId64,
             storage->account_bytes, storage->account_rows, storage->runtime_bytes, storage->runtime_rows);
}

const struct config_section storage_settings_section = {
    .size = sizeof(struct storage_settings), .title = "Storage quotas", CONFIG_ENTRIES(entries)};
