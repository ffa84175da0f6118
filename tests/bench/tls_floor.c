// tls_floor: what TLS alone costs: a server that accepts connections with OpenSSL and does nothing with them but echo,
// and a client that opens so many and holds them. For comparison with idle tunnels in tests/bench/agents.
//   tls_floor server PORT CERTIFICATE KEY      prints a line with the number of connections at every 100th
//   tls_floor client PORT COUNT INTERVAL_MS    prints "open COUNT", then holds them until standard input ends; each
//   says
//                                              something once in the interval (0: never), as a tunnel's PING would
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS = 256,
    BACKLOG = 4096,
    SOURCES = 8,
    TELL_EVERY = 100,
    PING_BYTES = 19, // an HTTP/2 PING in a WebSocket frame
    STEP_MS = 10,
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files)) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static void accept_all(int listener, int epoll, SSL_CTX *tls)
{
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        SSL *ssl = SSL_new(tls);
        if (!ssl || !SSL_set_fd(ssl, fd)) die("SSL_new");
        SSL_set_accept_state(ssl);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = ssl};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
    }
}

_Noreturn static void serve(uint16_t port, const char *certificate, const char *key)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), epoll = epoll_create1(0), yes = 1;
    unsigned open = 0;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, BACKLOG)) die("listen");
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    if (!tls || SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        die("certificate");
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(tls, 1); // one read() a record
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            SSL *ssl = events[i].data.ptr;
            char ping[PING_BYTES];
            if (!ssl) {
                accept_all(listener, epoll, tls);
                continue;
            }
            int was_open = SSL_is_init_finished(ssl),
                n = was_open ? SSL_read(ssl, ping, sizeof(ping)) : SSL_do_handshake(ssl);
            if (was_open && n > 0) n = SSL_write(ssl, ping, n);
            if (!was_open && n == 1 && ++open % TELL_EVERY == 0) {
                printf("%u\n", open);
                fflush(stdout);
            }
            int why = SSL_get_error(ssl, n);
            if (n > 0 || why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) continue;
            close(SSL_get_fd(ssl));
            SSL_free(ssl);
        }
    }
}

static SSL *dial(SSL_CTX *tls, uint16_t port, unsigned number)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002u + number % SOURCES)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
    if (bind(fd, (struct sockaddr *)&from, sizeof(from)) || connect(fd, (struct sockaddr *)&to, sizeof(to)))
        die("connect");
    SSL *ssl = SSL_new(tls);
    if (!ssl || !SSL_set_fd(ssl, fd) || SSL_connect(ssl) != 1) die("SSL_connect");
    return ssl;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// What is echoed stays unread in the kernel until the connection's next turn.
static void say(SSL *ssl, bool again)
{
    char ping[PING_BYTES] = {0};
    if (again && SSL_read(ssl, ping, sizeof(ping)) <= 0) die("SSL_read");
    if (SSL_write(ssl, ping, sizeof(ping)) <= 0) die("SSL_write");
}

// Evenly, a few in every step.
static void talk(SSL **connections, unsigned count, unsigned interval_ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    uint64_t began_ms = now_ms(), said = 0;
    char byte;
    while (poll(&input, 1, interval_ms ? STEP_MS : -1) == 0 || read(STDIN_FILENO, &byte, 1) > 0)
        for (uint64_t due = interval_ms ? (now_ms() - began_ms) * count / interval_ms : 0; said < due; said++)
            say(connections[said % count], said >= count);
}

static int hold(uint16_t port, unsigned count, unsigned interval_ms)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    SSL **connections = calloc(count, sizeof(*connections));
    if (!tls || !connections) die("TLS");
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
    for (unsigned i = 0; i < count; i++)
        connections[i] = dial(tls, port, i);
    printf("open %u\n", count);
    fflush(stdout);
    talk(connections, count, interval_ms);
    return 0;
}

int main(int argc, char **argv)
{
    raise_files();
    if (argc == 5 && strcmp(argv[1], "server") == 0) serve((uint16_t)atoi(argv[2]), argv[3], argv[4]);
    if (argc == 5 && strcmp(argv[1], "client") == 0)
        return hold((uint16_t)atoi(argv[2]), (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
    fprintf(stderr, "tls_floor server PORT CERTIFICATE KEY | client PORT COUNT INTERVAL_MS\n");
    return 2;
}
