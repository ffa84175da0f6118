#include "storage/redis/redis_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop/byte_queue.h"
#include "base/mem.h"
#include "base/tls/tls_connection.h"
#include "base/tls/tls_files.h"

enum { BUFFER_BYTES = 16 * 1024, LEAVING_BYTES_MAX = 4 * BUFFER_BYTES };

struct redis_tls {
    struct tls_connection connection;
    BIO_METHOD *method;
    int tls_fd, plain_fd; // the TCP connection; this end of the pair
    uv_poll_t tls_poll, plain_poll;
    struct byte_queue leaving;   // records for tls_fd; more is read from plain_fd when it is empty
    uint8_t plain[BUFFER_BYTES]; // for plain_fd; more is read from tls_fd when it is empty
    size_t plain_at, plain_len;  // what is left: plain[plain_at..plain_len)
    bool is_ended;               // no more is carried
    bool has_failed;
    struct error failure;
    unsigned open_polls;
};

// ---- the context ---------------------------------------------------------------------------------------------------

SSL_CTX *redis_tls_context(const char *ca_file, const char *certificate_file, const char *key_file, struct error *err)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    enum error_code code = ERROR_NONE;
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
        code = tls_files_fail(err, "Redis:", "TLS");
    } else {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
        bool has_ca = ca_file && *ca_file;
        bool trusts = has_ca ? SSL_CTX_load_verify_locations(context, ca_file, NULL) == 1
                             : SSL_CTX_set_default_verify_paths(context) == 1;
        if (!trusts) code = tls_files_fail(err, "Redis: CA file", has_ca ? ca_file : "of the system");
        if (code == ERROR_NONE && certificate_file && *certificate_file)
            code = tls_files_load(context, certificate_file, key_file, err);
    }
    if (code == ERROR_NONE) return context;
    SSL_CTX_free(context);
    return NULL;
}

// ---- carrying ------------------------------------------------------------------------------------------------------

static void fail(struct redis_tls *tls, const char *reason)
{
    error_set(&tls->failure, ERROR_UNAVAILABLE, "Redis: TLS: %s", reason);
    tls->has_failed = true;
    tls->is_ended = true;
}

static void fail_connection(struct redis_tls *tls)
{
    long verified = SSL_get_verify_result(tls->connection.ssl);
    fail(tls, verified != X509_V_OK ? X509_verify_cert_error_string(verified) : tls_connection_error(&tls->connection));
}

static bool is_open(const struct redis_tls *tls)
{
    return tls->connection.state == TLS_CONNECTION_OPEN;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EINTR || errno == ENOTCONN; // ENOTCONN: still connecting
}

// Sends what waits for either side; true: something moved.
static bool flush_leaving(struct redis_tls *tls)
{
    size_t len = byte_queue_len(&tls->leaving);
    if (len == 0) return false;
    ssize_t n = send(tls->tls_fd, byte_queue_front(&tls->leaving), len, MSG_NOSIGNAL);
    if (n < 0 && !would_block() && !tls->is_ended) fail(tls, strerror(errno));
    if (n <= 0) return false;
    byte_queue_drop(&tls->leaving, (size_t)n);
    return true;
}

static bool flush_plain(struct redis_tls *tls)
{
    if (tls->plain_at == tls->plain_len) return false;
    ssize_t n = send(tls->plain_fd, tls->plain + tls->plain_at, tls->plain_len - tls->plain_at, MSG_NOSIGNAL);
    if (n < 0 && !would_block()) tls->is_ended = true;
    if (n <= 0) return false;
    tls->plain_at += (size_t)n;
    return true;
}

// Goes on with the handshake, or decrypts into `plain`, which is empty. OpenSSL takes all it can
// use of what arrived; the rest is held.
static void advance(struct redis_tls *tls)
{
    enum tls_result result;
    if (tls->connection.state == TLS_CONNECTION_HANDSHAKE) {
        result = tls_connection_handshake(&tls->connection);
    } else {
        tls->plain_at = 0;
        result = tls_connection_read(&tls->connection, tls->plain, BUFFER_BYTES, &tls->plain_len);
    }
    if (result == TLS_END) tls->is_ended = true;
    if (result == TLS_FAILED || !tls_connection_hold(&tls->connection)) fail_connection(tls);
}

// From Redis; true: something moved.
static bool take_in(struct redis_tls *tls)
{
    uint8_t bytes[BUFFER_BYTES];
    if (tls->is_ended || tls->plain_at < tls->plain_len) return false;
    if (!tls_connection_has_input(&tls->connection)) {
        ssize_t n = recv(tls->tls_fd, bytes, sizeof bytes, 0);
        if (n < 0 && !would_block()) fail(tls, strerror(errno));
        if (n < 0) return false;
        if (n > 0)
            tls_connection_feed(&tls->connection, bytes, (size_t)n);
        else
            tls->connection.input_ended = true;
    }
    advance(tls);
    return !tls->is_ended;
}

