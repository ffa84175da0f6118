#include "server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"

enum {
    BACKLOG = 1024,
    ACCEPTS_PER_TURN = 32, // connections that live get their share of the loop
    RETRY_MS = 200,        // after the system ran out of descriptors
    USER_TIMEOUT_MS = 60 * 1000,
    KEEP_IDLE_S = 60,
    KEEP_INTERVAL_S = 15,
    KEEP_COUNT = 4,
};

struct listener {
    size_t handle_bytes;
    uv_loop_t *uv;
    uv_poll_t poll;
    uv_timer_t retry;
    int fd; // -1 once stopped
    uint16_t port;
    size_t connections, connections_max;
    listener_accepted on_accepted;
    void *ctx;
    unsigned handles_open;
    bool polling, destroyed;
    bool exhausted; // said so in the log; said again only after it was over
};

// None of them is needed for correctness: a socket that refuses one is served all the same.
static void set_socket_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

static void pause_accepting(struct listener *listener)
{
    if (!listener->polling) return;
    uv_poll_stop(&listener->poll);
    listener->polling = false;
}

static void on_readable(uv_poll_t *poll, int status, int events);

static bool has_room(const struct listener *listener)
{
    return listener->connections_max == 0 || listener->connections < listener->connections_max;
}

static void resume_accepting(struct listener *listener)
{
    if (listener->polling || listener->fd < 0 || !has_room(listener) || uv_is_active((uv_handle_t *)&listener->retry))
        return;
    listener->polling = uv_poll_start(&listener->poll, UV_READABLE, on_readable) == 0;
}

static void on_retry(uv_timer_t *timer)
{
    resume_accepting(timer->data);
}

static void drop_handle(uv_handle_t *handle)
{
    mem_free(handle);
}

static void hand_over(struct listener *listener, int fd)
{
    uv_tcp_t *tcp = mem_zalloc(listener->handle_bytes);
    set_socket_options(fd);
    uv_tcp_init(listener->uv, tcp);
    if (uv_tcp_open(tcp, fd) != 0) {
        close(fd);
        uv_close((uv_handle_t *)tcp, drop_handle);
        return;
    }
    listener->connections++;
    listener->on_accepted(listener->ctx, tcp);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN && listener->fd >= 0; i++) {
        if (!has_room(listener)) {
            pause_accepting(listener);
            return;
        }
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            listener->exhausted = false;
            hand_over(listener, fd);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR) continue;
        if (errno != EAGAIN) {
            if (!listener->exhausted)
                log_warn("listener", "accept_paused", log_c("error", strerror(errno)),
                         log_uint("port", listener->port));
            listener->exhausted = true;
            pause_accepting(listener);
            uv_timer_start(&listener->retry, on_retry, RETRY_MS, 0);
        }
        return;
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
    if (host.len >= sizeof name) return error_set(err, ERROR_INVALID, "%.*s is no IP address", STR_ARG(host));
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
        return error_set(err, ERROR_INVALID, "%s is no IP address", name);
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

static enum error_code open_socket(const char *text, int *out_fd, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t address_len = 0;
    enum error_code code = resolve(str_c(text), &address, &address_len, err);
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
    if (fd < 0) return error_set(err, ERROR_IO, "cannot make a socket for %s: %s", text, strerror(errno));
    if (!bind_and_listen(fd, &address, address_len)) {
        code = error_set(err, ERROR_IO, "cannot listen on %s: %s", text, strerror(errno));
        close(fd);
        return code;
    }
    *out_fd = fd;
    return ERROR_NONE;
}

// ---- life ----------------------------------------------------------------------------------------------------

struct listener *listener_create(struct loop *loop, const char *address, size_t connections_max,
                                 listener_accepted on_accepted, void *ctx, struct error *err)
{
    int fd = -1;
    if (open_socket(address, &fd, err) != ERROR_NONE) return NULL;
    struct listener *listener = mem_zalloc(sizeof *listener);
    listener->handle_bytes = sizeof(uv_tcp_t);
    listener->uv = loop_uv(loop);
    if (uv_poll_init(listener->uv, &listener->poll, fd) != 0) {
        (void)error_set(err, ERROR_IO, "cannot watch the socket of %s", address);
        close(fd);
        mem_free(listener);
        return NULL;
    }
    uv_timer_init(listener->uv, &listener->retry);
    listener->poll.data = listener->retry.data = listener;
    listener->handles_open = 2;
    listener->fd = fd;
    listener->port = bound_port(fd);
    listener->connections_max = connections_max;
    listener->on_accepted = on_accepted;
    listener->ctx = ctx;
    resume_accepting(listener);
    return listener;
}

void listener_set_handle_bytes(struct listener *listener, size_t bytes)
{
    listener->handle_bytes = bytes;
}

uint16_t listener_port(const struct listener *listener)
{
    return listener->port;
}

void listener_connection_closed(struct listener *listener)
{
    listener->connections--;
    resume_accepting(listener);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;
    listener->handles_open--;
    if (listener->handles_open == 0 && listener->destroyed) mem_free(listener);
}

void listener_stop(struct listener *listener)
{
    if (listener->fd < 0) return;
    pause_accepting(listener);
    uv_close((uv_handle_t *)&listener->poll, on_handle_closed);
    uv_close((uv_handle_t *)&listener->retry, on_handle_closed);
    close(listener->fd);
    listener->fd = -1;
}

void listener_destroy(struct listener *listener)
{
    if (!listener) return;
    listener_stop(listener);
    listener->destroyed = true;
    if (listener->handles_open == 0) mem_free(listener);
}
