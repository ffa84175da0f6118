#include "base/tls/tls_files.h"

#include <openssl/err.h>
#include <stdint.h>
#include <string.h>

enum error_code tls_files_fail(struct error *err, const char *what, const char *file)
{
    unsigned long code = ERR_get_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return error_set(err, ERROR_INVALID, "%s %s: %s", what, file, reason ? reason : "refused by OpenSSL");
}

static int refuse_passphrase(char *buffer, int size, int writing, void *arg)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

enum error_code tls_files_load(SSL_CTX *tls, const char *certificate_file, const char *key_file, struct error *err)
{
    SSL_CTX_set_default_passwd_cb(tls, refuse_passphrase);
    if (SSL_CTX_use_certificate_chain_file(tls, certificate_file) != 1)
        return tls_files_fail(err, "certificate", certificate_file);
    if (SSL_CTX_use_PrivateKey_file(tls, key_file, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(tls) != 1)
        return tls_files_fail(err, "private key", key_file);
    return ERROR_NONE;
}

static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *arg)
{
    const char *protocols = arg;
    unsigned char *chosen = NULL;
    (void)ssl;
    if (SSL_select_next_proto(&chosen, out_len, (const unsigned char *)protocols, (unsigned)strlen(protocols), in,
                              in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

void tls_files_offer(SSL_CTX *tls, const char *protocols)
{
    SSL_CTX_set_alpn_select_cb(tls, select_protocol, (void *)(uintptr_t)protocols);
}
