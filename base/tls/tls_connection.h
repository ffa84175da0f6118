// tls_connection: the TLS of one connection (OpenSSL), without I/O and without a loop. Its owner
// gives it the bytes that arrive, and sends those that it leaves in a queue. All listeners and
// clients use it: what differs between them is how they move bytes between it and the socket.
//
//   HANDSHAKE --tls_connection_handshake()--> OPEN
//   OPEN --close_notify, or the input's end--> ENDED: nothing more to read; writing goes on
//   HANDSHAKE, OPEN, ENDED --error--> BROKEN
//
// Embedded in the object that owns the socket. One thread.
#ifndef CULVERT_BASE_TLS_TLS_CONNECTION_H
#define CULVERT_BASE_TLS_TLS_CONNECTION_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/loop/byte_queue.h"
#include "base/str.h"

enum tls_connection_state {
    TLS_CONNECTION_HANDSHAKE,
    TLS_CONNECTION_OPEN,
    TLS_CONNECTION_ENDED,
    TLS_CONNECTION_BROKEN,
};

enum tls_result {
    TLS_OK,
    TLS_AGAIN,  // more input is needed
    TLS_END,    // the peer sends no more
    TLS_FAILED, // broken: tls_connection_error() has the reason
};

struct tls_connection {
    SSL *ssl; // NULL: none yet, or plain
    enum tls_connection_state state;
    struct str arriving;        // a view that the owner keeps valid until it is read or held
    struct byte_queue held;     // is read before `arriving`
    struct byte_queue *leaving; // records for the socket: the owner's, with the owner's bound
    bool input_ended;           // nothing arrives behind `arriving`
    bool end_is_notified;       // an end without close_notify is an error
    unsigned long failure;      // OpenSSL's code, or 0
};

// What OpenSSL calls to read and write. One serves many connections; BIO_meth_free() after the last.
BIO_METHOD *tls_connection_method_create(void);

// A connection of ctx, the server's or the client's end of a handshake that has not begun. Out of
// memory ends the process.
void tls_connection_accept(struct tls_connection *connection, const BIO_METHOD *method, SSL_CTX *ctx,
                           struct byte_queue *leaving);
void tls_connection_connect(struct tls_connection *connection, const BIO_METHOD *method, SSL_CTX *ctx,
                            struct byte_queue *leaving);
// Before a client's handshake: the server's certificate must be of host, a name, which is also sent
// (SNI), or an address. check_flags: X509_CHECK_FLAG_*, beside those for wildcards. False: not a host.
MUST_CHECK bool tls_connection_expect_host(struct tls_connection *connection, const char *host, unsigned check_flags);
// Goes on with what tls_connection_release() gave.
void tls_connection_resume(struct tls_connection *connection, const BIO_METHOD *method, SSL *ssl,
                           struct byte_queue *leaving);
// The caller owns the SSL; tls_connection_rests() must be true.
SSL *tls_connection_release(struct tls_connection *connection);
void tls_connection_finish(struct tls_connection *connection); // also of a zeroed one

// What has arrived. The bytes before must have been read, or held.
void tls_connection_feed(struct tls_connection *connection, const void *at, size_t len);
// Copies what was not read, so that the view may go. False: the bound of `held` was passed.
MUST_CHECK bool tls_connection_hold(struct tls_connection *connection);

MUST_CHECK enum tls_result tls_connection_handshake(struct tls_connection *connection);
// Decrypts up to cap bytes. OK: there may be more; AGAIN: all that arrived was read, *out_len may
// be over 0; END and FAILED come behind the *out_len bytes, and again at each later call.
MUST_CHECK enum tls_result tls_connection_read(struct tls_connection *connection, void *out, size_t cap,
                                               size_t *out_len);
// Encrypts all of it. False: broken, for example because `leaving` is full. Only after the
// handshake.
MUST_CHECK bool tls_connection_write(struct tls_connection *connection, const void *at, size_t len);
// Writes close_notify; before the handshake nothing.
void tls_connection_end(struct tls_connection *connection);

// There is something to read that did not just arrive: bytes, or the end.
bool tls_connection_has_input(const struct tls_connection *connection);
// Open, and nothing lies here that was not read.
bool tls_connection_rests(const struct tls_connection *connection);
bool tls_connection_in_record(const struct tls_connection *connection); // one has begun to come
// Why it broke: OpenSSL's reason, or "closed by the peer".
const char *tls_connection_error(const struct tls_connection *connection);

#endif
