// tls_files: what every listener does to an SSL_CTX: certificate and key out of PEM files, and the
// protocols that are offered (ALPN, RFC 7301). Any thread, while nobody else has the context.
#ifndef CULVERT_BASE_TLS_TLS_FILES_H
#define CULVERT_BASE_TLS_TLS_FILES_H

#include <openssl/ssl.h>

#include "base/error.h"

// certificate_file: PEM, the leaf first, then its chain. key_file: PEM without a passphrase: one that wants it is an
// error, never a question on the terminal. ERROR_INVALID names the file and OpenSSL's reason.
MUST_CHECK enum error_code tls_files_load(SSL_CTX *tls, const char *certificate_file, const char *key_file,
                                          struct error *err);
// ERROR_INVALID "<what> <file>: <OpenSSL's reason>", and OpenSSL's queue of errors is empty afterwards.
enum error_code tls_files_fail(struct error *err, const char *what, const char *file);
// protocols: each with its length in front, the best first; text that outlives every connection. A peer that offers
// protocols, but none of these, is refused in the handshake (section 3.2).
void tls_files_offer(SSL_CTX *tls, const char *protocols);

#endif
