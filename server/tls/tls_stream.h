// tls_stream: a byte stream over an accepted TCP socket, with TLS (OpenSSL, fed from memory) or,
// without a context, plain. Reading starts and stops as the owner can take bytes; writing is queued
// up to a bound with a callback when there is room again. What is written in one turn of the loop
// leaves in as few records and system calls as possible.
//
// While reading is stopped, and after the peer's end, a peer that leaves would go unnoticed; so
// either is watched for that when it lasts.
//
//   OPENING --on_open--> OPEN --error--> BROKEN --on_fail--> FAILED
//   OPENING --error, handshake time-out--> BROKEN
//   any state --tls_stream_close()--> CLOSED
//
// Our direction ends apart: NOT -> WANTED -> NOTIFIED (close_notify) -> SENT (FIN) -> DONE, on_shut.
//
// Owned by one object on one loop. Callbacks come from the loop, never inside tls_stream_write() or
// _read_start(); any function may be called in any callback.
#ifndef CULVERT_SERVER_TLS_STREAM_H
#define CULVERT_SERVER_TLS_STREAM_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/loop/byte_queue.h"
#include "base/loop/turn.h"
#include "base/str.h"

struct tls_stream;

enum { TLS_STREAM_SPARES = 64 };

// Empty buffers that wait for their next use.
struct tls_stream_spares {
    struct byte_queue buffers[TLS_STREAM_SPARES];
    size_t count;
};

// What the streams of one loop share: buffers that live for one callback only, and the end of the
// turn.
struct tls_stream_pool {
    struct turn turn;
    char *cipher; // TLS_STREAM_READ_BYTES
    char *plain;  // TLS_STREAM_READ_BYTES
    BIO_METHOD *bio_method;
    struct tls_stream_spares gathered, sealed;
};

enum {
    TLS_STREAM_READ_BYTES = 64 * 1024,
    TLS_STREAM_QUEUE_HIGH = 64 * 1024, // tls_stream_write() returns "full" from here on
    TLS_STREAM_QUEUE_LOW = 16 * 1024,  // on_drain comes at or below
};

void tls_stream_pool_init(struct tls_stream_pool *pool, uv_loop_t *loop);
// All its streams must be closed. on_closed: the memory of the pool may go.
void tls_stream_pool_close(struct tls_stream_pool *pool, void (*on_closed)(void *arg), void *arg);

struct tls_stream_events {
    void (*on_open)(void *arg);                             // the handshake is done (plain: in the next turn)
    void (*on_data)(void *arg, const char *at, size_t len); // valid during the call
    void (*on_eof)(void *arg);                              // the peer sends no more
    void (*on_drain)(void *arg);                            // room again after "full"
    void (*on_hangup)(void *arg); // while reading is stopped: the peer has ended its direction (may be NULL)
    void (*on_shut)(void *arg);   // what tls_stream_shutdown() asked for has left, or cannot (may be NULL)
    void (*on_fail)(void *arg, const struct error *err); // broken: only tls_stream_close() is left
};

// tcp comes from the heap, is connected and belongs to the stream. ssl NULL: plain; made of
// TLS_client_method(): ours is the client's end. Reading is stopped until _read_start().
struct tls_stream *tls_stream_create(struct tls_stream_pool *pool, uv_tcp_t *tcp, SSL_CTX *ssl,
                                     uint64_t handshake_timeout_ms, const struct tls_stream_events *events, void *arg);
void tls_stream_read_start(struct tls_stream *stream);
void tls_stream_read_stop(struct tls_stream *stream); // no on_data and no on_eof follows, also out of on_data
// Copies. False: the queue is full, stop until on_drain. The bytes were taken in either case.
bool tls_stream_write(struct tls_stream *stream, const void *at, size_t len);
// Half-close when all that was written has left: close_notify, then FIN. Reading goes on.
void tls_stream_shutdown(struct tls_stream *stream);
// Drops everything at once. on_closed (may be NULL) comes in a later turn; no other callback
// follows.
void tls_stream_close(struct tls_stream *stream, void (*on_closed)(void *arg), void *arg);

// What is left of an open stream that rests: nothing of it is tied to a loop.
struct tls_stream_rest {
    int fd;
    SSL *ssl; // NULL: plain
};
// Takes the stream apart, if it rests: open, with nothing on its way in either direction that it
// knows of, and neither end over. True: it is out's, and only tls_stream_close() is left for the
// stream. What the peer sends meanwhile waits in the kernel.
bool tls_stream_take_apart(struct tls_stream *stream, struct tls_stream_rest *out);
// Goes on with it, on any loop; tcp is as above, of rest's descriptor. on_open does not come again.
struct tls_stream *tls_stream_resume(struct tls_stream_pool *pool, uv_tcp_t *tcp, SSL *ssl,
                                     const struct tls_stream_events *events, void *arg);

// The peer may take nothing for a quarter of an hour, as a reader of events may: by then the kernel
// gives it up.
void tls_stream_be_patient(struct tls_stream *stream);

size_t tls_stream_queued(const struct tls_stream *stream);       // bytes on their way, not yet in the kernel
uint64_t tls_stream_sent_bytes(const struct tls_stream *stream); // that the peer's kernel took, ever: progress
bool tls_stream_is_shut(const struct tls_stream *stream);        // the half-close has reached the kernel
// What the handshake chose (ALPN), empty when nothing or not yet.
struct str tls_stream_protocol(const struct tls_stream *stream);
// Numeric address of the peer, without port; out has INET6_ADDRSTRLEN bytes.
void tls_stream_peer(const struct tls_stream *stream, char *out);

#endif
