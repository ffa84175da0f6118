#include "server/listener_settings.h"

#include <stddef.h>
#include <string.h>

#include "base/config/config_units.h"
#include "base/str.h"
#include "server/tls/tls_settings.h"

#define AT(field) offsetof(struct listener_settings, field)

static const struct config_entry entries[] = {
    {.name = "platform.url",
     .type = CONFIG_STRING,
     .offset = AT(platform_url),
     .def = "https://localhost:8443",
     .help = "URL of the API listener as users and runtimes reach it; shown in answers and used for links."},
    {.name = "api.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(api),
     .def = ":8443",
     .help = "API listener (HTTPS, HTTP/1.1): GraphQL, REST, events."},
    {.name = "admin.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(admin),
     .def = "127.0.0.1:8444",
     .help = "Admin listener (plain HTTP): /livez, /readyz, /metrics, /version. Keep it off public networks."},
    {.name = "tunnel.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(tunnel),
     .def = ":8445",
     .help = "Tunnel listener (WSS): agents connect here."},
    {.name = "ingress.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(ingress),
     .def = ":8446",
     .help = "Ingress listener (HTTPS): requests for https://<account>-<runtime>.<tunnel.domain>/ are forwarded into "
             "the cluster."},
    {.name = "tunnel.domain",
     .type = CONFIG_STRING,
     .offset = AT(tunnel_domain),
     .def = "tunnels.localhost",
     .help = "Domain under which every runtime has a host name of its own (wildcard DNS and certificate)."},
    {.name = "listen.shared",
     .type = CONFIG_BOOL,
     .offset = AT(shared),
     .def = "false",
     .help = "Start although another process listens on these addresses; the kernel divides connections between both. "
             "For replacing a process on one host."},
    {.name = "peer.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(peer),
     .def = "",
     .help = "Peer listener (mutual TLS): other replicas forward calls for tunnels of this replica to it. Empty: this "
             "is the only replica."},
    {.name = "peer.address",
     .type = CONFIG_ADDRESS,
     .offset = AT(peer_address),
     .def = "",
     .help = "host:port at which other replicas reach the peer listener of this replica; must not be a balancer."},
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
static void check_peer(const struct config *config, struct strbuf *problems)
{
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct tls_settings *tls = tls_settings_of(config);
    bool all =
        listeners->peer_address[0] && tls->peer_certificate_file[0] && tls->peer_key_file[0] && tls->peer_ca_file[0];
    bool any =
        listeners->peer_address[0] || tls->peer_certificate_file[0] || tls->peer_key_file[0] || tls->peer_ca_file[0];
    if (listeners->peer[0] && !all)
        strbuf_add_c(problems,
                     "peer.listen: requires peer.address and peer.tls.certificate_file, key_file and ca_file\n");
    if (!listeners->peer[0] && any) strbuf_add_c(problems, "peer.*: are set without peer.listen\n");
    if (listeners->peer_address[0] == ':') strbuf_add_c(problems, "peer.address: has no host\n");
    if (strlen(listeners->peer_address) > 300) strbuf_add_c(problems, "peer.address: is longer than 300 bytes\n");
}

static void check(const struct config *config, struct strbuf *problems)
{
    const struct listener_settings *listeners = listener_settings_of(config);
    if (!is_host_name(str_c(listeners->tunnel_domain)))
        strbuf_add_c(problems, "tunnel.domain: is not a lower-case host name\n");
    if (!str_starts(str_c(listeners->platform_url), STR("https://")) || !listeners->platform_url[8])
        strbuf_add_c(problems, "platform.url: is not https:// and a host\n");
    check_peer(config, problems);
}

const struct config_section listener_settings_section = {
    .size = sizeof(struct listener_settings), .title = "Listeners", CONFIG_ENTRIES(entries), .check = check};
