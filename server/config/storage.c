// Settings: how much accounts may store.
#include <inttypes.h>
#include <stdio.h>

#include "server/config/sections.h"

static const struct config_entry entries[] = {
    {.name = "storage.account_bytes",
     .type = CONFIG_BYTES,
     .offset = AT(storage_account_bytes),
     .def = "64GiB",
     .max = 1024 * 1024 * GIB,
     .help = "Bytes that one account may store; beyond it reports that grow are refused (HTTP 429) until there is "
             "room. culvertd admin set-quota sets the quota of one account. 0: no limit."},
    {.name = "storage.account_rows",
     .type = CONFIG_INT,
     .offset = AT(storage_account_rows),
     .def = "20000000",
     .max = 1000000000000,
     .help = "The same in rows: objects, deployments, operations, events, images, annotations."},
    {.name = "storage.runtime_bytes",
     .type = CONFIG_BYTES,
     .offset = AT(storage_runtime_bytes),
     .def = "16GiB",
     .max = 1024 * 1024 * GIB,
     .help = "Bytes that one runtime may store."},
    {.name = "storage.runtime_rows",
     .type = CONFIG_INT,
     .offset = AT(storage_runtime_rows),
     .def = "5000000",
     .max = 1000000000000,
     .help = "The same in rows."},
};

void server_config_storage_settings(const struct server_config *config, char out[static SERVER_STORAGE_SETTINGS_BYTES])
{
    snprintf(out, SERVER_STORAGE_SETTINGS_BYTES,
             "app.quota_bytes=%" PRId64 " app.quota_rows=%" PRId64 " app.quota_runtime_bytes=%" PRId64
             " app.quota_runtime_rows=%" PRId64,
             config->storage_account_bytes, config->storage_account_rows, config->storage_runtime_bytes,
             config->storage_runtime_rows);
}

const struct config_section server_config_storage = {.title = "Storage quotas", CONFIG_ENTRIES(entries)};
