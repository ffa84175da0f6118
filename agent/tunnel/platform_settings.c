#include "agent/tunnel/platform_settings.h"

#include <stddef.h>

#define AT(field) offsetof(struct platform_settings, field)

static const struct config_entry entries[] = {
    {.name = "platform.url",
     .type = CONFIG_STRING,
     .offset = AT(url),
     .help = "URL of the platform's tunnel listener: wss://host[:port][/prefix]."},
    {.name = "platform.ca_file",
     .type = CONFIG_PATH,
     .offset = AT(ca_file),
     .def = "",
     .reloadable = true,
     .help =
         "PEM file with the CAs that the platform's certificate is verified against; empty: the CAs of the system."},
    {.name = "platform.pin",
     .type = CONFIG_STRING,
     .offset = AT(pin),
     .def = "",
     .help = "Public keys, one of which must be in the platform's certificate chain, which must be trusted as well: "
             "sha256/<base64 of the SHA-256 of a public key>, comma-separated, so that a new key can be added before "
             "the old one is removed; empty: any key."},
    {.name = "platform.sealed_token",
     .type = CONFIG_BOOL,
     .offset = AT(sealed_token),
     .def = "true",
     .help = "Send the runtime token in a form that only the platform that issued it can read, and only on this TLS "
             "connection; the platform has to prove that it is that one. false: for a network path where an "
             "intermediary terminates TLS, for example a load balancer with certificates of its own."},
    {.name = "proxy.url",
     .type = CONFIG_STRING,
     .offset = AT(proxy_url),
     .def = "",
     .secret = true,
     .help = "HTTP CONNECT proxy for the connection to the platform, http://[user:password@]host:port, or file:/path "
             "of a file that contains it; empty: the variable HTTPS_PROXY."},
    {.name = "proxy.exclude",
     .type = CONFIG_STRING,
     .offset = AT(proxy_exclude),
     .def = "",
     .help = "Hosts that are reached without the proxy: names (and names below them), addresses, networks such as "
             "10.0.0.0/8, each with an optional :port, or *; comma-separated; empty: the variable NO_PROXY."},
};

const struct config_section platform_settings_section = {
    .title = "platform", .size = sizeof(struct platform_settings), CONFIG_ENTRIES(entries)};
