#include "base/loop/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/connection_limiter.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/parse.h"

enum {
    BACKLOG = 4096,        // the kernel may have a lower one
    ACCEPTS_PER_TURN = 32, // connections that live get their share of the loop
    RETRY_MS = 200,        // after the system ran out of descriptors, or the owner of room
    KEEP_IDLE_S = 60,
    KEEP_INTERVAL_S = 15,
    KEEP_COUNT = 4,
};

struct listener {
    struct listener_options options;
    uv_poll_t poll;
    struct timer retry;
    int fd; // -1 once stopped
    uint16_t port;
    bool is_poll_open;
    bool polling, destroyed;
    bool starved;   // of descriptors: only time helps
    bool exhausted; // said so in the log; said again only after it was over
};

// None of them is needed for correctness: a socket that refuses one is served all the same.
static void set_socket_options(const struct listener_options *wanted, int fd)
{
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, (int)wanted->user_timeout_ms},
        {IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)wanted->unsent_bytes},
    };
    size_t count = sizeof options / sizeof *options;
    if (!wanted->unsent_bytes) count--;
    for (size_t i = 0; i < count; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

static void format_remote(const struct sockaddr_storage *address, char out[LISTENER_REMOTE_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in4->sin_addr, host, sizeof host);
        snprintf(out, LISTENER_REMOTE_BYTES, "%s:%u", host, ntohs(in4->sin_port));
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(out, LISTENER_REMOTE_BYTES, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        snprintf(out, LISTENER_REMOTE_BYTES, "?");
    }
}

void listener_network(const char *remote, char out[INET6_ADDRSTRLEN])
{
    char address[LISTENER_REMOTE_BYTES];
    snprintf(address, sizeof address, "%s", remote[0] == '[' ? remote + 1 : remote);
    char *end = strrchr(address, remote[0] == '[' ? ']' : ':');
    if (end) *end = '\0';
    connection_limiter_network(address, out);
}

// ---- accepting -----------------------------------------------------------------------------------------------

static void on_retry(void *arg);

static void pause_accepting(struct listener *listener)
{
    if (listener->polling) uv_poll_stop(&listener->poll);
    listener->polling = false;
    timer_start(&listener->retry, RETRY_MS, 0);
}

static void on_readable(uv_poll_t *poll, int status, int events);

void listener_resume(struct listener *listener)
{
    if (listener->polling || listener->fd < 0 || listener->starved ||
        !listener->options.has_room(listener->options.ctx))
        return;
    timer_stop(&listener->retry);
    listener->polling = uv_poll_start(&listener->poll, UV_READABLE, on_readable) == 0;
}

static void on_retry(void *arg)
{
    struct listener *listener = arg;
    listener->starved = false;
    listener_resume(listener);
    if (!listener->polling && listener->fd >= 0) timer_start(&listener->retry, RETRY_MS, 0);
}

static void on_exhausted(struct listener *listener, int reason)
{
    if (!listener->exhausted)
        log_warn("listener", "accept_paused", log_c("error", strerror(reason)), log_uint("port", listener->port));
    listener->exhausted = listener->starved = true;
    pause_accepting(listener);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN && listener->fd >= 0; i++) {
        if (!listener->options.has_room(listener->options.ctx)) {
            pause_accepting(listener);
            return;
        }
        struct sockaddr_storage address = {0};
        socklen_t address_len = sizeof address;
        int fd = accept4(listener->fd, (struct sockaddr *)&address, &address_len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == ECONNABORTED || errno == EINTR) continue;
            if (errno != EAGAIN) on_exhausted(listener, errno);
            return;
        }
        char remote[LISTENER_REMOTE_BYTES];
        listener->exhausted = false;
        format_remote(&address, remote);
        set_socket_options(&listener->options, fd);
        listener->options.on_accept(listener->options.ctx, fd, remote);
    }
}

// ---- the socket ----------------------------------------------------------------------------------------------

