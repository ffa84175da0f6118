#include "agent/tunnel/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/tunnel/tls_pin.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

struct agent_tls {
    SSL_CTX *ctx;
    struct tls_pins pins;
    bool resumes;
    SSL_SESSION *session; // to resume with session_host, or NULL
    char session_host[256];
    unsigned refs; // its owner and its connections
    struct metric_family *handshakes;
};

static enum error_code library_error(struct error *err, const char *what)
{
    char text[160] = "no reason given";
    unsigned long code = ERR_get_error();
    if (code) ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    return error_set(err, ERROR_INVALID, "%s: %s", what, text);
}

static enum error_code load_trust(SSL_CTX *ctx, const char *ca_file, struct error *err)
{
    if (ca_file[0] ? SSL_CTX_load_verify_file(ctx, ca_file) : SSL_CTX_set_default_verify_paths(ctx)) return ERROR_NONE;
    return library_error(err, ca_file[0] ? ca_file : "system CA certificates");
}

// ---- sessions ----------------------------------------------------------------------------------------------------

static void set_session(struct agent_tls *tls, SSL_SESSION *session, const char *host)
{
    SSL_SESSION_free(tls->session);
    tls->session = session;
    snprintf(tls->session_host, sizeof(tls->session_host), "%s", host);
}

static const char *host_of(const SSL *ssl)
{
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    return name ? name : "";
}

static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct agent_tls *tls = SSL_get_app_data(ssl);
    if (!tls->resumes || !host_of(ssl)[0]) return 0;
    set_session(tls, session, host_of(ssl));
    return 1; // ours now
}

// A ticket of TLS 1.3 serves once (RFC 8446 appendix C.4); the connection brings the next.
static void use_session(struct agent_tls *tls, SSL *ssl, const char *host)
{
    if (!tls->session || strcmp(tls->session_host, host) != 0) return;
    SSL_set_session(ssl, tls->session);
    if (SSL_SESSION_get_protocol_version(tls->session) >= TLS1_3_VERSION) set_session(tls, NULL, "");
}

// A session that was not tried (no listener) is still good.
static void give_session_back(struct agent_tls *tls, SSL *ssl)
{
    if (!tls->session && tls->resumes && SSL_in_before(ssl)) set_session(tls, SSL_get1_session(ssl), host_of(ssl));
}

// ---- context -----------------------------------------------------------------------------------------------------

static void unref(struct agent_tls *tls)
{
    if (--tls->refs) return;
    SSL_SESSION_free(tls->session);
    SSL_CTX_free(tls->ctx);
    mem_free(tls);
}

static enum error_code configure(struct agent_tls *tls, const struct agent_tls_options *options, struct error *err)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    ERR_clear_error();
    if (tls_pins_parse(str_c(options->pins), &tls->pins, err)) return error_prefix(err, "platform.pin");
    tls->ctx = SSL_CTX_new(TLS_client_method());
    if (!tls->ctx) return library_error(err, "TLS");
    enum error_code code = load_trust(tls->ctx, options->ca_file, err);
    if (code) return code;
    SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION);
    SSL_CTX_set_security_level(tls->ctx, 2); // no RSA below 2048 bits, no SHA-1
    SSL_CTX_set_options(tls->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                      SSL_OP_IGNORE_UNEXPECTED_EOF); // WebSocket frames show a truncation
    SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(tls->ctx, alpn, sizeof(alpn) - 1);
    SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(tls->ctx, on_new_session);
    return ERROR_NONE;
}

struct agent_tls *agent_tls_create(const struct agent_tls_options *options, struct error *err)
{
    struct agent_tls *tls = mem_zalloc(sizeof(*tls));
    tls->refs = 1;
    tls->resumes = options->resumes;
    tls->handshakes =
        metrics_counter("culvert_agent_tls_handshakes_total", "Completed TLS handshakes.", "resumed", NULL);
    if (configure(tls, options, err) == ERROR_NONE) return tls;
    unref(tls);
    return NULL;
}

void agent_tls_destroy(struct agent_tls *tls)
{
    if (tls) unref(tls);
}

// ---- BIO over a agent_tls_pipe
// -----------------------------------------------------------------------------------------

static int pipe_write(BIO *bio, const char *at, int len)
{
    struct agent_tls_pipe *pipe = BIO_get_data(bio);
    if (len > 0) byte_queue_add(&pipe->out, at, (size_t)len);
    return len;
}

// A short read has emptied the socket: no second call only to get EAGAIN.
static int pipe_fill(struct agent_tls_pipe *pipe)
{
    if (!pipe->reads_left || pipe->eof) return pipe->eof ? 0 : -1;
    pipe->reads_left--;
    if (!pipe->in) pipe->in = mem_alloc(TLS_PIPE_READ_BYTES);
    ssize_t n = recv(pipe->fd, pipe->in, TLS_PIPE_READ_BYTES, 0);
    if (n < TLS_PIPE_READ_BYTES) pipe->reads_left = 0;
    pipe->eof = n == 0;
    pipe->in_at = 0;
    pipe->in_len = n > 0 ? (size_t)n : 0;
    return (int)n;
}

