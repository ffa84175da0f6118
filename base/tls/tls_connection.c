#include "base/tls/tls_connection.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_BYTES_MAX = 128 * 1024, WRITE_BYTES_MAX = 1 << 30 };

static void set_state(struct tls_connection *connection, enum tls_connection_state state)
{
    // clang-format off
    static const unsigned allowed[] = {
        [TLS_CONNECTION_HANDSHAKE] = 1u << TLS_CONNECTION_OPEN | 1u << TLS_CONNECTION_BROKEN,
        [TLS_CONNECTION_OPEN] = 1u << TLS_CONNECTION_ENDED | 1u << TLS_CONNECTION_BROKEN,
        [TLS_CONNECTION_ENDED] = 1u << TLS_CONNECTION_BROKEN,
        [TLS_CONNECTION_BROKEN] = 0,
    };
    // clang-format on
    assert(allowed[connection->state] & 1u << state);
    connection->state = state;
}

// ---- the BIO: in place of a socket. Those of OpenSSL would copy everything once more ----

static int bio_write(BIO *bio, const char *at, int len)
{
    struct tls_connection *connection = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (len > 0 && !byte_queue_add(connection->leaving, at, (size_t)len)) return -1;
    return len;
}

static int bio_read(BIO *bio, char *out, int cap)
{
    struct tls_connection *connection = BIO_get_data(bio);
    size_t held = byte_queue_len(&connection->held), len = held ? held : connection->arriving.len;
    size_t take = len < (size_t)cap ? len : (size_t)cap;
    BIO_clear_retry_flags(bio);
    if (take == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(out, held ? (const char *)byte_queue_front(&connection->held) : connection->arriving.at, take);
    if (held)
        byte_queue_drop(&connection->held, take);
    else
        connection->arriving = str_from(connection->arriving, take);
    return (int)take;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_connection_method_create(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tls_connection");
    if (!method || !BIO_meth_set_write(method, bio_write) || !BIO_meth_set_read(method, bio_read) ||
        !BIO_meth_set_ctrl(method, bio_control) || !BIO_meth_set_create(method, bio_create))
        abort(); // out of memory
    return method;
}

// ---- life ----------------------------------------------------------------------------------

static void init(struct tls_connection *connection, const BIO_METHOD *method, SSL *ssl, struct byte_queue *leaving)
{
    BIO *bio = BIO_new(method);
    if (!bio || !ssl) abort(); // out of memory
    *connection = (struct tls_connection){.ssl = ssl, .leaving = leaving, .held.bytes_max = HELD_BYTES_MAX};
    BIO_set_data(bio, connection);
    SSL_set_bio(ssl, bio, bio);
}

void tls_connection_accept(struct tls_connection *connection, const BIO_METHOD *method, SSL_CTX *ctx,
                           struct byte_queue *leaving)
{
    init(connection, method, SSL_new(ctx), leaving);
    SSL_set_accept_state(connection->ssl);
}

void tls_connection_connect(struct tls_connection *connection, const BIO_METHOD *method, SSL_CTX *ctx,
                            struct byte_queue *leaving)
{
    init(connection, method, SSL_new(ctx), leaving);
    SSL_set_connect_state(connection->ssl);
}

bool tls_connection_expect_host(struct tls_connection *connection, const char *host, unsigned check_flags)
{
    SSL *ssl = connection->ssl;
    unsigned char address[16];
    assert(connection->state == TLS_CONNECTION_HANDSHAKE);
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | check_flags);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

void tls_connection_resume(struct tls_connection *connection, const BIO_METHOD *method, SSL *ssl,
                           struct byte_queue *leaving)
{
    assert(SSL_is_init_finished(ssl));
    init(connection, method, ssl, leaving);
    set_state(connection, TLS_CONNECTION_OPEN);
}

SSL *tls_connection_release(struct tls_connection *connection)
{
    SSL *ssl = connection->ssl;
    assert(tls_connection_rests(connection));
    SSL_set_bio(ssl, NULL, NULL);
    connection->ssl = NULL;
    return ssl;
}

void tls_connection_finish(struct tls_connection *connection)
{
    SSL_free(connection->ssl);
    byte_queue_finish(&connection->held);
    connection->ssl = NULL;
    connection->arriving = STR_EMPTY;
}

// ---- bytes ----------------------------------------------------------------------------------

// SSL_get_error() looks at the thread's queue of errors: what is left there would be taken for this
// connection's. Looking costs less than clearing.
static void clear_errors(void)
{
    if (ERR_peek_error() != 0) ERR_clear_error();
}

static enum tls_result fail(struct tls_connection *connection, unsigned long failure)
{
    connection->failure = failure;
    set_state(connection, TLS_CONNECTION_BROKEN);
    clear_errors();
    return TLS_FAILED;
}

// The input has ended without close_notify (RFC 8446 section 6.1).
static enum tls_result end_unnotified(struct tls_connection *connection)
{
    if (connection->end_is_notified)
        return fail(connection, ERR_PACK(ERR_LIB_SSL, 0, SSL_R_UNEXPECTED_EOF_WHILE_READING));
    set_state(connection, TLS_CONNECTION_ENDED);
    return TLS_END;
}

void tls_connection_feed(struct tls_connection *connection, const void *at, size_t len)
{
    assert(connection->arriving.len == 0);
    assert(!connection->input_ended);
    connection->arriving = str_of(at, len);
}

bool tls_connection_hold(struct tls_connection *connection)
{
    bool fits = byte_queue_add(&connection->held, connection->arriving.at, connection->arriving.len);
    connection->arriving = STR_EMPTY;
    return fits;
}

enum tls_result tls_connection_handshake(struct tls_connection *connection)
{
    assert(connection->ssl);
    assert(connection->state == TLS_CONNECTION_HANDSHAKE);
    clear_errors();
    int code = SSL_do_handshake(connection->ssl);
    if (code == 1) {
        set_state(connection, TLS_CONNECTION_OPEN);
        return TLS_OK;
    }
    bool waits = SSL_get_error(connection->ssl, code) == SSL_ERROR_WANT_READ;
    if (waits && !connection->input_ended) return TLS_AGAIN;
    return fail(connection, waits ? 0 : ERR_get_error());
}

// After an SSL_read() that gave nothing.
static enum tls_result stopped(struct tls_connection *connection, int code)
{
    switch (SSL_get_error(connection->ssl, code)) {
    case SSL_ERROR_WANT_READ: return connection->input_ended ? end_unnotified(connection) : TLS_AGAIN;
    case SSL_ERROR_ZERO_RETURN: set_state(connection, TLS_CONNECTION_ENDED); return TLS_END;
    default: return fail(connection, ERR_get_error());
    }
}

enum tls_result tls_connection_read(struct tls_connection *connection, void *out, size_t cap, size_t *out_len)
{
    size_t used = 0;
    enum tls_result result = TLS_OK;
    assert(connection->state != TLS_CONNECTION_HANDSHAKE);
    if (connection->state == TLS_CONNECTION_ENDED) result = TLS_END;
    if (connection->state == TLS_CONNECTION_BROKEN) result = TLS_FAILED;
    if (result == TLS_OK) clear_errors();
    while (result == TLS_OK && used < cap) {
        int got = SSL_read(connection->ssl, (char *)out + used, (int)(cap - used));
        if (got <= 0) {
            result = stopped(connection, got);
        } else {
            used += (size_t)got;
            if (!tls_connection_has_input(connection) && !SSL_has_pending(connection->ssl)) result = TLS_AGAIN;
        }
    }
    *out_len = used;
    return result;
}

bool tls_connection_write(struct tls_connection *connection, const void *at, size_t len)
{
    assert(connection->state != TLS_CONNECTION_HANDSHAKE);
    assert(len <= WRITE_BYTES_MAX);
    if (connection->state == TLS_CONNECTION_BROKEN) return false;
    if (len == 0) return true;
    clear_errors();
    // The BIO takes everything, so that SSL_write() never has to be repeated.
    if (SSL_write(connection->ssl, at, (int)len) == (int)len) return true;
    (void)fail(connection, ERR_get_error());
    return false;
}

void tls_connection_end(struct tls_connection *connection)
{
    if (connection->state == TLS_CONNECTION_HANDSHAKE || connection->state == TLS_CONNECTION_BROKEN) return;
    clear_errors();
    (void)SSL_shutdown(connection->ssl);
    clear_errors();
}

// ---- state ----------------------------------------------------------------------------------

bool tls_connection_has_input(const struct tls_connection *connection)
{
    return connection->arriving.len > 0 || byte_queue_len(&connection->held) > 0 || connection->input_ended ||
           SSL_pending(connection->ssl) > 0;
}

bool tls_connection_rests(const struct tls_connection *connection)
{
    return connection->state == TLS_CONNECTION_OPEN && !tls_connection_has_input(connection);
}

bool tls_connection_in_record(const struct tls_connection *connection)
{
    // "RH": it would read a header next.
    return SSL_has_pending(connection->ssl) || strcmp(SSL_rstate_string(connection->ssl), "RH") != 0;
}

const char *tls_connection_error(const struct tls_connection *connection)
{
    const char *reason = connection->failure ? ERR_reason_error_string(connection->failure) : NULL;
    return reason ? reason : "closed by the peer";
}
