#include "server/tls/tls_context.h"

#include <openssl/err.h>

#include "base/mem.h"
#include "base/tls/tls_files.h"

struct tls_context {
    SSL_CTX *ssl;
};

static enum error_code configure(SSL_CTX *ssl, const char *certificate_file, const char *key_file, bool http2,
                                 struct error *err)
{
    static const unsigned char session_context[] = "culvert";
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    // Idle connections give their record buffers back.
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ssl, 1);
    tls_files_offer(ssl, http2 ? "\x02h2\x08http/1.1" : "\x08http/1.1");
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1 ||
        SSL_CTX_set_session_id_context(ssl, session_context, sizeof session_context - 1) != 1)
        return tls_files_fail(err, "TLS", "settings");
    return tls_files_load(ssl, certificate_file, key_file, err);
}

struct tls_context *tls_context_create(const char *certificate_file, const char *key_file, bool http2,
                                       struct error *err)
{
    ERR_clear_error();
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    if (!ssl) {
        (void)tls_files_fail(err, "TLS", "context");
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
