// origin: the service behind every way that is measured, so small that it is never what limits. `origin PORT` on
// 127.0.0.1 until it is killed, or its parent ends. Keep-alive, one thread, epoll. It answers
//   GET /1k            1 KiB
//   GET /bytes/N       N bytes of the pattern
//   PUT /sink          takes the body, compares it with the pattern: "<bytes> exact" or "<bytes> wrong"
//   GET /events/N      N server-sent events a second, each with the time of its writing
//   GET /socket        a WebSocket that sends back what it gets
// and is no server for anything else: other requests, and bodies without Content-Length, end the connection.
#include "origin.h"
#include "histogram.h"
#include "pattern.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SMALL_BYTES = 1024, EVENTS_MAX = 256, PIECES_A_TURN = 16 };

struct origin {
    int epoll, listener;
    struct origin_connection *with_events;
    struct pattern pattern;
    char small[SMALL_BYTES + 256];
    size_t small_bytes;
};

bool origin_write(struct origin_connection *connection, const void *data, size_t bytes)
{
    return write(connection->fd, data, bytes) == (ssize_t)bytes;
}

static bool want(struct origin *origin, struct origin_connection *connection, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};
    return epoll_ctl(origin->epoll, EPOLL_CTL_MOD, connection->fd, &event) == 0;
}

// ---- bodies --------------------------------------------------------------------------------------------------------

// A few pieces a turn, so that others get theirs.
static bool send_body(struct origin *origin, struct origin_connection *connection)
{
    for (int i = 0; i < PIECES_A_TURN && connection->done < connection->bytes; i++) {
        uint64_t left = connection->bytes - connection->done;
        size_t piece = left < PATTERN_PIECE_BYTES_MAX ? (size_t)left : PATTERN_PIECE_BYTES_MAX;
        ssize_t count = write(connection->fd, pattern_at(&origin->pattern, connection->done), piece);
        if (count < 0) return errno == EAGAIN;
        connection->done += (uint64_t)count;
    }
    if (connection->done < connection->bytes) return true;
    connection->work = ORIGIN_HEADS;
    return want(origin, connection, EPOLLIN);
}

static bool take_body(struct origin *origin, struct origin_connection *connection, const void *data, size_t bytes)
{
    if (bytes > connection->bytes - connection->done) return false; // no pipelining behind a body
    if (!pattern_matches(&origin->pattern, connection->done, data, bytes)) connection->exact = false;
    connection->done += bytes;
    if (connection->done < connection->bytes) return true;
    char text[64], answer[256];
    int text_bytes = snprintf(text, sizeof(text), "%llu %s\n", (unsigned long long)connection->bytes,
                              connection->exact ? "exact" : "wrong");
    int answer_bytes =
        snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
                 text_bytes, text);
    connection->work = ORIGIN_HEADS;
    return origin_write(connection, answer, (size_t)answer_bytes);
}

static bool start_sending(struct origin *origin, struct origin_connection *connection, uint64_t bytes)
{
    char head[128];
    int head_bytes = snprintf(
        head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %llu\r\n\r\n",
        (unsigned long long)bytes);
    connection->work = ORIGIN_SENDS;
    connection->done = 0;
    connection->bytes = bytes;
    return origin_write(connection, head, (size_t)head_bytes) && want(origin, connection, EPOLLOUT);
}

static bool start_taking(struct origin *origin, struct origin_connection *connection, const char *head,
                         size_t head_bytes)
{
    const char *length = strcasestr(head, "\r\nContent-Length: ");
    size_t here = connection->used - head_bytes;
    if (length == NULL) return false;
    connection->work = ORIGIN_TAKES;
    connection->done = 0;
    connection->bytes = strtoull(length + 18, NULL, 10);
    connection->exact = true;
    connection->used = 0;
    return take_body(origin, connection, connection->in + head_bytes, here);
}

// ---- requests ------------------------------------------------------------------------------------------------------

// Answers the request whose head is in front of `in`, its last line break being a NUL.
static bool answer(struct origin *origin, struct origin_connection *connection, size_t head_bytes)
{
    const char *head = connection->in;
    if (strncmp(head, "PUT /sink ", 10) == 0) return start_taking(origin, connection, head, head_bytes);
    bool done;
    if (strncmp(head, "GET /bytes/", 11) == 0) {
        done = start_sending(origin, connection, strtoull(head + 11, NULL, 10));
    } else if (strncmp(head, "GET /events/", 12) == 0) {
        unsigned long per_second = strtoul(head + 12, NULL, 10);
        done = per_second > 0 && per_second <= 10000 && origin_events_start(connection, (unsigned)per_second);
        connection->next = origin->with_events;
        origin->with_events = connection;
    } else if (strncmp(head, "GET /socket ", 12) == 0) {
        done = origin_socket_start(connection, head);
    } else {
        done = strncmp(head, "GET /1k ", 8) == 0 && origin_write(connection, origin->small, origin->small_bytes);
    }
    connection->used -= head_bytes;
    memmove(connection->in, connection->in + head_bytes, connection->used);
    return done;
}

