// client: a blocking HTTP/1.1 client for tests, over TCP or TLS, that sends exactly the bytes it is
// given and reads answers by the book.
#ifndef CULVERT_TESTS_CLIENT_H
#define CULVERT_TESTS_CLIENT_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { CLIENT_BYTES = 256 * 1024 };

struct client {
    int fd;
    SSL_CTX *context;
    SSL *ssl;
    size_t have;
    char in[CLIENT_BYTES];
};

struct client_answer {
    int status;
    bool whole, keep_alive;
    char head[16 * 1024];
    char body[CLIENT_BYTES];
    size_t body_len;
};

// tls: with certificate checks off; alpn may be NULL. NULL when the handshake fails.
struct client *client_connect(uint16_t port, bool tls, const char *alpn);
void client_close(struct client *client);
void client_send(struct client *client, struct str bytes);
void client_send_text(struct client *client, const char *text);
// False: the connection ended before a whole answer had come.
bool client_read_answer(struct client *client, const char *method, struct client_answer *out);
// Reads at most cap bytes as they are; 0: the end.
size_t client_read(struct client *client, char *out, size_t cap);
void client_read_exactly(struct client *client, char *out, size_t len);
// Waits for the end of the connection, dropping what comes; returns how many bytes came.
size_t client_read_end(struct client *client);
void client_half_close(struct client *client);

// Writes a self-signed certificate and its key as PEM.
void client_make_certificate(const char *certificate_file, const char *key_file);

#endif