static enum error_code resolve(struct str text, struct sockaddr_storage *out, socklen_t *out_len, struct error *err)
{
    struct str host;
    uint16_t port = 0;
    char name[INET6_ADDRSTRLEN] = "";
    enum error_code code = parse_address(text, &host, &port, err);
    if (code != ERROR_NONE) return code;
    if (str_eq(host, STR("localhost"))) host = STR("127.0.0.1");
    if (host.len >= sizeof name) return error_set(err, ERROR_INVALID, "invalid IP address %.*s", STR_ARG(host));
    if (host.len) memcpy(name, host.at, host.len);
    struct sockaddr_storage address = {0};
    struct sockaddr_in *in4 = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address;
    if (host.len && inet_pton(AF_INET, name, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
        in4->sin_port = htons(port);
        *out_len = sizeof *in4;
    } else if (!host.len || inet_pton(AF_INET6, name, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6; // without a host: any address, IPv4 included
        in6->sin6_port = htons(port);
        *out_len = sizeof *in6;
    } else {
        return error_set(err, ERROR_INVALID, "invalid IP address %s", name);
    }
    *out = address;
    return ERROR_NONE;
}

static bool bind_and_listen(int fd, const struct sockaddr_storage *address, socklen_t address_len)
{
    int on = 1;
    int off = 0;
    if (address->ss_family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
           bind(fd, (const struct sockaddr *)address, address_len) == 0 && listen(fd, BACKLOG) == 0;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0) return 0;
    if (address.ss_family == AF_INET) return ntohs(((struct sockaddr_in *)&address)->sin_port);
    return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
}

static enum error_code open_socket(struct str text, int *out_fd, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t address_len = 0;
    enum error_code code = resolve(text, &address, &address_len, err);
    if (code != ERROR_NONE) return code;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 && errno == EAFNOSUPPORT && address.ss_family == AF_INET6) {
        // A host without IPv6: every address is then every IPv4 address.
        struct sockaddr_in6 in6;
        memcpy(&in6, &address, sizeof in6);
        struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = in6.sin6_port};
        memcpy(&address, &in4, sizeof in4);
        address_len = sizeof in4;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    if (fd < 0) return error_set(err, ERROR_IO, "cannot create a socket for %.*s: %s", STR_ARG(text), strerror(errno));
    if (!bind_and_listen(fd, &address, address_len)) {
        code = error_set(err, ERROR_IO, "cannot listen on %.*s: %s", STR_ARG(text), strerror(errno));
        close(fd);
        return code;
    }
    *out_fd = fd;
    return ERROR_NONE;
}

enum error_code listener_probe(struct str text, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t address_len = 0;
    int on = 1, off = 0;
    enum error_code code = resolve(text, &address, &address_len, err);
    if (code != ERROR_NONE) return code;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return ERROR_NONE; // whoever listens there in earnest finds out why
    if (address.ss_family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    // With SO_REUSEADDR connections that linger are no obstacle, but sockets that listen are.
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&address, address_len) != 0 && errno == EADDRINUSE)
        code = error_set(err, ERROR_CONFLICT, "another process already listens on %.*s", STR_ARG(text));
    close(fd);
    return code;
}

// ---- life ----------------------------------------------------------------------------------------------------

enum error_code listener_create(struct loop *loop, const struct listener_options *options, struct listener **out,
                                struct error *err)
{
    int fd = -1;
    enum error_code code = open_socket(options->address, &fd, err);
    if (code != ERROR_NONE) return code;
    struct listener *listener = mem_zalloc(sizeof *listener);
    listener->options = *options;
    listener->options.address = (struct str){0};
    if (uv_poll_init(loop_uv(loop), &listener->poll, fd) != 0) {
        close(fd);
        mem_free(listener);
        return error_set(err, ERROR_IO, "cannot watch the socket of %.*s", STR_ARG(options->address));
    }
    timer_init(&listener->retry, loop_uv(loop), on_retry, listener);
    listener->poll.data = listener;
    listener->is_poll_open = true;
    listener->fd = fd;
    listener->port = bound_port(fd);
    on_retry(listener);
    *out = listener;
    return ERROR_NONE;
}

uint16_t listener_port(const struct listener *listener)
{
    return listener->port;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;
    listener->is_poll_open = false;
    if (listener->destroyed) mem_free(listener);
}

void listener_stop(struct listener *listener)
{
    if (listener->fd < 0) return;
    pause_accepting(listener);
    uv_close((uv_handle_t *)&listener->poll, on_handle_closed);
    timer_finish(&listener->retry);
    close(listener->fd);
    listener->fd = -1;
}

void listener_destroy(struct listener *listener)
{
    if (!listener) return;
    listener_stop(listener);
    listener->destroyed = true;
    if (!listener->is_poll_open) mem_free(listener);
}
