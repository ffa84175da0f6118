#include "server/peer/peer_tls.h"

#include <openssl/x509v3.h>
#include <string.h>

#include "base/tls/tls_files.h"
#include "server/peer/peer_wire.h"

static bool names_replica(X509 *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_DNS && name->type != GEN_URI) continue;
        const ASN1_IA5STRING *text = name->d.ia5;
        found |= ASN1_STRING_length(text) == (int)strlen(PEER_TLS_NAME) &&
                 memcmp(ASN1_STRING_get0_data(text), PEER_TLS_NAME, strlen(PEER_TLS_NAME)) == 0;
    }
    GENERAL_NAMES_free(names);
    return found;
}

static int check(int is_fine, X509_STORE_CTX *store)
{
    if (!is_fine || X509_STORE_CTX_get_error_depth(store) != 0) return is_fine;
    if (names_replica(X509_STORE_CTX_get_current_cert(store))) return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
    return 0;
}

static enum error_code configure(SSL_CTX *ssl, const char *certificate_file, const char *key_file, const char *ca_file,
                                 struct error *err)
{
    static const char protocols[] = "\x0e" PEER_WIRE_ALPN;
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ssl, 0); // every connection shows its certificate
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, check);
    tls_files_offer(ssl, protocols);
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_alpn_protos(ssl, (const unsigned char *)protocols, sizeof protocols - 1) != 0)
        return tls_files_fail(err, "TLS", "settings");
    if (SSL_CTX_load_verify_file(ssl, ca_file) != 1) return tls_files_fail(err, "CA", ca_file);
    enum error_code code = tls_files_load(ssl, certificate_file, key_file, err);
    if (code != ERROR_NONE) return code;
    if (!names_replica(SSL_CTX_get0_certificate(ssl)))
        return error_set(err, ERROR_INVALID, "%s does not name %s in its subjectAltName", certificate_file,
                         PEER_TLS_NAME);
    return ERROR_NONE;
}

enum error_code peer_tls_init(struct peer_tls *out, const char *certificate_file, const char *key_file,
                              const char *ca_file, struct error *err)
{
    *out = (struct peer_tls){SSL_CTX_new(TLS_server_method()), SSL_CTX_new(TLS_client_method())};
    enum error_code code =
        out->listener && out->link ? ERROR_NONE : error_set(err, ERROR_INTERNAL, "OpenSSL cannot create a context");
    if (code == ERROR_NONE) code = configure(out->listener, certificate_file, key_file, ca_file, err);
    if (code == ERROR_NONE) code = configure(out->link, certificate_file, key_file, ca_file, err);
    if (code == ERROR_NONE) return code;
    error_prefix(err, "peer TLS");
    peer_tls_finish(out);
    return code;
}

void peer_tls_finish(struct peer_tls *tls)
{
    SSL_CTX_free(tls->listener);
    SSL_CTX_free(tls->link);
    *tls = (struct peer_tls){0};
}