static bool take_heads(struct origin *origin, struct origin_connection *connection)
{
    char *end;
    while (connection->work == ORIGIN_HEADS &&
           (end = memmem(connection->in, connection->used, "\r\n\r\n", 4)) != NULL) {
        size_t bytes = (size_t)(end - connection->in) + 4;
        end[2] = '\0';
        if (!answer(origin, connection, bytes)) return false;
    }
    if (connection->work == ORIGIN_SOCKET && !origin_socket_take(connection)) return false;
    return connection->used < ORIGIN_HEAD_BYTES_MAX;
}

// False when the connection has ended or is broken.
static bool on_readable(struct origin *origin, struct origin_connection *connection)
{
    static char body[256 * 1024];
    bool takes = connection->work == ORIGIN_TAKES;
    char *at = takes ? body : connection->in + connection->used;
    ssize_t count = read(connection->fd, at, takes ? sizeof(body) : ORIGIN_HEAD_BYTES_MAX - connection->used);
    if (count <= 0) return count < 0 && errno == EAGAIN;
    if (takes) return take_body(origin, connection, body, (size_t)count);
    connection->used += (size_t)count;
    return connection->work == ORIGIN_SOCKET ? origin_socket_take(connection) : take_heads(origin, connection);
}

// ---- connections ---------------------------------------------------------------------------------------------------

static bool listen_on(struct origin *origin, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    origin->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    origin->epoll = epoll_create1(EPOLL_CLOEXEC);
    return origin->listener >= 0 && origin->epoll >= 0 &&
           setsockopt(origin->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
           bind(origin->listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           listen(origin->listener, 1024) == 0 &&
           epoll_ctl(origin->epoll, EPOLL_CTL_ADD, origin->listener, &event) == 0;
}

static void on_connect(struct origin *origin)
{
    for (int fd; (fd = accept4(origin->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        struct origin_connection *connection = calloc(1, sizeof(*connection));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        int on = 1;
        if (connection == NULL || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
            epoll_ctl(origin->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
            free(connection);
            close(fd);
            continue;
        }
        connection->fd = fd;
    }
}

static void drop(struct origin *origin, struct origin_connection *connection)
{
    for (struct origin_connection **link = &origin->with_events; *link != NULL; link = &(*link)->next) {
        if (*link != connection) continue;
        *link = connection->next;
        break;
    }
    close(connection->fd);
    free(connection);
}

// Writes the events that are due; milliseconds until the next one, -1 when there is none.
static int write_events(struct origin *origin)
{
    uint64_t now = histogram_now_ns(), first = UINT64_MAX;
    for (struct origin_connection *connection = origin->with_events, *next; connection != NULL; connection = next) {
        next = connection->next;
        if (connection->due_ns <= now && !origin_events_write(connection)) {
            drop(origin, connection);
            continue;
        }
        if (connection->due_ns < first) first = connection->due_ns;
    }
    return first == UINT64_MAX ? -1 : (int)((first - now + 999999) / 1000000);
}

static void run(struct origin *origin)
{
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        int ready = epoll_wait(origin->epoll, events, EVENTS_MAX, write_events(origin));
        for (int i = 0; i < ready; i++) {
            struct origin_connection *connection = events[i].data.ptr;
            if (connection == NULL)
                on_connect(origin);
            else if (events[i].events & EPOLLOUT ? !send_body(origin, connection) : !on_readable(origin, connection))
                drop(origin, connection);
        }
    }
}

int main(int argc, char **argv)
{
    static struct origin origin;
    int port = argc == 2 ? atoi(argv[1]) : 0;
    signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (port <= 0 || port > 65535 || !listen_on(&origin, port)) {
        fprintf(stderr, "origin: cannot listen\n");
        return 1;
    }
    pattern_init(&origin.pattern);
    int head_bytes = snprintf(origin.small, sizeof(origin.small),
                              "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", SMALL_BYTES);
    memset(origin.small + head_bytes, 'x', SMALL_BYTES);
    origin.small_bytes = (size_t)head_bytes + SMALL_BYTES;
    run(&origin);
}
