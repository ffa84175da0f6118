#include "tunnel/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"

enum {
    LISTENER_BACKLOG = 1024,
    LISTENER_BATCH = 16,               // accepted a turn: sessions that live get theirs, too
    LISTENER_RETRY_MS = 200,           // after the system ran out of descriptors
    LISTENER_UNSENT_BYTES = 64 * 1024, // what the kernel may hold unsent, so that a small answer never waits for more
};

struct tunnel_listener {
    struct tunnel_listener_options options;
    uv_poll_t poll;
    uv_timer_t retry;
    int fd;
    bool polling;
    unsigned handles_open;
};

static void listener_set_options(int fd, unsigned user_timeout_ms)
{
    int on = 1;
    int unsent = LISTENER_UNSENT_BYTES;
    int timeout = (int)user_timeout_ms;
    // None of them is needed for correctness: a socket that refuses one is served all the same.
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

static void listener_format_remote(const struct sockaddr_storage *address, char out[LISTENER_REMOTE_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in4->sin_addr, host, sizeof(host));
        snprintf(out, LISTENER_REMOTE_BYTES, "%s:%u", host, ntohs(in4->sin_port));
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        snprintf(out, LISTENER_REMOTE_BYTES, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        snprintf(out, LISTENER_REMOTE_BYTES, "?");
    }
}

static void listener_pause(struct tunnel_listener *listener)
{
    if (!listener->polling) return;
    uv_poll_stop(&listener->poll);
    listener->polling = false;
}

static void listener_on_readable(uv_poll_t *poll, int status, int events);

void tunnel_listener_resume(struct tunnel_listener *listener)
{
    if (listener->polling || uv_is_closing((uv_handle_t *)&listener->poll)) return;
    listener->polling = uv_poll_start(&listener->poll, UV_READABLE, listener_on_readable) == 0;
}

static void listener_on_retry(uv_timer_t *timer)
{
    tunnel_listener_resume(timer->data);
}

static void listener_on_readable(uv_poll_t *poll, int status, int events)
{
    struct tunnel_listener *listener = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < LISTENER_BATCH; i++) {
        if (!listener->options.has_room(listener->options.ctx)) {
            listener_pause(listener);
            return;
        }
        struct sockaddr_storage address;
        socklen_t address_len = sizeof(address);
        int fd = accept4(listener->fd, (struct sockaddr *)&address, &address_len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                log_warn("tunnel", "accept_paused", log_c("error", strerror(errno)));
                listener_pause(listener);
                uv_timer_start(&listener->retry, listener_on_retry, LISTENER_RETRY_MS, 0);
            }
            return;
        }
        char remote[LISTENER_REMOTE_BYTES];
        listener_format_remote(&address, remote);
        listener_set_options(fd, listener->options.user_timeout_ms);
        listener->options.on_accept(listener->options.ctx, fd, remote);
    }
}

static enum error_code listener_address(struct str text, struct sockaddr_storage *out, socklen_t *out_len,
                                        struct error *err)
{
    struct str host;
    uint16_t port = 0;
    enum error_code code = parse_address(text, &host, &port, err);
    if (code) return code;
    char name[INET6_ADDRSTRLEN];
    if (host.len >= sizeof(name)) return error_set(err, ERROR_INVALID, "listen address is no IP address");
    memcpy(name, host.at ? host.at : "", host.len);
    name[host.len] = '\0';
    memset(out, 0, sizeof(*out));
    struct sockaddr_in *in4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    if (str_eq(host, STR("localhost"))) memcpy(name, "127.0.0.1", sizeof("127.0.0.1"));
    if (host.len && inet_pton(AF_INET, name, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
        in4->sin_port = htons(port);
        *out_len = sizeof(*in4);
        return ERROR_NONE;
    }
    if (host.len && inet_pton(AF_INET6, name, &in6->sin6_addr) != 1)
        return error_set(err, ERROR_INVALID, "listen address %s is no IP address", name);
    in6->sin6_family = AF_INET6; // with an empty host: any address, IPv4 included
    in6->sin6_port = htons(port);
    *out_len = sizeof(*in6);
    return ERROR_NONE;
}

static enum error_code listener_open_socket(struct str text, int *out_fd, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t address_len = 0;
    enum error_code code = listener_address(text, &address, &address_len, err);
    if (code) return code;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return error_set(err, ERROR_IO, "socket: %s", strerror(errno));
    int on = 1;
    int off = 0;
    if (address.ss_family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&address, address_len) != 0 || listen(fd, LISTENER_BACKLOG) != 0) {
        code = error_set(err, ERROR_IO, "cannot listen on %.*s: %s", STR_ARG(text), strerror(errno));
        close(fd);
        return code;
    }
    *out_fd = fd;
    return ERROR_NONE;
}

enum error_code tunnel_listener_create(uv_loop_t *loop, const struct tunnel_listener_options *options,
                                       struct tunnel_listener **out, struct error *err)
{
    int fd = -1;
    enum error_code code = listener_open_socket(options->address, &fd, err);
    if (code) return code;
    struct tunnel_listener *listener = mem_zalloc(sizeof(*listener));
    listener->options = *options;
    listener->fd = fd;
    if (uv_poll_init(loop, &listener->poll, fd) != 0) {
        close(fd);
        mem_free(listener);
        return error_set(err, ERROR_IO, "cannot watch the listening socket");
    }
    uv_timer_init(loop, &listener->retry);
    listener->poll.data = listener;
    listener->retry.data = listener;
    listener->handles_open = 2;
    tunnel_listener_resume(listener);
    *out = listener;
    return ERROR_NONE;
}

static void listener_on_handle_closed(uv_handle_t *handle)
{
    struct tunnel_listener *listener = handle->data;
    if (--listener->handles_open == 0) mem_free(listener);
}

void tunnel_listener_destroy(struct tunnel_listener *listener)
{
    if (!listener) return;
    uv_close((uv_handle_t *)&listener->poll, listener_on_handle_closed);
    uv_close((uv_handle_t *)&listener->retry, listener_on_handle_closed);
    close(listener->fd);
}
