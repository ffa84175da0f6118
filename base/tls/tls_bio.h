// tls_bio: what OpenSSL reads from and writes to in place of a socket: bytes that have arrived, and a buffer for those
// that shall leave. OpenSSL's own memory BIOs would copy everything once more and never give memory back. One loop.
#ifndef CULVERT_BASE_TLS_TLS_BIO_H
#define CULVERT_BASE_TLS_TLS_BIO_H

#include <openssl/bio.h>

#include "base/strbuf.h"

// Embedded in the stream that owns the SSL.
struct tls_bio {
    struct str arriving; // first come the held bytes, then these: a view that its owner keeps valid
    struct strbuf held;  // copied from `arriving` when it could not be used at once
    struct strbuf *leaving;
};

BIO_METHOD *tls_bio_method_create(void); // one serves many; BIO_meth_free() after the last BIO
BIO *tls_bio_new(const BIO_METHOD *method, struct tls_bio *state);

#endif
