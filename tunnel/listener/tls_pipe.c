#include "tunnel/listener/tls_pipe.h"

#include <assert.h>
#include <errno.h>
#include <linux/tcp.h> // the C library's struct tcp_info ends before what is looked at here
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    LEAVING_BYTES_MAX = 1024 * 1024, // a turn's records; far above what one message makes
    UNSENT_BYTES_MAX = 1024 * 1024,  // answers that OpenSSL makes by itself to a peer that never reads end here
};

void tls_pool_init(struct tls_pool *pool)
{
    pool->method = tls_connection_method_create();
    pool->arriving = mem_alloc(TLS_PIPE_READ_BYTES);
    byte_queue_init(&pool->leaving, LEAVING_BYTES_MAX);
}

void tls_pool_finish(struct tls_pool *pool)
{
    BIO_meth_free(pool->method);
    mem_free(pool->arriving);
    byte_queue_finish(&pool->leaving);
    *pool = (struct tls_pool){0};
}

void tls_pipe_init(struct tls_pipe *pipe, struct tls_pool *pool, int fd, SSL_CTX *tls)
{
    *pipe = (struct tls_pipe){.pool = pool, .fd = fd};
    byte_queue_init(&pipe->unsent, UNSENT_BYTES_MAX);
    tls_connection_accept(&pipe->tls, pool->method, tls, &pool->leaving);
}

void tls_pipe_finish(struct tls_pipe *pipe)
{
    if (pipe->fd < 0) return;
    if (pipe->pool->user == pipe) pipe->pool->user = NULL;
    tls_connection_finish(&pipe->tls);
    byte_queue_finish(&pipe->unsent);
    close(pipe->fd);
    *pipe = (struct tls_pipe){.fd = -1};
}

// Records of one connection must never leave on another: the previous user of the pool has flushed.
static void take_pool(struct tls_pipe *pipe)
{
    assert(pipe->pool->user == pipe || byte_queue_len(&pipe->pool->leaving) == 0);
    pipe->pool->user = pipe;
}

enum tls_result tls_pipe_fill(struct tls_pipe *pipe, const uint8_t **out_at, size_t *out_len)
{
    ssize_t len;
    do
        len = read(pipe->fd, pipe->pool->arriving, TLS_PIPE_READ_BYTES);
    while (len < 0 && errno == EINTR);
    if (len < 0) return errno == EAGAIN ? TLS_AGAIN : TLS_FAILED;
    if (len == 0) return TLS_END;
    pipe->taken_bytes += (uint64_t)len;
    tls_connection_feed(&pipe->tls, pipe->pool->arriving, (size_t)len);
    *out_at = pipe->pool->arriving;
    *out_len = (size_t)len;
    return TLS_OK;
}

void tls_pipe_forget(struct tls_pipe *pipe)
{
    pipe->tls.arriving = STR_EMPTY;
}

enum tls_result tls_pipe_handshake(struct tls_pipe *pipe, struct error *err)
{
    take_pool(pipe);
    enum tls_result result = tls_connection_handshake(&pipe->tls);
    if (result == TLS_FAILED) (void)error_set(err, ERROR_PROTOCOL, "TLS: %s", tls_connection_error(&pipe->tls));
    return result;
}

enum tls_result tls_pipe_read(struct tls_pipe *pipe, uint8_t *out, size_t cap, size_t *out_len)
{
    take_pool(pipe);
    return tls_connection_read(&pipe->tls, out, cap, out_len);
}

bool tls_pipe_write(struct tls_pipe *pipe, const void *at, size_t len)
{
    take_pool(pipe);
    return tls_connection_write(&pipe->tls, at, len);
}

void tls_pipe_write_end(struct tls_pipe *pipe)
{
    take_pool(pipe);
    tls_connection_end(&pipe->tls);
}

void tls_pipe_write_plain(struct tls_pipe *pipe, const void *at, size_t len)
{
    take_pool(pipe);
    (void)byte_queue_add(&pipe->pool->leaving, at, len); // an answer that does not fit is not sent
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

enum tls_result tls_pipe_flush(struct tls_pipe *pipe)
{
    struct byte_queue *leaving = &pipe->pool->leaving, *unsent = &pipe->unsent;
    const uint8_t *at = byte_queue_front(leaving);
    size_t len = byte_queue_len(leaving);
    ssize_t sent = 0;
    bool kept = true;
    take_pool(pipe);
    if (byte_queue_len(unsent)) {
        kept = byte_queue_add(unsent, at, len);
        sent = hand_over(pipe->fd, byte_queue_front(unsent), byte_queue_len(unsent));
        if (sent > 0) byte_queue_drop(unsent, (size_t)sent);
    } else if (len) {
        sent = hand_over(pipe->fd, at, len);
        if (sent >= 0) kept = byte_queue_add(unsent, at + sent, len - (size_t)sent);
    }
    byte_queue_clear(leaving);
    if (sent < 0 || !kept) return TLS_FAILED;
    return byte_queue_len(unsent) ? TLS_AGAIN : TLS_OK;
}

void tls_pipe_wake_at(struct tls_pipe *pipe, int bytes)
{
    (void)setsockopt(pipe->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes)); // without it there is only more to do
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
