#include "agent/calls/router_settings.h"

#include <stddef.h>

#define AT(field) offsetof(struct router_settings, field)

static const struct config_entry entries[] = {
    {.name = "router.services",
     .type = CONFIG_STRING,
     .offset = AT(services),
     .def = "",
     .help = "Services that calls may reach: name=http://host:port (or https://, h2c:// for gRPC, tcp://), "
             "comma-separated. All others are refused."},
    {.name = "router.webhooks",
     .type = CONFIG_STRING,
     .offset = AT(webhooks),
     .def = "",
     .help = "Event sources that webhooks may reach: namespace/eventsource[=http://host:port], comma-separated."},
    {.name = "router.workflows",
     .type = CONFIG_STRING,
     .offset = AT(workflows),
     .def = "",
     .help = "Argo Workflows server behind /workflows/: http://host:port; empty: the path is refused."},
    {.name = "router.ca_file",
     .type = CONFIG_PATH,
     .offset = AT(ca_file),
     .def = "",
     .help = "PEM file with the CAs that certificates of https:// services are verified against; empty: the CAs of the "
             "system."},
    {.name = "tcp.allow",
     .type = CONFIG_STRING,
     .offset = AT(tcp_allow),
     .def = "",
     .help = "Raw TCP services behind /tcp/<name> (:protocol connect-tcp): name=host:port, comma-separated."},
    {.name = "router.streams_max",
     .type = CONFIG_INT,
     .offset = AT(streams_max),
     .def = "1000",
     .min = 1,
     .max = 100000,
     .help = "Concurrent calls."},
    {.name = "router.connect_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(connect_timeout_ms),
     .def = "5s",
     .min = 100,
     .max = 60000,
     .help = "Time limit of connecting to a service."},
};

const struct config_section router_settings_section = {
    .title = "router", .size = sizeof(struct router_settings), CONFIG_ENTRIES(entries)};
