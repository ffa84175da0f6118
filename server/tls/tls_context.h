// tls_context: what a listener needs to speak TLS: TLS 1.2 and 1.3, the server's order of ciphers,
// session tickets, ALPN with http/1.1, and h2 before it for listeners that speak HTTP/2 (for others
// it is refused in the handshake). Made from files; a reload makes a new one, and connections keep
// the one they began with. Immutable once made, so any thread may use it; the listeners of all
// loops share one, so that a ticket of one is good at the others.
#ifndef CULVERT_SERVER_TLS_CONTEXT_H
#define CULVERT_SERVER_TLS_CONTEXT_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "base/error.h"

struct tls_context;

// certificate_file: PEM, the leaf first, then its chain. key_file: PEM without a passphrase. NULL
// on error.
struct tls_context *tls_context_create(const char *certificate_file, const char *key_file, bool http2,
                                       struct error *err);
// Whoever still holds the SSL_CTX (SSL_CTX_up_ref) or a connection goes on. NULL is fine.
void tls_context_destroy(struct tls_context *context);
// Borrowed; take a reference of your own to keep it.
SSL_CTX *tls_context_ssl(const struct tls_context *context);

#endif
