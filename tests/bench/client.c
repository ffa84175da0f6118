#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

enum { SECONDS_MAX = 120, PATIENCE_SECONDS = 10 };
static const uint64_t BYTES_MAX = (uint64_t)1 << 50;

_Noreturn void client_die(const char *what)
{
    fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, what, errno ? ": " : "",
            errno ? strerror(errno) : "");
    ERR_print_errors_fp(stderr);
    exit(1);
}

// ---- options -------------------------------------------------------------------------------------------------------

static void parse_url(const char *url, struct client_options *out)
{
    out->tls = strncmp(url, "https://", 8) == 0;
    if (!out->tls && strncmp(url, "http://", 7) != 0)
        client_die("the URL must be http://host:port/path or https://host:port/path");
    const char *authority = url + (out->tls ? 8 : 7);
    const char *slash = strchr(authority, '/');
    const char *colon = strchr(authority, ':');
    if (slash == NULL || colon == NULL || colon > slash || (size_t)(slash - authority) >= sizeof(out->authority) ||
        (size_t)(colon - authority) >= sizeof(out->host))
        client_die("the URL needs host, port and path");
    long port = strtol(colon + 1, NULL, 10);
    if (port < 1 || port > 65535) client_die("the port must be 1 to 65535");
    memcpy(out->host, authority, (size_t)(colon - authority));
    memcpy(out->authority, authority, (size_t)(slash - authority));
    out->port = (uint16_t)port;
    out->path = slash;
}

static uint64_t parse_count(const char *text, uint64_t maximum)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < 1 || value > maximum)
        client_die("a number is not in its bounds");
    return value;
}

void client_parse_options(int argc, char **argv, struct client_options *out)
{
    static const struct option names[] = {
        {"url", required_argument, NULL, 'u'},
        {"ca", required_argument, NULL, 'a'},
        {"header-file", required_argument, NULL, 'h'},
        {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},
        {"put", required_argument, NULL, 'p'},
        {"rate", required_argument, NULL, 'r'},
        {"body-file", required_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    *out = (struct client_options){.connections = 1, .seconds = 1};
    errno = 0;
    for (int name; (name = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (name) {
        case 'u': parse_url(optarg, out); break;
        case 'a': out->ca_file = optarg; break;
        case 'h': out->header_file = optarg; break;
        case 'c': out->connections = (unsigned)parse_count(optarg, CLIENT_CONNECTIONS_MAX); break;
        case 's': out->seconds = (unsigned)parse_count(optarg, SECONDS_MAX); break;
        case 'p': out->bytes = parse_count(optarg, BYTES_MAX); break;
        case 'b': out->body_file = optarg; break;
        case 'r': out->rate = parse_count(optarg, BYTES_MAX); break;
        default: exit(2);
        }
    }
    if (out->path == NULL || (out->tls && out->ca_file == NULL)) client_die("--url is needed, and --ca FILE for https");
    signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // nobody is left who would read the result
}

SSL_CTX *client_tls(const struct client_options *options)
{
    if (!options->tls) return NULL;
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    if (tls == NULL || SSL_CTX_load_verify_locations(tls, options->ca_file, NULL) != 1) client_die("the CA file");
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE);
    return tls;
}

size_t client_make_request(const struct client_options *options, const char *method, const char *more,
                           char out[CLIENT_REQUEST_BYTES_MAX])
{
    char lines[CLIENT_REQUEST_BYTES_MAX / 2] = "";
    size_t used = 0;
    if (options->header_file != NULL) {
        FILE *file = fopen(options->header_file, "r");
        if (file == NULL) client_die(options->header_file);
        char line[CLIENT_REQUEST_BYTES_MAX / 4];
        while (fgets(line, sizeof(line), file) != NULL) {
            line[strcspn(line, "\r\n")] = '\0';
            int added = snprintf(lines + used, sizeof(lines) - used, "%s\r\n", line);
            if (added < 0 || (size_t)added >= sizeof(lines) - used) client_die("the header file is too long");
            used += (size_t)added;
        }
        fclose(file);
    }
    int bytes = snprintf(out, CLIENT_REQUEST_BYTES_MAX, "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n", method, options->path,
                         options->authority, lines, more);
    if (bytes < 0 || bytes >= CLIENT_REQUEST_BYTES_MAX) client_die("the request is too long");
    return (size_t)bytes;
}

// ---- the connection ------------------------------------------------------------------------------------------------

void client_open(struct client *client, const struct client_options *options, SSL_CTX *tls)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_in from = {.sin_family = AF_INET};
    from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~UINT32_C(0xff)) | options->from);
    *client = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS}; // of calls that block
    int on = 1, room = options->receive_buffer_bytes;
    if (client->fd >= 0 && room > 0 && setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) != 0)
        client_die("setsockopt");
    if (client->fd < 0 || setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
        setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
        (options->from && bind(client->fd, (struct sockaddr *)&from, sizeof(from)) != 0) ||
        connect(client->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        client_die("connect");
    if (tls == NULL) return;
    client->ssl = SSL_new(tls);
    if (client->ssl == NULL || SSL_set_fd(client->ssl, client->fd) != 1 ||
        SSL_set_tlsext_host_name(client->ssl, options->host) != 1 || SSL_set1_host(client->ssl, options->host) != 1 ||
        SSL_connect(client->ssl) != 1)
        client_die("TLS handshake");
}

void client_close(struct client *client)
{
    if (client->fd < 0) return;
    SSL_free(client->ssl);
    close(client->fd);
    *client = (struct client){.fd = -1};
}

void client_send(struct client *client, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        const char *at = (const char *)data + sent;
        size_t left = bytes - sent < 1 << 20 ? bytes - sent : 1 << 20;
        long count = client->ssl != NULL ? SSL_write(client->ssl, at, (int)left) : write(client->fd, at, left);
        if (count <= 0) client_die("the connection broke while sending");
        sent += (size_t)count;
    }
}

