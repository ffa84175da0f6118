// tls_settings: certificates and keys of the listeners. Owner: server/tls.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_TLS_TLS_SETTINGS_H
#define CULVERT_SERVER_TLS_TLS_SETTINGS_H

#include "base/config/config.h"

struct tls_settings {
    char *certificate_file;
    char *key_file;
    int64_t hsts_max_age_ms;
    char *tunnel_certificate_file;
    char *tunnel_key_file;
    char *ingress_certificate_file;
    char *ingress_key_file;
    char *peer_certificate_file;
    char *peer_key_file;
    char *peer_ca_file;
};

CONFIG_SECTION(tls_settings);

#endif
