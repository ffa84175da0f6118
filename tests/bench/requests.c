// requests: a closed-loop HTTP/1.1 client. N keep-alive connections, each with one GET in flight, for S seconds; then
// one line of JSON: requests, failed, seconds, p50 and p99 in microseconds, answers completed in each second. One
// thread. http and https (the certificate is checked); always to 127.0.0.1, whatever the name in the URL is. Header
// lines come from a file, so that a credential never stands in argv. Used by tests/bench/transfer.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 1024,
    SECONDS_MAX = 120,
    HEAD_BYTES_MAX = 16 * 1024,
    REQUEST_BYTES_MAX = 4 * 1024,
    LATENCY_US_MAX = 2 * 1000 * 1000, // one bucket a microsecond; slower answers count in the last one
};

struct options {
    char host[256];
    char authority[280]; // host:port, as the Host header has it
    uint16_t port;
    bool tls;
    const char *path;
    const char *ca_file;
    const char *header_file;
    unsigned connections;
    unsigned seconds;
};

struct connection {
    int fd;
    SSL *ssl;           // NULL: plain
    uint64_t sent_us;   // when the request in flight left
    size_t head_bytes;  // received of a head that is not complete yet
    uint64_t body_left; // of an answer whose head is complete
    bool in_body;
    bool refused; // the answer under way is no 200
    char head[HEAD_BYTES_MAX];
};

struct run {
    struct options options;
    char request[REQUEST_BYTES_MAX];
    int request_bytes;
    int epoll;
    uint64_t start_us, end_us;
    uint64_t done, refused, failed;
    char first_refusal[128];
    uint64_t per_second[SECONDS_MAX];
    uint32_t *latencies; // LATENCY_US_MAX buckets
    struct connection *connections;
};

static void die(const char *what)
{
    fprintf(stderr, "requests: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    ERR_print_errors_fp(stderr);
    exit(1);
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

// ---- options -------------------------------------------------------------------------------------------------------

static void parse_url(const char *url, struct options *out)
{
    out->tls = strncmp(url, "https://", 8) == 0;
    if (!out->tls && strncmp(url, "http://", 7) != 0)
        die("the URL must be http://host:port/path or https://host:port/path");
    const char *authority = url + (out->tls ? 8 : 7);
    const char *slash = strchr(authority, '/');
    const char *colon = strchr(authority, ':');
    if (slash == NULL || colon == NULL || colon > slash || (size_t)(slash - authority) >= sizeof(out->authority) ||
        (size_t)(colon - authority) >= sizeof(out->host))
        die("the URL needs host, port and path");
    long port = strtol(colon + 1, NULL, 10);
    if (port < 1 || port > 65535) die("the port must be 1 to 65535");
    memcpy(out->host, authority, (size_t)(colon - authority));
    memcpy(out->authority, authority, (size_t)(slash - authority));
    out->port = (uint16_t)port;
    out->path = slash;
}

static unsigned parse_count(const char *text, unsigned maximum)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end != '\0' || value < 1 || value > (long)maximum) die("a number is not in its bounds");
    return (unsigned)value;
}