long client_receive(struct client *client, void *buffer, size_t size)
{
    if (client->ssl != NULL) {
        ERR_clear_error(); // SSL_get_error looks at what is left there
        int count = SSL_read(client->ssl, buffer, (int)size);
        if (count > 0) return count;
        return SSL_get_error(client->ssl, count) == SSL_ERROR_WANT_READ ? 0 : -1;
    }
    ssize_t count = read(client->fd, buffer, size);
    if (count > 0) return count;
    return count < 0 && errno == EAGAIN ? 0 : -1;
}

// ---- answers -------------------------------------------------------------------------------------------------------

size_t client_parse_head(char *buffer, size_t bytes, struct client_answer *out)
{
    char *end = memmem(buffer, bytes, "\r\n\r\n", 4);
    if (end == NULL) return 0;
    *out = (struct client_answer){.body = end + 4, .body_bytes = bytes - (size_t)(end + 4 - buffer)};
    end[2] = '\0'; // the blank line's; every line before it still ends with CR LF
    errno = 0;
    if (sscanf(buffer, "HTTP/1.1 %3u", &out->status) != 1) client_die("an answer that is no HTTP/1.1");
    for (char *line = buffer; (line = strstr(line, "\r\n")) != NULL;) {
        line += 2;
        if (strncasecmp(line, "content-length:", 15) == 0) {
            out->has_length = true;
            out->length = strtoull(line + 15, NULL, 10);
        } else if (strncasecmp(line, "transfer-encoding: chunked\r", 27) == 0) {
            out->chunked = true;
        }
    }
    if (out->has_length && out->chunked) client_die("an answer with two lengths");
    return (size_t)(out->body - buffer);
}

void client_receive_head(struct client *client, char *buffer, struct client_answer *out)
{
    size_t used = 0;
    do {
        long count = client_receive(client, buffer + used, CLIENT_HEAD_BYTES_MAX - used);
        if (count <= 0) client_die("the connection ended inside the head of an answer");
        used += (size_t)count;
    } while (client_parse_head(buffer, used, out) == 0);
}
