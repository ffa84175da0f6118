#include "tunnel/listener/tls_pipe.h"

#include <assert.h>
#include <errno.h>
#include <linux/tcp.h> // the C library's struct tcp_info ends before what is looked at here
#include <netinet/in.h>
#include <openssl/err.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    LEAVING_BYTES_MAX = 1024 * 1024, // a turn's records; far above what one message makes
    UNSENT_BYTES_MAX = 1024 * 1024,  // answers that OpenSSL makes by itself to a peer that never reads end here
};

void tls_pool_init(struct tls_pool *pool)
{
    pool->method = tls_bio_method_create();
    pool->arriving = mem_alloc(TLS_PIPE_READ_BYTES);
    strbuf_init(&pool->leaving, LEAVING_BYTES_MAX);
}

void tls_pool_finish(struct tls_pool *pool)
{
    BIO_meth_free(pool->method);
    mem_free(pool->arriving);
    strbuf_finish(&pool->leaving);
    *pool = (struct tls_pool){0};
}

void tls_pipe_init(struct tls_pipe *pipe, struct tls_pool *pool, int fd, SSL_CTX *tls)
{
    *pipe = (struct tls_pipe){.pool = pool, .fd = fd, .bio.leaving = &pool->leaving};
    strbuf_init(&pipe->bio.held, 1); // never used: every read is taken to its end
    byte_queue_init(&pipe->unsent, UNSENT_BYTES_MAX);
    pipe->ssl = SSL_new(tls);
    if (!pipe->ssl) abort(); // out of memory
    BIO *bio = tls_bio_new(pool->method, &pipe->bio);
    SSL_set_bio(pipe->ssl, bio, bio);
    SSL_set_accept_state(pipe->ssl);
}

void tls_pipe_finish(struct tls_pipe *pipe)
{
    if (pipe->fd < 0) return;
    if (pipe->pool->user == pipe) pipe->pool->user = NULL;
    SSL_free(pipe->ssl);
    byte_queue_finish(&pipe->unsent);
    close(pipe->fd);
    *pipe = (struct tls_pipe){.fd = -1};
}

// SSL_get_error() looks at the thread's queue of errors. It is nearly always empty, and clearing it
// is slow.
static void clear_errors(void)
{
    if (ERR_peek_error()) ERR_clear_error();
}

// Records of one connection must never leave on another: the previous user of the pool has flushed.
static void take_pool(struct tls_pipe *pipe)
{
    assert(pipe->pool->user == pipe || pipe->pool->leaving.len == 0);
    pipe->pool->user = pipe;
    clear_errors();
}

enum tls_pipe_result tls_pipe_fill(struct tls_pipe *pipe, const uint8_t **out_at, size_t *out_len)
{
    ssize_t len;
    do
        len = read(pipe->fd, pipe->pool->arriving, TLS_PIPE_READ_BYTES);
    while (len < 0 && errno == EINTR);
    if (len < 0) return errno == EAGAIN ? TLS_PIPE_AGAIN : TLS_PIPE_FAILED;
    if (len == 0) return TLS_PIPE_END;
    pipe->taken_bytes += (uint64_t)len;
    pipe->bio.arriving = str_of((const char *)pipe->pool->arriving, (size_t)len);
    *out_at = pipe->pool->arriving;
    *out_len = (size_t)len;
    return TLS_PIPE_OK;
}

static enum tls_pipe_result fail(struct error *err)
{
    unsigned long code = ERR_get_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    (void)error_set(err, ERROR_PROTOCOL, "TLS: %s", reason ? reason : "closed by the peer");
    return TLS_PIPE_FAILED;
}

enum tls_pipe_result tls_pipe_handshake(struct tls_pipe *pipe, struct error *err)
{
    take_pool(pipe);
    int code = SSL_do_handshake(pipe->ssl);
    if (code == 1) return TLS_PIPE_OK;
    return SSL_get_error(pipe->ssl, code) == SSL_ERROR_WANT_READ ? TLS_PIPE_AGAIN : fail(err);
}