static void parse_options(int argc, char **argv, struct options *out)
{
    static const struct option names[] = {
        {"url", required_argument, NULL, 'u'},         {"ca", required_argument, NULL, 'a'},
        {"header-file", required_argument, NULL, 'h'}, {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},     {NULL, 0, NULL, 0},
    };
    out->connections = 1;
    out->seconds = 1;
    for (int name; (name = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (name) {
        case 'u': parse_url(optarg, out); break;
        case 'a': out->ca_file = optarg; break;
        case 'h': out->header_file = optarg; break;
        case 'c': out->connections = parse_count(optarg, CONNECTIONS_MAX); break;
        case 's': out->seconds = parse_count(optarg, SECONDS_MAX); break;
        default: exit(2);
        }
    }
    if (out->path == NULL || (out->tls && out->ca_file == NULL)) die("--url is needed, and --ca FILE for https");
}

// The request's text: the same for all connections. Header lines of the file are taken as they are.
static void make_request(struct run *run)
{
    char lines[REQUEST_BYTES_MAX / 2] = "";
    size_t used = 0;
    if (run->options.header_file != NULL) {
        FILE *file = fopen(run->options.header_file, "r");
        if (file == NULL) die(run->options.header_file);
        char line[REQUEST_BYTES_MAX / 4];
        while (fgets(line, sizeof(line), file) != NULL) {
            line[strcspn(line, "\r\n")] = '\0';
            int added = snprintf(lines + used, sizeof(lines) - used, "%s\r\n", line);
            if (added < 0 || (size_t)added >= sizeof(lines) - used) die("the header file is too long");
            used += (size_t)added;
        }
        fclose(file);
    }
    run->request_bytes = snprintf(run->request, sizeof(run->request), "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n",
                                  run->options.path, run->options.authority, lines);
    if (run->request_bytes < 0 || (size_t)run->request_bytes >= sizeof(run->request)) die("the request is too long");
}

// ---- connections ---------------------------------------------------------------------------------------------------

// Connects, shakes hands (both blocking: this comes before the clock starts) and joins the poll.
static void open_connection(struct run *run, SSL_CTX *tls, struct connection *connection)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(run->options.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        die("connect");
    if (tls != NULL) {
        connection->ssl = SSL_new(tls);
        if (connection->ssl == NULL || SSL_set_fd(connection->ssl, connection->fd) != 1 ||
            SSL_set_tlsext_host_name(connection->ssl, run->options.host) != 1 ||
            SSL_set1_host(connection->ssl, run->options.host) != 1 || SSL_connect(connection->ssl) != 1)
            die("TLS handshake");
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (fcntl(connection->fd, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(run->epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        die("epoll");
}

static void close_connection(struct run *run, struct connection *connection)
{
    epoll_ctl(run->epoll, EPOLL_CTL_DEL, connection->fd, NULL);
    SSL_free(connection->ssl);
    close(connection->fd);
    connection->fd = -1;
}

// A request is far smaller than an empty send buffer, so a partial write means that the connection is broken.
static bool send_request(struct run *run, struct connection *connection)
{
    connection->sent_us = now_us();
    connection->head_bytes = 0;
    connection->in_body = false;
    long sent = connection->ssl != NULL ? SSL_write(connection->ssl, run->request, run->request_bytes)
                                        : write(connection->fd, run->request, (size_t)run->request_bytes);
    return sent == run->request_bytes;
}

// Bytes read; 0 when there is nothing now; -1 at the end or on an error.
static long receive(struct connection *connection, char *buffer, size_t size)
{
    if (connection->ssl != NULL) {
        ERR_clear_error(); // SSL_get_error looks at what is left there
        int count = SSL_read(connection->ssl, buffer, (int)size);
        if (count > 0) return count;
        return SSL_get_error(connection->ssl, count) == SSL_ERROR_WANT_READ ? 0 : -1;
    }
    ssize_t count = read(connection->fd, buffer, size);
    if (count > 0) return count;
    return count < 0 && errno == EAGAIN ? 0 : -1;
}

// Takes a complete head of `bytes` bytes (blank line included). It must have a Content-Length.
static bool take_head(struct run *run, struct connection *connection, size_t bytes)
{
    char *head = connection->head;
    head[bytes - 1] = '\0';
    connection->refused = strncmp(head, "HTTP/1.1 200 ", 13) != 0;
    if (connection->refused && run->first_refusal[0] == '\0')
        snprintf(run->first_refusal, sizeof(run->first_refusal), "%.*s", (int)strcspn(head, "\r\n"), head);
    for (char *line = head; (line = strstr(line, "\r\n")) != NULL;) {
        line += 2;
        if (strncasecmp(line, "content-length:", 15) == 0) {
            uint64_t body_bytes = strtoull(line + 15, NULL, 10);
            uint64_t here = connection->head_bytes - bytes;
            connection->in_body = true;
            connection->body_left = body_bytes - here;
            return here <= body_bytes;
        }
    }
    fprintf(stderr, "requests: an answer without Content-Length\n");
    return false;
}

static void count_answer(struct run *run, struct connection *connection)
{
    if (connection->refused) {
        run->refused++;
        return;
    }
    uint64_t now = now_us();
    uint64_t taken = now - connection->sent_us;
    uint64_t second = (now - run->start_us) / 1000000;
    run->latencies[taken < LATENCY_US_MAX ? taken : LATENCY_US_MAX - 1]++;
    run->done++;
    if (second < run->options.seconds) run->per_second[second]++;
}

// Reads all there is. False when the connection is of no more use.
static bool on_readable(struct run *run, struct connection *connection)
{
    char scratch[64 * 1024];
    for (;;) {
        bool in_body = connection->in_body;
        char *at = in_body ? scratch : connection->head + connection->head_bytes;
        long count = receive(connection, at, in_body ? sizeof(scratch) : HEAD_BYTES_MAX - connection->head_bytes);
        if (count <= 0) return count == 0;
        if (in_body) {
            if ((uint64_t)count > connection->body_left) return false;
            connection->body_left -= (uint64_t)count;
        } else {
            connection->head_bytes += (size_t)count;
            char *end = memmem(connection->head, connection->head_bytes, "\r\n\r\n", 4);
            if (end == NULL && connection->head_bytes == HEAD_BYTES_MAX) return false;
            if (end == NULL) continue;
            if (!take_head(run, connection, (size_t)(end - connection->head) + 4)) return false;
        }
        if (connection->body_left == 0) {
            count_answer(run, connection);
            return send_request(run, connection);
        }
    }
}

// ---- the run -------------------------------------------------------------------------------------------------------

static void run_loop(struct run *run)
{
    struct epoll_event events[CONNECTIONS_MAX];
    unsigned open = run->options.connections;
    run->start_us = now_us();
    run->end_us = run->start_us + (uint64_t)run->options.seconds * 1000000;
    for (unsigned i = 0; i < run->options.connections; i++) {
        if (!send_request(run, &run->connections[i])) die("the first request");
    }
    while (open > 0) {
        uint64_t now = now_us();
        if (now >= run->end_us) break;
        int ready = epoll_wait(run->epoll, events, CONNECTIONS_MAX, (int)((run->end_us - now) / 1000) + 1);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!on_readable(run, connection)) {
                run->failed++;
                open--;
                close_connection(run, connection);
            }
        }
    }
    run->end_us = now_us();
}

static unsigned percentile_us(const struct run *run, double share)
{
    uint64_t wanted = (uint64_t)((double)run->done * share), seen = 0;
    for (unsigned i = 0; i < LATENCY_US_MAX; i++) {
        seen += run->latencies[i];
        if (seen > wanted) return i;
    }
    return LATENCY_US_MAX - 1;
}

static void print_result(const struct run *run)
{
    printf("{\"requests\": %llu, \"refused\": %llu, \"failed\": %llu, \"seconds\": %.3f, \"p50_us\": %u, \"p99_us\": "
           "%u, \"per_second\": [",
           (unsigned long long)run->done, (unsigned long long)run->refused, (unsigned long long)run->failed,
           (double)(run->end_us - run->start_us) / 1e6, percentile_us(run, 0.50), percentile_us(run, 0.99));
    for (unsigned i = 0; i < run->options.seconds; i++)
        printf("%s%llu", i ? ", " : "", (unsigned long long)run->per_second[i]);
    printf("]}\n");
    if (run->first_refusal[0] != '\0') fprintf(stderr, "requests: the first refusal: %s\n", run->first_refusal);
}

int main(int argc, char **argv)
{
    static struct run run;
    parse_options(argc, argv, &run.options);
    signal(SIGPIPE, SIG_IGN);
    make_request(&run);
    SSL_CTX *tls = NULL;
    if (run.options.tls) {
        tls = SSL_CTX_new(TLS_client_method());
        if (tls == NULL || SSL_CTX_load_verify_locations(tls, run.options.ca_file, NULL) != 1) die("the CA file");
        SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
    }
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    run.connections = calloc(run.options.connections, sizeof(*run.connections));
    run.latencies = calloc(LATENCY_US_MAX, sizeof(*run.latencies));
    if (run.epoll < 0 || run.connections == NULL || run.latencies == NULL) die("start");
    for (unsigned i = 0; i < run.options.connections; i++)
        open_connection(&run, tls, &run.connections[i]);
    run_loop(&run);
    print_result(&run);
    for (unsigned i = 0; i < run.options.connections; i++) {
        if (run.connections[i].fd >= 0) close_connection(&run, &run.connections[i]);
    }
    SSL_CTX_free(tls);
    close(run.epoll);
    free(run.connections);
    free(run.latencies);
    return 0;
}
