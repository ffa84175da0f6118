// tls_pipe: TLS over one non-blocking socket, without a loop: its owner reports when the socket can
// be read or written. Private to tunnel/. One read() and one write() serve many records, through
// buffers that all pipes of a loop share, so that an idle pipe costs nothing but its SSL object;
// only what the kernel did not take is kept with the pipe.
//
// What is encrypted lies in the shared buffer: tls_pipe_flush() must follow in the same callback,
// before any other pipe of the pool is used.
#ifndef CULVERT_TUNNEL_LISTENER_TLS_PIPE_H
#define CULVERT_TUNNEL_LISTENER_TLS_PIPE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/loop/byte_queue.h"
#include "base/tls/tls_connection.h"

enum { TLS_PIPE_READ_BYTES = 64 * 1024 };

struct tls_pool {
    BIO_METHOD *method;
    uint8_t *arriving;         // TLS_PIPE_READ_BYTES
    struct byte_queue leaving; // records of the pipe in use,
    const void *user;          // which is this one
};

void tls_pool_init(struct tls_pool *pool);
void tls_pool_finish(struct tls_pool *pool); // after its pipes

struct tls_pipe {
    struct tls_pool *pool;
    int fd;
    struct tls_connection tls;
    struct byte_queue unsent; // records that the kernel did not take
    uint64_t taken_bytes;     // ever read from the socket
};

// Owns fd. The server's side of a handshake with a certificate from `tls`.
void tls_pipe_init(struct tls_pipe *pipe, struct tls_pool *pool, int fd, SSL_CTX *tls);
void tls_pipe_finish(struct tls_pipe *pipe); // closes the socket

// One read() into the pool; *out_at..*out_len is what came, as it came. The steps below take it
// from there. AGAIN: nothing is here; END: the peer has ended; FAILED: the socket is broken.
enum tls_result tls_pipe_fill(struct tls_pipe *pipe, const uint8_t **out_at, size_t *out_len);
void tls_pipe_forget(struct tls_pipe *pipe); // what tls_pipe_fill() gave and the steps did not take
// As tls_connection's, into the pool. FAILED: *err has the reason, and there may be an alert to
// flush.
enum tls_result tls_pipe_handshake(struct tls_pipe *pipe, struct error *err);
enum tls_result tls_pipe_read(struct tls_pipe *pipe, uint8_t *out, size_t cap, size_t *out_len);
bool tls_pipe_write(struct tls_pipe *pipe, const void *at, size_t len);
void tls_pipe_write_end(struct tls_pipe *pipe);
// Plain bytes: for a peer that does not speak TLS.
void tls_pipe_write_plain(struct tls_pipe *pipe, const void *at, size_t len);
// Hands to the kernel what it takes, in one write(). AGAIN: the rest waits; call again when the
// socket is writable.
enum tls_result tls_pipe_flush(struct tls_pipe *pipe);

// From now on the socket counts as readable when that many bytes are there, or the peer's end
// (SO_RCVLOWAT, socket(7)).
void tls_pipe_wake_at(struct tls_pipe *pipe, int bytes);
// Milliseconds since bytes of the peer last reached the kernel, read or not, and how many lie there
// (TCP_INFO, tcp(7)). False: unknown.
MUST_CHECK bool tls_pipe_look(const struct tls_pipe *pipe, uint64_t *out_silent_ms, uint64_t *out_unread);

#endif
