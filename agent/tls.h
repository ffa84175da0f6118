// tls: what the agent trusts when it dials the platform: one CA file, or the system's CAs. There is no switch to skip
// verification. One thread.
#ifndef CULVERT_AGENT_TLS_H
#define CULVERT_AGENT_TLS_H

#include <openssl/ssl.h>

#include "base/byte_queue.h"
#include "base/error.h"
#include "base/str.h"

struct agent_tls;

// ca_file empty: the system's CAs. NULL with *err when the file holds no certificate.
struct agent_tls *agent_tls_create(const char *ca_file, struct error *err);
void agent_tls_destroy(struct agent_tls *tls); // NULL is fine; connections keep what they need
// A client connection that verifies the certificate for this host (name or address), TLS 1.2 or later. The caller gives
// it a socket to read from (SSL_set_rfd) and owns it (agent_tls_connection_free); it may outlive tls. What it writes
// goes to out_queue, not to a socket: four records leave in one system call. The queue lives as long as the connection.
MUST_CHECK enum error_code agent_tls_connection(struct agent_tls *tls, struct str host, struct byte_queue *out_queue,
                                                SSL **out, struct error *err);
void agent_tls_connection_free(SSL *ssl); // NULL is fine
// Why the handshake failed, as a sentence: the verification's verdict if there is one.
enum error_code agent_tls_error(SSL *ssl, int ssl_error, struct error *err);

#endif
