// ws_tls: the TLS settings of the tunnel listener: TLS 1.3 (1.2 accepted), nothing but http/1.1 in
// ALPN, and session tickets whose keys come from the certificate's key and the day, so that agents
// resume at any loop and at any replica with that key, also after a restart. Private to tunnel/;
// one SSL_CTX a loop, on its thread.
#ifndef CULVERT_TUNNEL_LISTENER_WS_TLS_H
#define CULVERT_TUNNEL_LISTENER_WS_TLS_H

#include <openssl/ssl.h>
#include <stdint.h>

#include "base/error.h"

// PEM files: the leaf first, then its chain; a key without passphrase. *out belongs to the caller
// (SSL_CTX_free).
MUST_CHECK enum error_code ws_tls_create(const char *certificate_file, const char *key_file, SSL_CTX **out,
                                         struct error *err);
// Changes the ticket keys to those of this day (days since 1970, UTC). Older tickets mean a full
// handshake, no more.
void ws_tls_set_day(SSL_CTX *tls, uint64_t day);

#endif
