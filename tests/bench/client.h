// client: what every client of the benchmarks needs: options, one connection with or without TLS, a request's head, the
// head of the answer. Whatever goes wrong before the measurement ends the process with a line on standard error.
// Always to 127.0.0.1, whatever the name in the URL is. Header lines come from a file, so that a credential never
// stands in argv. One thread.
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIENT_HEAD_BYTES_MAX = 16 * 1024, CLIENT_REQUEST_BYTES_MAX = 4 * 1024, CLIENT_CONNECTIONS_MAX = 1024 };

struct client_options {
    char host[256];
    char authority[280]; // host:port, as the Host header has it
    const char *path;
    const char *ca_file;
    const char *header_file;
    const char *body_file; // --body-file: what is posted; NULL: a GET
    uint64_t bytes;        // --put: of the body; 0: a GET
    uint64_t rate;         // --rate: bytes a second that a reader takes
    unsigned connections;
    unsigned seconds;
    uint8_t from;             // 127.0.0.<from> is the address it comes from; 0: the kernel's choice
    int receive_buffer_bytes; // set by programs that want less than the kernel gives
    uint16_t port;
    bool tls;
};

struct client {
    int fd;
    SSL *ssl; // NULL: plain
};

// The head of an answer. `body` are bytes that came behind it, inside the buffer that was read into.
struct client_answer {
    unsigned status;
    bool has_length, chunked;
    uint64_t length;
    char *body;
    size_t body_bytes;
};

// Prints the message, errno's and OpenSSL's, and exits with 1.
_Noreturn void client_die(const char *what);

// --url, --ca, --header-file, --body-file, --connections, --seconds, --put, --rate. Exits with 2 when they make no
// sense.
void client_parse_options(int argc, char **argv, struct client_options *out);

// A context that checks certificates against the CA of the options; NULL for http. The caller frees it (SSL_CTX_free).
SSL_CTX *client_tls(const struct client_options *options);

// The text of a request, with the lines of the header file and `more` (complete lines, or ""). Its length.
size_t client_make_request(const struct client_options *options, const char *method, const char *more,
                           char out[CLIENT_REQUEST_BYTES_MAX]);

// Connects and shakes hands, blocking; `tls` may be NULL.
void client_open(struct client *client, const struct client_options *options, SSL_CTX *tls);
void client_close(struct client *client);

// All of it, blocking; ends the process when the connection breaks.
void client_send(struct client *client, const void *data, size_t bytes);

// Bytes read; 0 when there is nothing now (on a blocking socket: for ten seconds); -1 at the end or on an error.
long client_receive(struct client *client, void *buffer, size_t size);

// Where the head ends (behind its blank line), or 0 while it is not complete. Fills `out`; ends the process when the
// head makes no sense. `buffer` has room for a byte behind `bytes`.
size_t client_parse_head(char *buffer, size_t bytes, struct client_answer *out);

// Reads the head of an answer, blocking, into `buffer` of CLIENT_HEAD_BYTES_MAX + 1 bytes.
void client_receive_head(struct client *client, char *buffer, struct client_answer *out);

#endif
