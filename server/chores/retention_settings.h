// retention_settings: how long things are kept, and how often what is not kept is looked for.
// Owner: server/chores/sweeper.h. Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_CHORES_RETENTION_SETTINGS_H
#define CULVERT_SERVER_CHORES_RETENTION_SETTINGS_H

#include "base/config/config.h"

struct retention_settings {
    int64_t sweep_interval_ms;
    int64_t events_keep_ms;
    int64_t history_keep_ms;
    int64_t transitions_keep_ms;
    int64_t transitions_object_per_hour_max;
    int64_t transitions_account_max;
    int64_t kubernetes_events_keep_ms;
    int64_t kubernetes_events_account_max;
};

CONFIG_SECTION(retention_settings);

#endif
