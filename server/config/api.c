// Settings: what a client of the API listener may ask for.
#include "server/config/sections.h"

static const struct config_entry entries[] = {
    {.name = "api.connections_max",
     .type = CONFIG_INT,
     .offset = AT(api_connections_max),
     .def = "8192",
     .min = 1,
     .max = 1000000,
     .help = "Open connections of this replica; further ones wait in the kernel's accept queue."},
    {.name = "api.connections_per_address_max",
     .type = CONFIG_INT,
     .offset = AT(api_connections_per_address_max),
     .def = "1024",
     .max = 1000000,
     .help = "Open connections per client address (IPv6: per /64), except for ingress.trusted_proxies; 0: no limit."},
    {.name = "api.request_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(api_request_timeout_ms),
     .def = "30s",
     .min = SECOND,
     .max = 10 * MINUTE,
     .help = "A request, head and body, must arrive within this time; also the idle timeout between requests."},
    {.name = "api.body_max",
     .type = CONFIG_BYTES,
     .offset = AT(api_body_bytes_max),
     .def = "1MiB",
     .min = KIB,
     .max = 32 * MIB,
     .help = "Maximum size of request bodies of the API."},
    {.name = "api.events_body_max",
     .type = CONFIG_BYTES,
     .offset = AT(api_events_bytes_max),
     .def = "10MiB",
     .min = KIB,
     .max = 32 * MIB,
     .help = "Maximum size of bodies of POST /2.0/api/events, inflated, and of calls through /runtimes/<name>/proxy/."},
    {.name = "head_max",
     .type = CONFIG_BYTES,
     .offset = AT(head_bytes_max),
     .def = "32KiB",
     .min = 4 * KIB,
     .max = 32 * KIB,
     .help = "Maximum size of request line and headers, on the API and ingress listeners."},
    {.name = "graphql.tokens_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_tokens_max),
     .def = "1000",
     .min = 100,
     .max = 10000,
     .help = "Maximum number of lexical tokens of a GraphQL document."},
    {.name = "graphql.depth_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_depth_max),
     .def = "12",
     .min = 3,
     .max = 64,
     .help = "Maximum nesting of a GraphQL selection."},
};

static void check(const void *values, struct strbuf *problems)
{
    const struct server_config *config = values;
    if (config->api_body_bytes_max > config->api_events_bytes_max)
        strbuf_add_c(problems, "api.body_max: is larger than api.events_body_max\n");
}

const struct config_section server_config_api = {
    .title = "Limits of the API listener", CONFIG_ENTRIES(entries), .check = check};