static int pipe_read(BIO *bio, char *out, int len)
{
    struct agent_tls_pipe *pipe = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (len <= 0) return 0;
    if (pipe->in_at == pipe->in_len) {
        errno = EAGAIN;
        int n = pipe_fill(pipe);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
        if (n <= 0) return n;
    }
    size_t n = pipe->in_len - pipe->in_at;
    if (n > (size_t)len) n = (size_t)len;
    memcpy(out, pipe->in + pipe->in_at, n);
    pipe->in_at += n;
    return (int)n;
}

static long pipe_ctrl(BIO *bio, int command, long number, void *pointer)
{
    const struct agent_tls_pipe *pipe = BIO_get_data(bio);
    (void)number;
    (void)pointer;
    if (command == BIO_CTRL_EOF) return pipe->eof;
    return command == BIO_CTRL_FLUSH;
}

static BIO *pipe_bio(struct agent_tls_pipe *pipe)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tls pipe");
    if (!method) return NULL;
    BIO_meth_set_write(method, pipe_write);
    BIO_meth_set_read(method, pipe_read);
    BIO_meth_set_ctrl(method, pipe_ctrl);
    BIO *bio = BIO_new(method);
    if (!bio) {
        BIO_meth_free(method);
        return NULL;
    }
    BIO_set_data(bio, pipe);
    BIO_set_app_data(bio, method);
    BIO_set_init(bio, 1);
    return bio;
}

void agent_tls_pipe_finish(struct agent_tls_pipe *pipe)
{
    byte_queue_finish(&pipe->out);
    mem_free(pipe->in);
    pipe->in = NULL;
}

void agent_tls_connection_free(SSL *ssl)
{
    if (!ssl) return;
    struct agent_tls *tls = SSL_get_app_data(ssl);
    BIO *bio = SSL_get_wbio(ssl);
    BIO_METHOD *method = bio ? BIO_get_app_data(bio) : NULL;
    give_session_back(tls, ssl);
    // OpenSSL holds a session for broken whose connection ended without close_notify; RFC 5246
    // section 7.2.1 does not, and connections that broke are the ones that resume.
    if (SSL_is_init_finished(ssl)) SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(ssl);
    BIO_meth_free(method);
    unref(tls);
}

static bool set_peer(SSL *ssl, const char *name)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT); // RFC 9525
    return SSL_set1_host(ssl, name) && SSL_set_tlsext_host_name(ssl, name);
}

enum error_code agent_tls_connection(struct agent_tls *tls, struct str host, struct agent_tls_pipe *pipe, SSL **out,
                                     struct error *err)
{
    char name[256];
    if (!host.len || host.len >= sizeof(name))
        return error_set(err, ERROR_INVALID, "TLS host name of %zu bytes", host.len);
    snprintf(name, sizeof(name), "%.*s", STR_ARG(host));
    ERR_clear_error();
    SSL *ssl = SSL_new(tls->ctx);
    if (!ssl) return library_error(err, "TLS connection");
    SSL_set_app_data(ssl, tls);
    tls->refs++;
    BIO *bio = pipe_bio(pipe);
    if (bio) SSL_set_bio(ssl, bio, bio);
    if (!bio || !set_peer(ssl, name)) {
        agent_tls_connection_free(ssl);
        return library_error(err, "TLS connection");
    }
    SSL_set_connect_state(ssl);
    use_session(tls, ssl, name);
    *out = ssl;
    return ERROR_NONE;
}

static bool chain_has_pin(SSL *ssl, const struct tls_pins *pins)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    bool found = false;
    for (int i = 0; chain && i < sk_X509_num(chain) && !found; i++) {
        unsigned char *der = NULL;
        int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(sk_X509_value(chain, i)), &der);
        found = len > 0 && tls_pins_have(pins, der, (size_t)len);
        OPENSSL_free(der);
    }
    return found;
}

// A resumed session has no chain: it is one of ours, so these very pins were met when it began.
enum error_code agent_tls_established(SSL *ssl, struct error *err)
{
    struct agent_tls *tls = SSL_get_app_data(ssl);
    bool resumed = SSL_session_reused(ssl);
    if (tls->pins.count && !resumed && !chain_has_pin(ssl, &tls->pins)) {
        set_session(tls, NULL, "");
        return error_set(err, ERROR_IO, "the platform's certificate has none of the pinned keys (platform.pin)");
    }
    metric_add(metric_with(tls->handshakes, resumed ? "yes" : "no"), 1);
    return ERROR_NONE;
}

enum error_code agent_tls_error(SSL *ssl, int ssl_error, struct error *err)
{
    long verdict = SSL_get_verify_result(ssl);
    unsigned long code = ERR_peek_error();
    if (verdict != X509_V_OK && !SSL_is_init_finished(ssl)) {
        ERR_clear_error();
        return error_set(err, ERROR_IO, "the platform's certificate is not trusted: %s",
                         X509_verify_cert_error_string(verdict));
    }
    if (ssl_error == SSL_ERROR_ZERO_RETURN || !code)
        return error_set(err, ERROR_IO, "the connection was closed by the other end");
    char text[160];
    ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    return error_set(err, ERROR_IO, "TLS: %s", text);
}