enum tls_pipe_result tls_pipe_read(struct tls_pipe *pipe, uint8_t *out, size_t cap, size_t *out_len)
{
    size_t used = 0;
    enum tls_pipe_result result = TLS_PIPE_OK;
    take_pool(pipe);
    while (used < cap) {
        int got = SSL_read(pipe->ssl, out + used, (int)(cap - used));
        if (got > 0) {
            used += (size_t)got;
            if (pipe->bio.arriving.len || SSL_has_pending(pipe->ssl)) continue;
            result = TLS_PIPE_AGAIN;
            break;
        }
        switch (SSL_get_error(pipe->ssl, got)) {
        case SSL_ERROR_WANT_READ: result = TLS_PIPE_AGAIN; break;
        case SSL_ERROR_ZERO_RETURN: result = TLS_PIPE_END; break;
        default: result = TLS_PIPE_FAILED; break;
        }
        clear_errors();
        break;
    }
    *out_len = used;
    return result;
}

bool tls_pipe_write(struct tls_pipe *pipe, const void *at, size_t len)
{
    take_pool(pipe);
    // The BIO takes everything, so that SSL_write never has to be repeated.
    bool ok = SSL_write(pipe->ssl, at, (int)len) == (int)len;
    clear_errors();
    return ok;
}

void tls_pipe_write_end(struct tls_pipe *pipe)
{
    take_pool(pipe);
    (void)SSL_shutdown(pipe->ssl);
    clear_errors();
}

void tls_pipe_write_plain(struct tls_pipe *pipe, const void *at, size_t len)
{
    take_pool(pipe);
    (void)strbuf_add(&pipe->pool->leaving, at, len); // overflow shows in tls_pipe_flush()
}

// Bytes that the kernel took, or -1.
static ssize_t hand_over(int fd, const void *at, size_t len)
{
    ssize_t sent;
    do
        sent = send(fd, at, len, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0) return errno == EAGAIN ? 0 : -1;
    return sent;
}

enum tls_pipe_result tls_pipe_flush(struct tls_pipe *pipe)
{
    struct strbuf *leaving = &pipe->pool->leaving;
    ssize_t sent = 0;
    bool kept = true;
    take_pool(pipe);
    if (leaving->overflow) {
        kept = false;
    } else if (byte_queue_len(&pipe->unsent)) {
        kept = byte_queue_add(&pipe->unsent, leaving->at, leaving->len);
        sent = hand_over(pipe->fd, byte_queue_front(&pipe->unsent), byte_queue_len(&pipe->unsent));
        if (sent > 0) byte_queue_drop(&pipe->unsent, (size_t)sent);
    } else if (leaving->len) {
        sent = hand_over(pipe->fd, leaving->at, leaving->len);
        if (sent >= 0) kept = byte_queue_add(&pipe->unsent, leaving->at + sent, leaving->len - (size_t)sent);
    }
    strbuf_clear(leaving);
    if (sent < 0 || !kept) return TLS_PIPE_FAILED;
    return byte_queue_len(&pipe->unsent) ? TLS_PIPE_AGAIN : TLS_PIPE_OK;
}

void tls_pipe_wake_at(struct tls_pipe *pipe, int bytes)
{
    (void)setsockopt(pipe->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes)); // without it there is only more to do
}

bool tls_pipe_in_record(const struct tls_pipe *pipe)
{
    return SSL_has_pending(pipe->ssl) || strcmp(SSL_rstate_string(pipe->ssl), "RH") != 0; // read header
}

bool tls_pipe_look(const struct tls_pipe *pipe, uint64_t *out_silent_ms, uint64_t *out_unread)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (getsockopt(pipe->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
        len < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received))
        return false;
    *out_silent_ms = info.tcpi_last_data_recv;
    *out_unread = info.tcpi_bytes_received > pipe->taken_bytes ? info.tcpi_bytes_received - pipe->taken_bytes : 0;
    return true;
}
