#include "tunnel/listener/ws_tls.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/tls/tls_files.h"

enum { TICKET_KEYS_BYTES = 80 }; // name, HMAC key, AES key: SSL_CTX_set_tlsext_ticket_keys(3)

// Called when the version is known. A ticket of TLS 1.2 holds the session's key itself: with keys
// that outlive the process it would undo forward secrecy. TLS 1.3 always exchanges fresh keys
// besides.
static int refuse_old_tickets(SSL *ssl, void *arg)
{
    (void)arg;
    if (SSL_version(ssl) < TLS1_3_VERSION) SSL_set_options(ssl, SSL_OP_NO_TICKET);
    return 1;
}

static bool configure(SSL_CTX *tls)
{
    static const unsigned char session_context[] = "culvert tunnel";
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS); // idle tunnels hold no record buffers
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(tls, 1);
    tls_files_offer(tls, "\x08http/1.1");
    SSL_CTX_set_cert_cb(tls, refuse_old_tickets, NULL);
    // AES-128 first: a third less work on bulk than AES-256, and its SHA-256 less a handshake.
    return SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(tls, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                         "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
           SSL_CTX_set_cipher_list(tls, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           SSL_CTX_set1_groups_list(tls, "X25519:P-256:P-384") == 1 &&
           SSL_CTX_set_session_id_context(tls, session_context, sizeof(session_context) - 1) == 1;
}

enum error_code ws_tls_create(const char *certificate_file, const char *key_file, SSL_CTX **out, struct error *err)
{
    ERR_clear_error();
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    if (!tls || !configure(tls)) {
        SSL_CTX_free(tls);
        return tls_files_fail(err, "TLS", "settings");
    }
    enum error_code code = tls_files_load(tls, certificate_file, key_file, err);
    if (code) {
        SSL_CTX_free(tls);
        return code;
    }
    *out = tls;
    return ERROR_NONE;
}

static bool derive(const uint8_t *secret, size_t len, const char *label, uint8_t out[TICKET_KEYS_BYTES])
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret, len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)label, strlen(label)),
        OSSL_PARAM_construct_end()};
    bool ok = context && EVP_KDF_derive(context, out, TICKET_KEYS_BYTES, params) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    return ok;
}

void ws_tls_set_day(SSL_CTX *tls, uint64_t day)
{
    uint8_t keys[TICKET_KEYS_BYTES];
    unsigned char *secret = NULL;
    char label[64];
    const EVP_PKEY *key = SSL_CTX_get0_privatekey(tls);
    // A key that does not leave its hardware: OpenSSL's own random keys stay, and tickets are good
    // on this loop only.
    int len = key ? i2d_PrivateKey(key, &secret) : -1;
    snprintf(label, sizeof(label), "culvert tunnel tickets %llu", (unsigned long long)day);
    if (len > 0 && derive(secret, (size_t)len, label, keys))
        (void)SSL_CTX_set_tlsext_ticket_keys(tls, keys, sizeof(keys));
    OPENSSL_clear_free(secret, len > 0 ? (size_t)len : 0);
    OPENSSL_cleanse(keys, sizeof(keys));
    ERR_clear_error();
}
