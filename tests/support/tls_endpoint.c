#include "tests/support/tls_endpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static X509 *make_certificate(EVP_PKEY *key, const char *names)
{
    X509 *x = X509_new();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -60);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
    X509_add_ext(x, san, -1);
    X509_EXTENSION_free(san);
    X509_sign(x, key, EVP_sha256());
    return x;
}

static void listen_on_loopback(struct tls_endpoint *endpoint)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    endpoint->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(endpoint->listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(endpoint->listener, 4), 0);
    getsockname(endpoint->listener, (struct sockaddr *)&address, &len);
    endpoint->port = ntohs(address.sin_port);
}

void tls_endpoint_init(struct tls_endpoint *endpoint, const char *names)
{
    listen_on_loopback(endpoint);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate(key, names);
    endpoint->ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(endpoint->ctx, certificate);
    SSL_CTX_use_PrivateKey(endpoint->ctx, key);
    snprintf(endpoint->ca_file, sizeof endpoint->ca_file, "/tmp/culvert-test-ca-XXXXXX");
    FILE *file = fdopen(mkstemp(endpoint->ca_file), "w");
    PEM_write_X509(file, certificate);
    fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void tls_endpoint_wake(struct tls_endpoint *endpoint)
{
    shutdown(endpoint->listener, SHUT_RDWR);
}

void tls_endpoint_finish(struct tls_endpoint *endpoint)
{
    close(endpoint->listener);
    unlink(endpoint->ca_file);
    SSL_CTX_free(endpoint->ctx);
}
