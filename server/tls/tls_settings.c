#include "server/tls/tls_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct tls_settings, field)

static const struct config_entry entries[] = {
    {.name = "tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(certificate_file),
     .def = NULL,
     .help = "Certificate chain (PEM) of the API listener, and of the other listeners unless they have their own."},
    {.name = "tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(key_file),
     .def = NULL,
     .help = "Private key (PEM) of that certificate."},
    {.name = "tls.hsts_max_age",
     .type = CONFIG_DURATION,
     .offset = AT(hsts_max_age_ms),
     .def = "365d",
     .max = 2 * 366 * DAY,
     .help = "Strict-Transport-Security of all responses of API and ingress over TLS (RFC 6797); services cannot set "
             "it. 0: the header is not sent."},
    {.name = "tunnel.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(tunnel_certificate_file),
     .def = "",
     .help = "Certificate chain (PEM) of the tunnel listener."},
    {.name = "tunnel.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(tunnel_key_file),
     .def = "",
     .help = "Private key (PEM) of that certificate."},
    {.name = "ingress.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(ingress_certificate_file),
     .def = "",
     .help = "Certificate chain (PEM) of the ingress listener (wildcard of tunnel.domain)."},
    {.name = "ingress.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(ingress_key_file),
     .def = "",
     .help = "Private key (PEM) of that certificate."},
    {.name = "peer.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(peer_certificate_file),
     .def = "",
     .help = "Certificate chain (PEM) that this replica presents to other replicas; its subjectAltName has the DNS "
             "name or the URI culvert-replica."},
    {.name = "peer.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(peer_key_file),
     .def = "",
     .help = "Private key (PEM) of that certificate."},
    {.name = "peer.tls.ca_file",
     .type = CONFIG_PATH,
     .offset = AT(peer_ca_file),
     .def = "",
     .help = "CA of the certificates of all replicas; the peer listener trusts no other CA."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct tls_settings *tls = tls_settings_of(config);
    if (tls->certificate_file[0] == '\0' || tls->key_file[0] == '\0')
        strbuf_add_c(problems, "tls.certificate_file and tls.key_file: are needed; culvertd serves no plain HTTP\n");
    config_check_pair("tunnel.tls", tls->tunnel_certificate_file, tls->tunnel_key_file, problems);
    config_check_pair("ingress.tls", tls->ingress_certificate_file, tls->ingress_key_file, problems);
}

const struct config_section tls_settings_section = {.size = sizeof(struct tls_settings),
                                                    .title =
                                                        "TLS (1.2 and 1.3); on SIGHUP the same files are read again",
                                                    CONFIG_ENTRIES(entries),
                                                    .check = check};
