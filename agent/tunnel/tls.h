// tls: what the agent trusts when it dials: one CA file, or the system's CAs, and pinned keys
// beside them where they are given. There is no switch to skip verification. One thread.
//
// A connection reads and writes through a `agent_tls_pipe`, so that what TLS does in pieces of one
// record is one system call a batch: whole buffers are read off the socket, and what is written
// queues up until its owner sends it.
#ifndef CULVERT_AGENT_TLS_H
#define CULVERT_AGENT_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/loop/byte_queue.h"
#include "base/str.h"

struct agent_tls;

enum { TLS_PIPE_READ_BYTES = 128 * 1024 };

// Zeroed but for fd; owned by who owns the connection, and lives as long.
struct agent_tls_pipe {
    int fd;                // to read from
    struct byte_queue out; // records for the owner to send
    unsigned reads_left;   // how often the socket may be read now: the owner's bound on one turn
    uint8_t *in;           // TLS_PIPE_READ_BYTES, from the first read on
    size_t in_at, in_len;
    bool eof;
};

void agent_tls_pipe_finish(struct agent_tls_pipe *pipe);

struct agent_tls_options { // read during agent_tls_create() only
    const char *ca_file;   // empty: the system's CAs
    const char *pins;      // as agent/tunnel/tls_pin.h reads them; empty: none
    bool resumes;          // keeps the last session of the last host, so that a reconnect costs no signature
};

// NULL with *err when the file holds no certificate or a pin is invalid.
struct agent_tls *agent_tls_create(const struct agent_tls_options *options, struct error *err);
void agent_tls_destroy(struct agent_tls *tls); // NULL is fine; connections keep what they need
// A client connection that verifies the certificate for this host (name or address), TLS 1.2 or
// later. The caller owns it (agent_tls_connection_free); it may outlive tls.
MUST_CHECK enum error_code agent_tls_connection(struct agent_tls *tls, struct str host, struct agent_tls_pipe *pipe,
                                                SSL **out, struct error *err);
void agent_tls_connection_free(SSL *ssl); // NULL is fine
// The handshake is complete: is a pinned key in the chain? Nothing may be sent to the peer before
// this check.
MUST_CHECK enum error_code agent_tls_established(SSL *ssl, struct error *err);
// Why the handshake failed, as a sentence: the verification's verdict if there is one.
enum error_code agent_tls_error(SSL *ssl, int ssl_error, struct error *err);

#endif
