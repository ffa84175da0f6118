// redis_tls: TLS to Redis (rediss://). hiredis 0.14 knows none and reads and writes its file
// descriptor itself, so it is given one end of a socket pair in place of its TCP connection; this
// carries what passes between the other end and TLS on that connection. Redis' certificate is
// verified against the CA and the host name. One loop; in each direction at most one buffer is
// held, then the source is not read.
#ifndef CULVERT_STORAGE_REDIS_REDIS_TLS_H
#define CULVERT_STORAGE_REDIS_REDIS_TLS_H

#include <openssl/ssl.h>
#include <uv.h>

#include "base/error.h"

struct redis_tls;

// Blocking file reads: at start. ca_file: "" or NULL for the system's; certificate_file and
// key_file: both or none. NULL: *err names the file.
SSL_CTX *redis_tls_context(const char *ca_file, const char *certificate_file, const char *key_file, struct error *err);

// Takes the place of the non-blocking TCP socket `fd`, which may still be connecting: afterwards fd
// is the socket pair's end and its owner's as before. host: whose certificate it must be. NULL: the
// system gives no descriptor.
struct redis_tls *redis_tls_create(uv_loop_t *uv, SSL_CTX *context, const char *host, int fd, struct error *err);
// What ended the connection, or NULL: nothing that TLS knows of.
const struct error *redis_tls_failure(const struct redis_tls *tls);
void redis_tls_close(struct redis_tls *tls); // NULL is fine; frees itself in a later turn

#endif
