#include "client.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/http1/http1.h"

static void must(bool ok, const char *what)
{
    if (ok) return;
    perror(what);
    abort();
}

struct client *client_connect(uint16_t port, bool tls, const char *alpn)
{
    struct client *client = calloc(1, sizeof *client);
    must(client != NULL, "calloc");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval limit = {.tv_sec = 10};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(client->fd >= 0, "socket");
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    must(connect(client->fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    if (!tls) return client;
    client->context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_options(client->context, SSL_OP_IGNORE_UNEXPECTED_EOF);
    client->ssl = SSL_new(client->context);
    if (alpn) SSL_set_alpn_protos(client->ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
    SSL_set_fd(client->ssl, client->fd);
    if (SSL_connect(client->ssl) == 1) return client;
    ERR_clear_error();
    client_close(client);
    return NULL;
}

void client_close(struct client *client)
{
    if (!client) return;
    SSL_free(client->ssl);
    SSL_CTX_free(client->context);
    close(client->fd);
    free(client);
}

void client_send(struct client *client, struct str bytes)
{
    while (bytes.len > 0) {
        int take = (int)(bytes.len < 65536 ? bytes.len : 65536);
        ssize_t sent = client->ssl ? SSL_write(client->ssl, bytes.at, take)
                                   : send(client->fd, bytes.at, (size_t)take, MSG_NOSIGNAL);
        if (sent <= 0) return; // the reading side tells
        bytes = str_from(bytes, (size_t)sent);
    }
}

void client_send_text(struct client *client, const char *text)
{
    client_send(client, str_c(text));
}

static size_t receive(struct client *client, char *out, size_t cap)
{
    ssize_t got = client->ssl ? SSL_read(client->ssl, out, (int)cap) : recv(client->fd, out, cap, 0);
    return got > 0 ? (size_t)got : 0;
}

static void drop(struct client *client, size_t len)
{
    client->have -= len;
    memmove(client->in, client->in + len, client->have);
}

static bool more(struct client *client)
{
    must(client->have < sizeof client->in, "answer too large for the test");
    size_t got = receive(client, client->in + client->have, sizeof client->in - client->have);
    client->have += got;
    return got > 0;
}

static bool read_chunked(struct client *client, struct client_answer *out)
{
    struct http1_chunked chunked;
    http1_chunked_init(&chunked);
    for (;;) {
        size_t used = 0;
        struct str data;
        bool done = false;
        struct error err;
        while (client->have > 0 && !done) {
            must(http1_chunked_feed(&chunked, client->in, client->have, &used, &data, &done, &err) == ERROR_NONE,
                 "chunked answer");
            must(out->body_len + data.len <= sizeof out->body, "body too large for the test");
            memcpy(out->body + out->body_len, data.at ? data.at : "", data.len);
            out->body_len += data.len;
            drop(client, used);
        }
        if (done) return true;
        if (!more(client)) return false;
    }
}

static bool read_length(struct client *client, uint64_t length, struct client_answer *out)
{
    while (client->have < length)
        if (!more(client)) break;
    size_t take = client->have < length ? client->have : (size_t)length;
    memcpy(out->body, client->in, take);
    out->body_len = take;
    drop(client, take);
    return take == length;
}

bool client_read_answer(struct client *client, const char *method, struct client_answer *out)
{
    static struct http1_head head;
    struct error err;
    size_t bytes = 0;
    enum error_code code;
    out->body_len = 0;
    out->status = 0;
    while ((code = http1_parse_response(client->in, client->have, 0, str_c(method), &head, &bytes, &err)) ==
           ERROR_AGAIN)
        if (!more(client)) return false;
    if (code != ERROR_NONE) fprintf(stderr, "answer: %s\n%.*s\n", err.text, (int)client->have, client->in);
    must(code == ERROR_NONE, "answer head");
    out->status = head.status;
    out->keep_alive = head.keep_alive;
    enum http1_body body = head.body;
    uint64_t length = head.content_length;
    memcpy(out->head, client->in, bytes);
    out->head[bytes] = '\0';
    drop(client, bytes);
    if (body == HTTP1_BODY_CHUNKED) return read_chunked(client, out);
    if (body == HTTP1_BODY_LENGTH) return read_length(client, length, out);
    if (body == HTTP1_BODY_UNTIL_CLOSE) {
        while (more(client))
            continue;
        return read_length(client, client->have, out);
    }
    return true;
}

size_t client_read(struct client *client, char *out, size_t cap)
{
    if (client->have == 0) return receive(client, out, cap);
    size_t take = client->have < cap ? client->have : cap;
    memcpy(out, client->in, take);
    drop(client, take);
    return take;
}

void client_read_exactly(struct client *client, char *out, size_t len)
{
    while (len > 0) {
        size_t got = client_read(client, out, len);
        must(got > 0, "connection ended early");
        out += got;
        len -= got;
    }
}

size_t client_read_end(struct client *client)
{
    char scratch[65536];
    size_t total = 0;
    for (;;) {
        size_t got = client_read(client, scratch, sizeof scratch);
        if (got == 0) return total;
        total += got;
    }
}

void client_half_close(struct client *client)
{
    if (client->ssl) SSL_shutdown(client->ssl);
    shutdown(client->fd, SHUT_WR);
}

void client_make_certificate(const char *certificate_file, const char *key_file)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *certificate = X509_new();
    must(key && certificate, "certificate");
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    must(X509_sign(certificate, key, EVP_sha256()) > 0, "sign");
    FILE *file = fopen(certificate_file, "w");
    must(file && PEM_write_X509(file, certificate) == 1, certificate_file);
    fclose(file);
    file = fopen(key_file, "w");
    must(file && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1, key_file);
    fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}
