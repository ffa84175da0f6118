#include "cli/forward/forward_listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { TURN_MS = 1000, OWN_WAITS = 2 };

struct forward_listener {
    const struct forward_target *target;
    CURLM *multi;
    int fd, signals;
    char address[80];
    struct forward_connection *connections[FORWARD_CONNECTIONS_MAX];
    size_t count;
};

static int bind_to(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 64) == 0) return fd;
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

static void note_address(struct forward_listener *listener)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    char host[64] = "?", port[8] = "?";
    if (getsockname(listener->fd, (struct sockaddr *)&bound, &len) == 0)
        getnameinfo((struct sockaddr *)&bound, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(listener->address, sizeof listener->address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

enum error_code forward_listener_create(const char *host, uint16_t port, const struct forward_target *target,
                                        struct forward_listener **out, struct error *err)
{
    struct addrinfo *addresses = NULL, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    int failed = getaddrinfo(host, service, &hints, &addresses);
    if (failed) return error_set(err, ERROR_INVALID, "--address %.100s: %s", host, gai_strerror(failed));
    int fd = bind_to(addresses), cause = errno;
    freeaddrinfo(addresses);
    if (fd < 0)
        return error_set(err, ERROR_INVALID, "%.100s port %u cannot be listened on: %s", host, port, strerror(cause));
    struct forward_listener *listener = mem_zalloc(sizeof *listener);
    *listener = (struct forward_listener){.target = target, .multi = curl_multi_init(), .fd = fd, .signals = -1};
    note_address(listener);
    if (!listener->multi) {
        forward_listener_destroy(listener);
        return error_set(err, ERROR_INTERNAL, "libcurl could not be set up");
    }
    *out = listener;
    return ERROR_NONE;
}

void forward_listener_destroy(struct forward_listener *listener)
{
    if (!listener) return;
    for (size_t i = 0; i < listener->count; i++)
        forward_connection_destroy(listener->connections[i]);
    if (listener->multi) curl_multi_cleanup(listener->multi);
    if (listener->signals >= 0) close(listener->signals);
    close(listener->fd);
    mem_free(listener);
}

const char *forward_listener_address(const struct forward_listener *listener)
{
    return listener->address;
}

static void accept_all(struct forward_listener *listener)
{
    while (listener->count < FORWARD_CONNECTIONS_MAX) {
        int on = 1, fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        listener->connections[listener->count++] =
            forward_connection_create(fd, listener->multi, listener->target, clock_mono_ms());
    }
}

static void take_connected(struct forward_listener *listener)
{
    int left;
    CURLMsg *message;
    curl_multi_perform(listener->multi, &left);
    while ((message = curl_multi_info_read(listener->multi, &left))) {
        if (message->msg == CURLMSG_DONE)
            forward_connection_on_connected(forward_connection_of(message->easy_handle), message->data.result);
    }
}

static void move_all(struct forward_listener *listener)
{
    for (size_t i = 0; i < listener->count;) {
        if (forward_connection_move(listener->connections[i], clock_mono_ms())) {
            i++;
            continue;
        }
        forward_connection_destroy(listener->connections[i]);
        listener->connections[i] = listener->connections[--listener->count];
    }
}

// SIGINT and SIGTERM become readable; a closed connection is seen where it is written to.
static enum error_code catch_signals(struct forward_listener *listener, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0) listener->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (listener->signals >= 0) return ERROR_NONE;
    return error_set(err, ERROR_INTERNAL, "signals cannot be waited for: %s", strerror(errno));
}

enum error_code forward_listener_run(struct forward_listener *listener, struct error *err)
{
    static struct curl_waitfd waits[OWN_WAITS + 2 * FORWARD_CONNECTIONS_MAX];
    enum error_code code = catch_signals(listener, err);
    while (code == ERROR_NONE) {
        unsigned count = 0;
        waits[count++] = (struct curl_waitfd){.fd = listener->signals, .events = CURL_WAIT_POLLIN};
        if (listener->count < FORWARD_CONNECTIONS_MAX)
            waits[count++] = (struct curl_waitfd){.fd = listener->fd, .events = CURL_WAIT_POLLIN};
        for (size_t i = 0; i < listener->count; i++)
            count += forward_connection_waits(listener->connections[i], waits + count);
        if (curl_multi_poll(listener->multi, waits, count, TURN_MS, NULL) != CURLM_OK)
            return error_set(err, ERROR_INTERNAL, "libcurl cannot wait for connections");
        struct signalfd_siginfo signal_taken;
        if (read(listener->signals, &signal_taken, sizeof signal_taken) > 0) break;
        accept_all(listener);
        take_connected(listener);
        move_all(listener);
    }
    return code;
}
