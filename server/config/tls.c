// Settings: certificates and keys of the listeners.
#include "server/config/sections.h"

static const struct config_entry entries[] = {
    {.name = "tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(tls_certificate_file),
     .def = NULL,
     .help = "Certificate chain (PEM) of the API listener, and of the other listeners unless they have their own."},
    {.name = "tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(tls_key_file),
     .def = NULL,
     .help = "Private key (PEM) of that certificate."},
    {.name = "tls.hsts_max_age",
     .type = CONFIG_DURATION,
     .offset = AT(tls_hsts_max_age_ms),
     .def = "365d",
     .max = 2 * 366 * DAY,
     .help = "Strict-Transport-Security of all responses of API and ingress over TLS (RFC 6797); services cannot set "
             "it. 0: the header is not sent."},
    {.name = "tunnel.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(tunnel_tls_certificate_file),
     .def = "",
     .help = "Certificate chain (PEM) of the tunnel listener."},
    {.name = "tunnel.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(tunnel_tls_key_file),
     .def = "",
     .help = "Private key (PEM) of that certificate."},
    {.name = "ingress.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(ingress_tls_certificate_file),
     .def = "",
     .help = "Certificate chain (PEM) of the ingress listener (wildcard of tunnel.domain)."},
    {.name = "ingress.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(ingress_tls_key_file),
     .def = "",
     .help = "Private key (PEM) of that certificate."},
    {.name = "peer.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(peer_tls_certificate_file),
     .def = "",
     .help = "Certificate chain (PEM) that this replica presents to other replicas; its subjectAltName has the DNS "
             "name or the URI culvert-replica."},
    {.name = "peer.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(peer_tls_key_file),
     .def = "",
     .help = "Private key (PEM) of that certificate."},
    {.name = "peer.tls.ca_file",
     .type = CONFIG_PATH,
     .offset = AT(peer_tls_ca_file),
     .def = "",
     .help = "CA of the certificates of all replicas; the peer listener trusts no other CA."},
};

void server_config_check_pair(const char *what, const char *certificate, const char *key, struct strbuf *problems)
{
    if ((certificate[0] == '\0') != (key[0] == '\0'))
        strbuf_addf(problems, "%s.certificate_file and %s.key_file: must be set together\n", what, what);
}

static void check(const void *values, struct strbuf *problems)
{
    const struct server_config *config = values;
    if (config->tls_certificate_file[0] == '\0' || config->tls_key_file[0] == '\0')
        strbuf_add_c(problems, "tls.certificate_file and tls.key_file: are needed; culvertd serves no plain HTTP\n");
    server_config_check_pair("tunnel.tls", config->tunnel_tls_certificate_file, config->tunnel_tls_key_file, problems);
    server_config_check_pair("ingress.tls", config->ingress_tls_certificate_file, config->ingress_tls_key_file,
                             problems);
}

const struct config_section server_config_tls = {
    .title = "TLS (1.2 and 1.3); on SIGHUP the same files are read again", CONFIG_ENTRIES(entries), .check = check};
