// Settings: where the doors are, and how others reach them.
#include "server/config/sections.h"

#include <string.h>

#include "base/str.h"

static const struct config_entry entries[] = {
    {.name = "platform.url",
     .type = CONFIG_STRING,
     .offset = AT(platform_url),
     .def = "https://localhost:8443",
     .help = "How users and runtimes reach the API door; shown in answers and used for links."},
    {.name = "api.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(api_listen),
     .def = ":8443",
     .help = "API door (HTTPS, HTTP/1.1): GraphQL, REST, event intake."},
    {.name = "admin.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(admin_listen),
     .def = "127.0.0.1:8444",
     .help = "Admin listener (plain HTTP): /livez, /readyz, /metrics, /version. Keep it off public networks."},
    {.name = "tunnel.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(tunnel_listen),
     .def = ":8445",
     .help = "Tunnel door (WSS): agents dial in here."},
    {.name = "ingress.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(ingress_listen),
     .def = ":8446",
     .help = "Ingress door (HTTPS): https://<account>-<runtime>.<tunnel.domain>/ is carried into the cluster."},
    {.name = "tunnel.domain",
     .type = CONFIG_STRING,
     .offset = AT(tunnel_domain),
     .def = "tunnels.localhost",
     .help = "Domain under which every runtime has a host name of its own (wildcard DNS and certificate)."},
    {.name = "listen.shared",
     .type = CONFIG_BOOL,
     .offset = AT(listen_shared),
     .def = "false",
     .help =
         "Start although another process serves these addresses: both get connections, for a take-over on one host."},
    {.name = "peer.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(peer_listen),
     .def = "",
     .help = "Peer door (mutual TLS): where other replicas hand over calls for tunnels that are here. Empty: this is "
             "the only replica."},
    {.name = "peer.address",
     .type = CONFIG_ADDRESS,
     .offset = AT(peer_address),
     .def = "",
     .help = "host:port under which other replicas reach this replica's own peer door, never a balancer."},
};

static bool is_host_name(struct str s)
{
    if (s.len == 0 || s.len > 200 || s.at[0] == '.' || s.at[s.len - 1] == '.') return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
        if (!ok) return false;
    }
    return true;
}

// One replica or several: the settings of the hop go together.
static void check_peer(const struct server_config *config, struct strbuf *problems)
{
    bool all = config->peer_address[0] && config->peer_tls_certificate_file[0] && config->peer_tls_key_file[0] &&
               config->peer_tls_ca_file[0];
    bool any = config->peer_address[0] || config->peer_tls_certificate_file[0] || config->peer_tls_key_file[0] ||
               config->peer_tls_ca_file[0];
    if (config->peer_listen[0] && !all)
        strbuf_add_c(problems, "peer.listen: needs peer.address and peer.tls.certificate_file, key_file and ca_file\n");
    if (!config->peer_listen[0] && any) strbuf_add_c(problems, "peer.*: are set without peer.listen\n");
    if (config->peer_address[0] == ':') strbuf_add_c(problems, "peer.address: has no host\n");
    if (strlen(config->peer_address) > 300) strbuf_add_c(problems, "peer.address: is longer than 300 bytes\n");
}

static void check(const void *values, struct strbuf *problems)
{
    const struct server_config *config = values;
    if (!is_host_name(str_c(config->tunnel_domain)))
        strbuf_add_c(problems, "tunnel.domain: is not a lower-case host name\n");
    if (!str_starts(str_c(config->platform_url), STR("https://")) || !config->platform_url[8])
        strbuf_add_c(problems, "platform.url: is not https:// and a host\n");
    check_peer(config, problems);
}

const struct config_section server_config_doors = {.title = "Doors", CONFIG_ENTRIES(entries), .check = check};
