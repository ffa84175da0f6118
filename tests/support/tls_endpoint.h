// tls_endpoint: for tests of what dials out: a loopback listener with a fresh certificate, and the
// file to trust it by. Whoever has it accepts on `listener` and serves on a thread of its own.
#ifndef CULVERT_TESTS_SUPPORT_TLS_ENDPOINT_H
#define CULVERT_TESTS_SUPPORT_TLS_ENDPOINT_H

#include <openssl/ssl.h>
#include <stdint.h>

struct tls_endpoint {
    int listener;
    uint16_t port;
    SSL_CTX *ctx;
    char ca_file[64];
};

// names: the certificate's subjectAltName, "DNS:localhost,IP:127.0.0.1".
void tls_endpoint_init(struct tls_endpoint *endpoint, const char *names);
void tls_endpoint_wake(struct tls_endpoint *endpoint); // ends an accept() that waits
void tls_endpoint_finish(struct tls_endpoint *endpoint);

#endif
