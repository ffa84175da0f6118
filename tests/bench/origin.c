// origin: the smallest HTTP/1.1 service that is never what limits a measurement: every request without a body gets a
// 200 with 1 KiB. Keep-alive, one thread, epoll; `origin PORT` on 127.0.0.1 until SIGTERM. No server for anything else:
// it reads heads to their blank line and understands nothing in them. Used by tests/bench/transfer.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BODY_BYTES = 1024, HEAD_BYTES_MAX = 16 * 1024, EVENTS_MAX = 256 };

struct connection {
    int fd;
    size_t used;
    char head[HEAD_BYTES_MAX];
};

static char answer[BODY_BYTES + 256];
static size_t answer_bytes;

static int listen_on(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 1024) != 0)
        return -1;
    return fd;
}

static void on_connect(int epoll, int listener)
{
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        struct connection *connection = calloc(1, sizeof(*connection));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        int on = 1;
        if (connection == NULL || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
            epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
            free(connection);
            close(fd);
            continue;
        }
        connection->fd = fd;
    }
}

// Answers every complete head. False when the connection has ended or is broken. An answer fits an empty send buffer.
static bool on_readable(struct connection *connection)
{
    ssize_t count = read(connection->fd, connection->head + connection->used, HEAD_BYTES_MAX - connection->used);
    if (count <= 0) return count < 0 && errno == EAGAIN;
    connection->used += (size_t)count;
    for (char *end; (end = memmem(connection->head, connection->used, "\r\n\r\n", 4)) != NULL;) {
        size_t bytes = (size_t)(end - connection->head) + 4;
        if (write(connection->fd, answer, answer_bytes) != (ssize_t)answer_bytes) return false;
        connection->used -= bytes;
        memmove(connection->head, connection->head + bytes, connection->used);
    }
    return connection->used < HEAD_BYTES_MAX;
}

int main(int argc, char **argv)
{
    int port = argc == 2 ? atoi(argv[1]) : 0;
    int listener = port > 0 && port < 65536 ? listen_on(port) : -1;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    signal(SIGPIPE, SIG_IGN);
    if (listener < 0 || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0) {
        fprintf(stderr, "origin: cannot listen\n");
        return 1;
    }
    answer_bytes =
        (size_t)snprintf(answer, sizeof(answer),
                         "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", BODY_BYTES);
    memset(answer + answer_bytes, 'x', BODY_BYTES);
    answer_bytes += BODY_BYTES;
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (connection == NULL) {
                on_connect(epoll, listener);
            } else if (!on_readable(connection)) {
                close(connection->fd);
                free(connection);
            }
        }
    }
}
