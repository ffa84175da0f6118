// peer_tls: the two TLS contexts of the hop between replicas: one for the listener, one for links.
// TLS 1.3 only, both sides show a certificate of the one CA given, and it must name
// `culvert-replica` in its subjectAltName (DNS or URI): other certificates of the same CA open
// nothing. Immutable once made; shared by all loops.
#ifndef CULVERT_SERVER_PEER_TLS_H
#define CULVERT_SERVER_PEER_TLS_H

#include <openssl/ssl.h>

#include "base/error.h"

#define PEER_TLS_NAME "culvert-replica"

struct peer_tls {
    SSL_CTX *listener, *link;
};

// Zeroes *out on error.
MUST_CHECK enum error_code peer_tls_init(struct peer_tls *out, const char *certificate_file, const char *key_file,
                                         const char *ca_file, struct error *err);
void peer_tls_finish(struct peer_tls *tls); // connections keep theirs

#endif
