#include "server/config/config.h"

#include <stdlib.h>

#include "api/access/access_settings.h"
#include "api/access/runtime_token_settings.h"
#include "api/api_settings.h"
#include "api/live/live_settings.h"
#include "api/oidc/sign_in_settings.h"
#include "modules/modules.h"
#include "server/bus/bus_settings.h"
#include "server/chores/authentication_settings.h"
#include "server/chores/retention_settings.h"
#include "server/drain_settings.h"
#include "server/ingress/ingress_settings.h"
#include "server/intake/report_settings.h"
#include "server/listener_settings.h"
#include "server/peer/peer_settings.h"
#include "server/process_settings.h"
#include "server/security_settings.h"
#include "server/tls/tls_settings.h"
#include "server/ui/ui_settings.h"
#include "storage/operations/operation_settings.h"
#include "storage/pg/database_settings.h"
#include "storage/redis/redis_settings.h"
#include "storage/reports/storage_settings.h"
#include "tunnel/tunnel_settings.h"

// Those of modules are between the two.
static const struct config_section *const first[] = {
    &process_settings_section,  &listener_settings_section, &tls_settings_section,    &security_settings_section,
    &database_settings_section, &redis_settings_section,    &api_settings_section,    &live_settings_section,
    &ui_settings_section,       &ingress_settings_section,  &tunnel_settings_section, &authentication_settings_section,
};

static const struct config_section *const last[] = {
    &sign_in_settings_section,   &access_settings_section, &runtime_token_settings_section, &peer_settings_section,
    &report_settings_section,    &bus_settings_section,    &operation_settings_section,     &storage_settings_section,
    &retention_settings_section, &drain_settings_section,
};

static void add(struct server_config_table *out, const struct config_section *section)
{
    if (out->table.section_count == SERVER_CONFIG_SECTIONS_MAX) abort(); // the list is part of the program
    out->sections[out->table.section_count++] = section;
}

void server_config_table_init(struct server_config_table *out)
{
    out->table = (struct config_table){.sections = out->sections, .program = "culvertd", .env_prefix = "CULVERT_"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        add(out, first[i]);
    for (const struct module *const *module = modules; *module; module++)
        if ((*module)->settings) add(out, (*module)->settings);
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        add(out, last[i]);
}
