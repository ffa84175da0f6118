// tls: what the agent trusts when it dials: one CA file, or the system's CAs, and pinned keys
// beside them where they are given. There is no switch to skip verification. One thread.
#ifndef CULVERT_AGENT_TLS_H
#define CULVERT_AGENT_TLS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "base/tls/tls_connection.h"

struct agent_tls;

struct agent_tls_options { // read during agent_tls_create() only
    const char *ca_file;   // empty: the system's CAs
    const char *pins;      // as agent/tunnel/tls_pin.h reads them; empty: none
    bool resumes;          // keeps the last session of the last host, so that a reconnect costs no signature
};

// NULL with *err when the file holds no certificate or a pin is invalid.
struct agent_tls *agent_tls_create(const struct agent_tls_options *options, struct error *err);
void agent_tls_destroy(struct agent_tls *tls); // NULL is fine; connections keep what they need
// The client's end of a connection that verifies the certificate for this host (name or address),
// TLS 1.2 or later. leaving: as tls_connection.h's. The caller owns it (agent_tls_connection_finish);
// it may outlive tls.
MUST_CHECK enum error_code agent_tls_connect(struct agent_tls *tls, struct str host, struct byte_queue *leaving,
                                             struct tls_connection *out, struct error *err);
void agent_tls_connection_finish(struct tls_connection *connection); // also of a zeroed one
// The handshake is complete: is a pinned key in the chain? Nothing may be sent to the peer before
// this check.
MUST_CHECK enum error_code agent_tls_established(struct tls_connection *connection, struct error *err);
// Why the connection broke or ended, as a sentence: the verification's verdict if there is one.
enum error_code agent_tls_error(const struct tls_connection *connection, struct error *err);

#endif
