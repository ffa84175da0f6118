#include "storage/redis/redis_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tls/tls_files.h"

enum { BUFFER_BYTES = 16 * 1024 };

// Bytes on their way in one direction.
struct carried {
    uint8_t bytes[BUFFER_BYTES];
    size_t at, len; // what is left: bytes[at..len)
};

struct redis_tls {
    SSL *ssl;
    int tls_fd, plain_fd; // the connection; our end of the pair
    uv_poll_t tls_poll, plain_poll;
    struct carried in, out; // from Redis, to Redis
    bool is_open;           // the handshake is done
    bool wants_write;       // OpenSSL waits for room in the socket
    bool is_ended;          // no more is carried
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
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
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

// RFC 6125: the name that was dialled, or the address.
static bool expect_host(SSL *ssl, const char *host)
{
    struct in6_addr ignored;
    if (inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

// ---- carrying ------------------------------------------------------------------------------------------------------

static void fail(struct redis_tls *tls)
{
    long verified = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_get_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    if (!tls->is_open && verified != X509_V_OK) reason = X509_verify_cert_error_string(verified);
    ERR_clear_error();
    error_set(&tls->failure, ERROR_UNAVAILABLE, "Redis: TLS: %s", reason ? reason : "the connection ended");
    tls->has_failed = true;
    tls->is_ended = true;
}

// What an OpenSSL call came to; false: it waits for the socket, or has failed.
static bool is_done(struct redis_tls *tls, int result)
{
    if (result > 0) return true;
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ: break;
    case SSL_ERROR_WANT_WRITE: tls->wants_write = true; break;
    case SSL_ERROR_ZERO_RETURN: tls->is_ended = true; break;
    default: fail(tls); break;
    }
    return false;
}

static bool take_in(struct redis_tls *tls)
{
    if (tls->in.at < tls->in.len || tls->is_ended) return false;
    int n = SSL_read(tls->ssl, tls->in.bytes, BUFFER_BYTES);
    if (!is_done(tls, n)) return false;
    tls->in.at = 0;
    tls->in.len = (size_t)n;
    return true;
}

static bool give_in(struct redis_tls *tls)
{
    if (tls->in.at == tls->in.len) return false;
    ssize_t n = send(tls->plain_fd, tls->in.bytes + tls->in.at, tls->in.len - tls->in.at, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) tls->is_ended = true;
    if (n <= 0) return false;
    tls->in.at += (size_t)n;
    return true;
}

static bool take_out(struct redis_tls *tls)
{
    if (tls->out.at < tls->out.len || tls->is_ended) return false;
    ssize_t n = recv(tls->plain_fd, tls->out.bytes, BUFFER_BYTES, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) tls->is_ended = true;
    if (n <= 0) return false;
    tls->out.at = 0;
    tls->out.len = (size_t)n;
    return true;
}

static bool give_out(struct redis_tls *tls)
{
    if (tls->out.at == tls->out.len || tls->is_ended) return false;
    int n = SSL_write(tls->ssl, tls->out.bytes + tls->out.at, (int)(tls->out.len - tls->out.at));
    if (!is_done(tls, n)) return false;
    tls->out.at += (size_t)n;
    return true;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct redis_tls *tls)
{
    bool in_waits = tls->in.at < tls->in.len, out_waits = tls->out.at < tls->out.len;
    int tls_events = (in_waits ? 0 : UV_READABLE) | (tls->wants_write ? UV_WRITABLE : 0);
    int plain_events = (tls->is_open && !out_waits ? UV_READABLE : 0) | (in_waits ? UV_WRITABLE : 0);
    if (tls_events)
        uv_poll_start(&tls->tls_poll, tls_events, on_poll);
    else
        uv_poll_stop(&tls->tls_poll);
    if (plain_events)
        uv_poll_start(&tls->plain_poll, plain_events, on_poll);
    else
        uv_poll_stop(&tls->plain_poll);
}

// All that can be done now.
static void carry(struct redis_tls *tls)
{
    bool moves = true;
    ERR_clear_error();
    tls->wants_write = false;
    if (!tls->is_open) tls->is_open = is_done(tls, SSL_do_handshake(tls->ssl));
    while (tls->is_open && moves) {
        moves = give_in(tls);
        moves |= take_in(tls);
        moves |= give_out(tls);
        moves |= take_out(tls);
    }
    if (!tls->is_ended) {
        watch(tls);
        return;
    }
    // hiredis reads what was given to it, then the end.
    (void)give_in(tls);
    uv_poll_stop(&tls->tls_poll);
    uv_poll_stop(&tls->plain_poll);
    if (tls->is_open && !tls->has_failed) (void)SSL_shutdown(tls->ssl);
    ERR_clear_error();
    shutdown(tls->plain_fd, SHUT_RDWR);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status; // what is wrong is found out by reading
    (void)events;
    carry(poll->data);
}

// ---- life ----------------------------------------------------------------------------------------------------------

static void on_poll_closed(uv_handle_t *poll)
{
    struct redis_tls *tls = poll->data;
    if (--tls->open_polls > 0) return;
    close(tls->tls_fd);
    close(tls->plain_fd);
    SSL_free(tls->ssl);
    OPENSSL_cleanse(&tls->in, sizeof tls->in);
    OPENSSL_cleanse(&tls->out, sizeof tls->out); // passwords pass through
    mem_free(tls);
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
    tls->ssl = SSL_new(context);
    bool made = tls->ssl && SSL_set_fd(tls->ssl, tls->tls_fd) == 1 && expect_host(tls->ssl, host);
    if (made) {
        SSL_set_connect_state(tls->ssl);
        made = uv_poll_init(uv, &tls->tls_poll, tls->tls_fd) == 0;
    }
    if (!made) {
        error_set(err, ERROR_UNAVAILABLE, "Redis: TLS cannot be set up for %s", host);
        ERR_clear_error();
        SSL_free(tls->ssl);
        close(tls->tls_fd);
        close(tls->plain_fd);
        mem_free(tls);
        return NULL;
    }
    uv_poll_init(uv, &tls->plain_poll, tls->plain_fd);
    tls->tls_poll.data = tls->plain_poll.data = tls;
    tls->open_polls = 2;
    // Writable once it is connected: then OpenSSL begins.
    uv_poll_start(&tls->tls_poll, UV_WRITABLE, on_poll);
    return tls;
}

const struct error *redis_tls_failure(const struct redis_tls *tls)
{
    return tls && tls->has_failed ? &tls->failure : NULL;
}

void redis_tls_close(struct redis_tls *tls)
{
    if (!tls) return;
    if (tls->is_open && !tls->is_ended) (void)SSL_shutdown(tls->ssl);
    ERR_clear_error();
    tls->is_ended = true;
    uv_close((uv_handle_t *)&tls->tls_poll, on_poll_closed);
    uv_close((uv_handle_t *)&tls->plain_poll, on_poll_closed);
}
