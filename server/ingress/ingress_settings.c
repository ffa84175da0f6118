#include "server/ingress/ingress_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"
#include "server/proxy/trusted_proxies.h"

#define AT(field) offsetof(struct ingress_settings, field)

static const struct config_entry entries[] = {
    {.name = "ingress.connections_max",
     .type = CONFIG_INT,
     .offset = AT(connections_max),
     .def = "8192",
     .min = 1,
     .max = 1000000,
     .help = "Open connections of this replica; further ones wait in the kernel's accept queue."},
    {.name = "ingress.connections_per_address_max",
     .type = CONFIG_INT,
     .offset = AT(connections_per_address_max),
     .def = "1024",
     .max = 1000000,
     .help = "Open connections per client address (IPv6: per /64), except for trusted proxies; 0: no limit."},
    {.name = "ingress.connections_per_account_max",
     .type = CONFIG_INT,
     .offset = AT(connections_per_account_max),
     .def = "4096",
     .max = 1000000,
     .help = "Open connections per account, counted from their first authenticated request; 0: no limit."},
    {.name = "ingress.trusted_proxies",
     .type = CONFIG_STRING,
     .offset = AT(trusted_proxies),
     .def = "",
     .help = "Networks (10.0.0.0/8, ::1) of proxies whose X-Forwarded-For, X-Forwarded-Proto and Forwarded headers are "
             "kept and extended."},
    {.name = "ingress.http2",
     .type = CONFIG_BOOL,
     .offset = AT(http2),
     .def = "true",
     .help = "Offer HTTP/2 (ALPN) in addition to HTTP/1.1."},
    {.name = "ingress.http2_streams_max",
     .type = CONFIG_INT,
     .offset = AT(http2_streams_max),
     .def = "100",
     .min = 1,
     .max = 10000,
     .help = "Concurrent requests on an HTTP/2 connection."},
    {.name = "ingress.buffered_max",
     .type = CONFIG_BYTES,
     .offset = AT(buffered_bytes_max),
     .def = "16MiB",
     .min = 1024 * KIB,
     .max = 4 * GIB,
     .help = "Request bytes of HTTP/2 clients that may wait on a loop for the tunnel; beyond it clients get no more "
             "flow-control credit."},
    {.name = "ingress.head_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(head_timeout_ms),
     .def = "10s",
     .min = 100,
     .max = MINUTE,
     .help = "The head of a request must arrive within this time."},
    {.name = "ingress.idle_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(idle_timeout_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "A kept-alive connection without a request is closed after this time."},
    {.name = "ingress.stall_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(stall_timeout_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "A client that reads nothing of its response, or does not send the body it announced, is disconnected "
             "after this time."},
    {.name = "ingress.body_bytes_per_second_min",
     .type = CONFIG_INT,
     .offset = AT(body_bytes_per_second_min),
     .def = "64",
     .max = 1000000,
     .help = "A request body that arrives more slowly than this, while only the client delays the request, is refused "
             "(408); gRPC and upgraded connections are exempt. 0: no minimum."},
    {.name = "ingress.body_rate_window",
     .type = CONFIG_DURATION,
     .offset = AT(body_rate_window_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "The interval over which that rate is measured."},
    {.name = "credentials.grace",
     .type = CONFIG_DURATION,
     .offset = AT(credentials_grace_ms),
     .def = "15m",
     .min = 10 * SECOND,
     .max = 24 * 60 * MINUTE,
     .help = "Requests and connections that a key opened are ended when the database could not confirm the key for "
             "this long."},
    {.name = "ingress.webhooks_per_second",
     .type = CONFIG_INT,
     .offset = AT(webhooks_per_second),
     .def = "20",
     .min = 1,
     .max = 100000,
     .help = "Calls of /webhooks/ per runtime and loop; they need no credential."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct ingress_settings *ingress = ingress_settings_of(config);
    struct trusted_proxies proxies;
    struct error err;
    if (trusted_proxies_parse(str_c(ingress->trusted_proxies), &proxies, &err) != ERROR_NONE)
        strbuf_addf(problems, "ingress.trusted_proxies: %s\n", err.text);
}

const struct config_section ingress_settings_section = {.size = sizeof(struct ingress_settings),
                                                        .title = "Limits of the ingress listener",
                                                        CONFIG_ENTRIES(entries),
                                                        .check = check};
