#include "server/chores/retention_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct retention_settings, field)

static const struct config_entry entries[] = {
    {.name = "reports.sweep_interval",
     .type = CONFIG_DURATION,
     .offset = AT(sweep_interval_ms),
     .def = "10m",
     .min = SECOND,
     .max = DAY,
     .help = "How often manifests that no row references, and old tombstones, are removed."},
    {.name = "events.keep",
     .type = CONFIG_DURATION,
     .offset = AT(events_keep_ms),
     .def = "90d",
     .min = 7 * DAY,
     .max = 3650 * DAY,
     .help = "How long events of event sources (POST /2.0/api/events/event-payload) are kept, in whole weeks."},
    {.name = "history.keep",
     .type = CONFIG_DURATION,
     .offset = AT(history_keep_ms),
     .def = "400d",
     .min = 7 * DAY,
     .max = 36500 * DAY,
     .help = "How long deployments, sync operations and workflows are kept, in whole days; culvertd admin "
             "set-retention sets it for one account. What runs now is kept, however old."},
    {.name = "transitions.keep",
     .type = CONFIG_DURATION,
     .offset = AT(transitions_keep_ms),
     .def = "90d",
     .min = 7 * DAY,
     .max = 3650 * DAY,
     .help = "How long changes of health, sync status, operations and phases are kept, in whole weeks."},
    {.name = "transitions.object_per_hour_max",
     .type = CONFIG_INT,
     .offset = AT(transitions_object_per_hour_max),
     .def = "60",
     .min = 10,
     .max = 3600,
     .help = "Changes of an object that are stored as rows in an hour; further ones are merged into the newest."},
    {.name = "transitions.account_max",
     .type = CONFIG_INT,
     .offset = AT(transitions_account_max),
     .def = "1000000",
     .min = 1000,
     .max = 1000000000,
     .help = "Changes of one account that are kept; the oldest beyond it are removed."},
    {.name = "kubernetes_events.keep",
     .type = CONFIG_DURATION,
     .offset = AT(kubernetes_events_keep_ms),
     .def = "7d",
     .min = DAY,
     .max = 90 * DAY,
     .help = "How long Kubernetes Events that did not happen again are kept, in whole days."},
    {.name = "kubernetes_events.account_max",
     .type = CONFIG_INT,
     .offset = AT(kubernetes_events_account_max),
     .def = "200000",
     .min = 1000,
     .max = 100000000,
     .help = "Kubernetes Events of one account that are kept; the oldest beyond it are removed. Of an object 50 are "
             "kept."},
};

const struct config_section retention_settings_section = {
    .size = sizeof(struct retention_settings), .title = "Retention", CONFIG_ENTRIES(entries)};
