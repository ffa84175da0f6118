#include "agent/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

struct agent_tls {
    SSL_CTX *ctx;
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

struct agent_tls *agent_tls_create(const char *ca_file, struct error *err)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx) {
        library_error(err, "TLS");
        return NULL;
    }
    if (load_trust(ctx, ca_file, err)) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF); // WebSocket frames show a truncation
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn) - 1);
    struct agent_tls *tls = mem_zalloc(sizeof(*tls));
    tls->ctx = ctx;
    return tls;
}

void agent_tls_destroy(struct agent_tls *tls)
{
    if (!tls) return;
    SSL_CTX_free(tls->ctx);
    mem_free(tls);
}

// ---- BIO over a tls_pipe -----------------------------------------------------------------------------------------

static int pipe_write(BIO *bio, const char *at, int len)
{
    struct tls_pipe *pipe = BIO_get_data(bio);
    if (len > 0) byte_queue_add(&pipe->out, at, (size_t)len);
    return len;
}

// A short read has emptied the socket: no second call only to hear EAGAIN.
static int pipe_fill(struct tls_pipe *pipe)
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
    struct tls_pipe *pipe = BIO_get_data(bio);
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
    const struct tls_pipe *pipe = BIO_get_data(bio);
    (void)number;
    (void)pointer;
    if (command == BIO_CTRL_EOF) return pipe->eof;
    return command == BIO_CTRL_FLUSH;
}

static BIO *pipe_bio(struct tls_pipe *pipe)
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

void tls_pipe_finish(struct tls_pipe *pipe)
{
    byte_queue_finish(&pipe->out);
    mem_free(pipe->in);
    pipe->in = NULL;
}

void agent_tls_connection_free(SSL *ssl)
{
    if (!ssl) return;
    BIO *bio = SSL_get_wbio(ssl);
    BIO_METHOD *method = bio ? BIO_get_app_data(bio) : NULL;
    SSL_free(ssl);
    BIO_meth_free(method);
}

static bool set_peer(SSL *ssl, const char *name)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) && SSL_set_tlsext_host_name(ssl, name);
}

enum error_code agent_tls_connection(struct agent_tls *tls, struct str host, struct tls_pipe *pipe, SSL **out,
                                     struct error *err)
{
    char name[256];
    if (!host.len || host.len >= sizeof(name))
        return error_set(err, ERROR_INVALID, "TLS host name of %zu bytes", host.len);
    snprintf(name, sizeof(name), "%.*s", STR_ARG(host));
    ERR_clear_error();
    SSL *ssl = SSL_new(tls->ctx);
    BIO *bio = ssl ? pipe_bio(pipe) : NULL;
    if (bio) SSL_set_bio(ssl, bio, bio);
    if (!bio || !set_peer(ssl, name)) {
        agent_tls_connection_free(ssl);
        return library_error(err, "TLS connection");
    }
    SSL_set_connect_state(ssl);
    *out = ssl;
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