// To Redis; true: something moved.
static bool take_out(struct redis_tls *tls)
{
    uint8_t bytes[BUFFER_BYTES];
    if (!is_open(tls) || tls->is_ended || byte_queue_len(&tls->leaving) > 0) return false;
    ssize_t n = recv(tls->plain_fd, bytes, sizeof bytes, 0);
    if (n == 0 || (n < 0 && !would_block())) tls->is_ended = true;
    if (n <= 0) return false;
    if (!tls_connection_write(&tls->connection, bytes, (size_t)n)) fail_connection(tls);
    OPENSSL_cleanse(bytes, (size_t)n); // passwords pass through
    return !tls->is_ended;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch_poll(uv_poll_t *poll, int events)
{
    if (events)
        uv_poll_start(poll, events, on_poll);
    else
        uv_poll_stop(poll);
}

static void watch(struct redis_tls *tls)
{
    bool in_waits = tls->plain_at<tls->plain_len, out_waits = byte_queue_len(&tls->leaving)> 0;
    watch_poll(&tls->tls_poll, (in_waits ? 0 : UV_READABLE) | (out_waits ? UV_WRITABLE : 0));
    watch_poll(&tls->plain_poll, (is_open(tls) && !out_waits ? UV_READABLE : 0) | (in_waits ? UV_WRITABLE : 0));
}

// All that can be done now.
static void carry(struct redis_tls *tls)
{
    bool moves = true;
    while (moves && !tls->is_ended) {
        moves = flush_plain(tls);
        moves |= take_in(tls);
        moves |= take_out(tls);
        moves |= flush_leaving(tls);
    }
    if (!tls->is_ended) {
        watch(tls);
        return;
    }
    // hiredis reads what was given to it, then the end.
    (void)flush_plain(tls);
    uv_poll_stop(&tls->tls_poll);
    uv_poll_stop(&tls->plain_poll);
    tls_connection_end(&tls->connection);
    (void)flush_leaving(tls);
    shutdown(tls->plain_fd, SHUT_RDWR);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status; // what is wrong is found out by reading
    (void)events;
    carry(poll->data);
}

// ---- life ----------------------------------------------------------------------------------------------------------

static void destroy(struct redis_tls *tls)
{
    close(tls->tls_fd);
    close(tls->plain_fd);
    tls_connection_finish(&tls->connection);
    byte_queue_finish(&tls->leaving);
    BIO_meth_free(tls->method);
    OPENSSL_cleanse(tls->plain, sizeof tls->plain);
    mem_free(tls);
}

static void on_poll_closed(uv_handle_t *poll)
{
    struct redis_tls *tls = poll->data;
    if (--tls->open_polls == 0) destroy(tls);
}

// Nothing is left open on an error but fd, as it was.
static bool make_pair(int fd, int *out_tls, int *out_plain)
{
    int pair[2];
    *out_tls = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*out_tls < 0) return false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0) {
        bool replaced = dup3(pair[0], fd, O_CLOEXEC) == fd;
        close(pair[0]);
        *out_plain = pair[1];
        if (replaced) return true;
        close(pair[1]);
    }
    close(*out_tls);
    return false;
}

struct redis_tls *redis_tls_create(uv_loop_t *uv, SSL_CTX *context, const char *host, int fd, struct error *err)
{
    struct redis_tls *tls = mem_zalloc(sizeof *tls);
    if (!make_pair(fd, &tls->tls_fd, &tls->plain_fd)) {
        error_set(err, ERROR_UNAVAILABLE, "Redis: cannot create a descriptor for TLS: %s", strerror(errno));
        mem_free(tls);
        return NULL;
    }
    byte_queue_init(&tls->leaving, LEAVING_BYTES_MAX);
    tls->method = tls_connection_method_create();
    tls_connection_connect(&tls->connection, tls->method, context, &tls->leaving);
    if (!tls_connection_expect_host(&tls->connection, host, 0) ||
        tls_connection_handshake(&tls->connection) != TLS_AGAIN || // ClientHello
        uv_poll_init(uv, &tls->tls_poll, tls->tls_fd) != 0) {
        error_set(err, ERROR_UNAVAILABLE, "Redis: TLS cannot be set up for %s", host);
        ERR_clear_error();
        destroy(tls);
        return NULL;
    }
    uv_poll_init(uv, &tls->plain_poll, tls->plain_fd);
    tls->tls_poll.data = tls->plain_poll.data = tls;
    tls->open_polls = 2;
    uv_poll_start(&tls->tls_poll, UV_WRITABLE, on_poll); // once it is connected
    return tls;
}

const struct error *redis_tls_failure(const struct redis_tls *tls)
{
    return tls && tls->has_failed ? &tls->failure : NULL;
}

void redis_tls_close(struct redis_tls *tls)
{
    if (!tls) return;
    if (!tls->is_ended) {
        tls->is_ended = true;
        tls_connection_end(&tls->connection);
        (void)flush_leaving(tls);
    }
    uv_close((uv_handle_t *)&tls->tls_poll, on_poll_closed);
    uv_close((uv_handle_t *)&tls->plain_poll, on_poll_closed);
}
