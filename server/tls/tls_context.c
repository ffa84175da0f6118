#include "server/tls/tls_context.h"

#include <openssl/err.h>
#include <stdint.h>

#include "base/mem.h"

struct tls_context {
    SSL_CTX *ssl;
};

// RFC 7301 section 3.2: a client that offers protocols, but none of ours, is told so in the handshake.
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *arg)
{
    static const unsigned char both[] = "\x02h2\x08http/1.1";
    const bool *http2 = arg;
    const unsigned char *protocols = *http2 ? both : both + 3;
    unsigned len = (unsigned)sizeof both - 1 - (*http2 ? 0 : 3);
    unsigned char *chosen = NULL;
    (void)ssl;
    if (SSL_select_next_proto(&chosen, out_len, protocols, len, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

// A key with a passphrase is an error, not a question on the terminal.
static int refuse_passphrase(char *buffer, int size, int writing, void *arg)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

static enum error_code fail(struct error *err, const char *what, const char *file)
{
    unsigned long code = ERR_get_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return error_set(err, ERROR_INVALID, "%s %s: %s", what, file, reason ? reason : "refused by OpenSSL");
}

static enum error_code configure(SSL_CTX *ssl, const char *certificate_file, const char *key_file, bool http2,
                                 struct error *err)
{
    static const bool choices[] = {false, true}; // outlive every connection
    static const unsigned char session_context[] = "culvert";
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    // Idle connections give their record buffers back.
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ssl, 1);
    SSL_CTX_set_alpn_select_cb(ssl, select_protocol, (void *)(uintptr_t)&choices[http2]);
    SSL_CTX_set_default_passwd_cb(ssl, refuse_passphrase);
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1 ||
        SSL_CTX_set_session_id_context(ssl, session_context, sizeof session_context - 1) != 1)
        return fail(err, "TLS", "settings");
    if (SSL_CTX_use_certificate_chain_file(ssl, certificate_file) != 1)
        return fail(err, "certificate", certificate_file);
    if (SSL_CTX_use_PrivateKey_file(ssl, key_file, SSL_FILETYPE_PEM) != 1) return fail(err, "private key", key_file);
    if (SSL_CTX_check_private_key(ssl) != 1) return fail(err, "private key", key_file);
    return ERROR_NONE;
}

struct tls_context *tls_context_create(const char *certificate_file, const char *key_file, bool http2,
                                       struct error *err)
{
    ERR_clear_error();
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    if (!ssl) {
        (void)fail(err, "TLS", "context");
        return NULL;
    }
    if (configure(ssl, certificate_file, key_file, http2, err) != ERROR_NONE) {
        SSL_CTX_free(ssl);
        return NULL;
    }
    struct tls_context *context = mem_zalloc(sizeof *context);
    context->ssl = ssl;
    return context;
}

void tls_context_destroy(struct tls_context *context)
{
    if (!context) return;
    SSL_CTX_free(context->ssl);
    mem_free(context);
}

SSL_CTX *tls_context_ssl(const struct tls_context *context)
{
    return context->ssl;
}
