// Settings: what a client of the ingress door may ask for.
#include "server/config/sections.h"
#include "server/ingress/ingress_proxies.h"

static const struct config_entry entries[] = {
    {.name = "ingress.connections_max",
     .type = CONFIG_INT,
     .offset = AT(ingress_connections_max),
     .def = "8192",
     .min = 1,
     .max = 1000000,
     .help = "Open connections of this replica; more wait in the kernel's queue."},
    {.name = "ingress.connections_per_address_max",
     .type = CONFIG_INT,
     .offset = AT(ingress_connections_per_address_max),
     .def = "1024",
     .max = 1000000,
     .help = "Open connections a client address (IPv6: a /64), but for trusted proxies; 0: no cap."},
    {.name = "ingress.connections_per_account_max",
     .type = CONFIG_INT,
     .offset = AT(ingress_connections_per_account_max),
     .def = "4096",
     .max = 1000000,
     .help = "Open connections an account, from their first authenticated request on; 0: no cap."},
    {.name = "ingress.trusted_proxies",
     .type = CONFIG_STRING,
     .offset = AT(ingress_trusted_proxies),
     .def = "",
     .help =
         "Networks (10.0.0.0/8, ::1) of proxies whose X-Forwarded-For, -Proto and Forwarded are kept and added to."},
    {.name = "ingress.http2",
     .type = CONFIG_BOOL,
     .offset = AT(ingress_http2),
     .def = "true",
     .help = "Offer HTTP/2 (ALPN) beside HTTP/1.1."},
    {.name = "ingress.http2_streams_max",
     .type = CONFIG_INT,
     .offset = AT(ingress_http2_streams_max),
     .def = "100",
     .min = 1,
     .max = 10000,
     .help = "Requests that an HTTP/2 connection may have open at once."},
    {.name = "ingress.buffered_max",
     .type = CONFIG_BYTES,
     .offset = AT(ingress_buffered_bytes_max),
     .def = "16MiB",
     .min = 1024 * KIB,
     .max = 4 * GIB,
     .help = "Request bytes of HTTP/2 clients that may wait on a loop for the tunnel; then no more credit is given."},
    {.name = "ingress.head_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(ingress_head_timeout_ms),
     .def = "10s",
     .min = 100,
     .max = MINUTE,
     .help = "A request's head must have arrived in this time."},
    {.name = "ingress.idle_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(ingress_idle_timeout_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "A kept-alive connection without a request is closed after this time."},
    {.name = "ingress.stall_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(ingress_stall_timeout_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "A client that takes nothing of its answer for this long is cut off."},
    {.name = "ingress.body_bytes_per_second_min",
     .type = CONFIG_INT,
     .offset = AT(ingress_body_bytes_per_second_min),
     .def = "64",
     .max = 1000000,
     .help =
         "A request body that comes more slowly, while nobody but its client is waited for, is given up (408); gRPC "
         "and upgraded connections have no such pace. 0: none has."},
    {.name = "ingress.body_rate_window",
     .type = CONFIG_DURATION,
     .offset = AT(ingress_body_rate_window_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "The time over which that pace is taken."},
    {.name = "ingress.webhooks_per_second",
     .type = CONFIG_INT,
     .offset = AT(webhooks_per_second),
     .def = "20",
     .min = 1,
     .max = 100000,
     .help = "Calls of /webhooks/ a runtime and loop, which pass without a credential."},
};

static void check(const void *values, struct strbuf *problems)
{
    const struct server_config *config = values;
    struct ingress_proxies proxies;
    struct error err;
    if (ingress_proxies_parse(str_c(config->ingress_trusted_proxies), &proxies, &err) != ERROR_NONE)
        strbuf_addf(problems, "ingress.trusted_proxies: %s\n", err.text);
}

const struct config_section server_config_ingress = {
    .title = "Limits of the ingress door", CONFIG_ENTRIES(entries), .check = check};
