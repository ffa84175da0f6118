#include "agent/tunnel/dialer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { ATTEMPT_MS_MIN = 500 };

struct agent_dialer {
    uv_loop_t *loop;
    uv_getaddrinfo_t resolve;
    bool resolving;
    uv_timer_t timer; // of the attempt; closed last
    bool closed;
    uv_poll_t *poll; // of the attempt that is under way, or NULL
    int fd;          // its socket
    struct addrinfo *addresses, *next;
    uint64_t deadline_ms;
    agent_dialer_done_fn on_done;
    void *arg;
    struct error err;
    char host[256];
    char port[8];
};

static void free_when_closed(struct agent_dialer *d)
{
    if (d->resolving || !d->closed) return;
    uv_freeaddrinfo(d->addresses);
    mem_free(d);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct agent_dialer *d = handle->data;
    d->closed = true;
    free_when_closed(d);
}

static void on_poll_closed(uv_handle_t *handle)
{
    mem_free(handle);
}

static void end_attempt(struct agent_dialer *d, bool keep_fd)
{
    if (d->poll) uv_close((uv_handle_t *)d->poll, on_poll_closed);
    d->poll = NULL;
    if (!keep_fd && d->fd >= 0) close(d->fd);
    d->fd = -1;
}

void agent_dialer_cancel(struct agent_dialer *d)
{
    end_attempt(d, false);
    d->on_done = NULL;
    if (d->resolving) uv_cancel((uv_req_t *)&d->resolve);
    uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}

static void finish(struct agent_dialer *d, int fd)
{
    agent_dialer_done_fn on_done = d->on_done;
    void *arg = d->arg;
    struct error err = d->err;
    end_attempt(d, fd >= 0);
    agent_dialer_cancel(d);
    on_done(arg, fd, &err);
}

static uint64_t attempt_ms(const struct agent_dialer *d)
{
    uint64_t now = clock_mono_ms(), left = d->deadline_ms > now ? d->deadline_ms - now : 0;
    unsigned addresses = 1;
    for (const struct addrinfo *a = d->next; a; a = a->ai_next)
        addresses++;
    return left / addresses > ATTEMPT_MS_MIN ? left / addresses : ATTEMPT_MS_MIN;
}

static void attempt_next(struct agent_dialer *d);

static void attempt_failed(struct agent_dialer *d, int error)
{
    error_set(&d->err, error == ETIMEDOUT ? ERROR_TIMEOUT : ERROR_IO, "connect to %s:%s: %s", d->host, d->port,
              strerror(error));
    end_attempt(d, false);
    attempt_next(d);
}

static void on_connected(uv_poll_t *poll, int status, int events)
{
    struct agent_dialer *d = poll->data;
    int error = 0;
    socklen_t len = sizeof(error);
    (void)events;
    // libuv reports EBADF for every failed socket: the socket itself knows why.
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0) error = errno;
    if (!error && status < 0) error = -status;
    if (error) {
        attempt_failed(d, error);
        return;
    }
    int on = 1;
    setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    finish(d, d->fd);
}

static void on_timer(uv_timer_t *timer)
{
    struct agent_dialer *d = timer->data;
    if (d->poll) {
        attempt_failed(d, ETIMEDOUT);
    } else {
        error_set(&d->err, ERROR_TIMEOUT, "resolve %s: timed out", d->host);
        finish(d, -1);
    }
}

// Begins to connect to one address; false with errno when that fails at once.
static bool attempt(struct agent_dialer *d, const struct addrinfo *address)
{
    d->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->fd < 0) return false;
    if (connect(d->fd, address->ai_addr, address->ai_addrlen) < 0 && errno != EINPROGRESS) return false;
    d->poll = mem_zalloc(sizeof(*d->poll));
    d->poll->data = d;
    int rc = uv_poll_init(d->loop, d->poll, d->fd);
    if (rc < 0) {
        mem_free(d->poll);
        d->poll = NULL;
        errno = -rc;
        return false;
    }
    uv_poll_start(d->poll, UV_WRITABLE, on_connected);
    uv_timer_start(&d->timer, on_timer, attempt_ms(d), 0);
    return true;
}

static void attempt_next(struct agent_dialer *d)
{
    while (d->next && clock_mono_ms() < d->deadline_ms) {
        const struct addrinfo *address = d->next;
        d->next = address->ai_next;
        if (attempt(d, address)) return;
        error_set(&d->err, ERROR_IO, "connect to %s:%s: %s", d->host, d->port, strerror(errno));
        end_attempt(d, false);
    }
    finish(d, -1);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *addresses)
{
    struct agent_dialer *d = resolve->data;
    d->resolving = false;
    d->addresses = d->next = addresses;
    if (!d->on_done) { // cancelled meanwhile
        free_when_closed(d);
        return;
    }
    uv_timer_stop(&d->timer);
    if (status < 0) error_set(&d->err, ERROR_IO, "resolve %s: %s", d->host, uv_strerror(status));
    attempt_next(d);
}

static void on_failed(uv_timer_t *timer)
{
    finish(timer->data, -1);
}

static void on_start(uv_timer_t *timer)
{
    struct agent_dialer *d = timer->data;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    uint64_t now = clock_mono_ms();
    uv_timer_start(&d->timer, on_timer, d->deadline_ms > now ? d->deadline_ms - now : 1, 0);
    d->resolve.data = d;
    int rc = uv_getaddrinfo(d->loop, &d->resolve, on_resolved, d->host, d->port, &hints);
    if (rc < 0) {
        error_set(&d->err, ERROR_IO, "resolve %s: %s", d->host, uv_strerror(rc));
        finish(d, -1);
        return;
    }
    d->resolving = true;
}

struct agent_dialer *agent_dialer_start(uv_loop_t *loop, struct str host, uint16_t port, uint64_t timeout_ms,
                                        agent_dialer_done_fn on_done, void *arg)
{
    struct agent_dialer *d = mem_zalloc(sizeof(*d));
    d->loop = loop;
    d->fd = -1;
    d->deadline_ms = clock_mono_ms() + timeout_ms;
    d->on_done = on_done;
    d->arg = arg;
    snprintf(d->host, sizeof(d->host), "%.*s", STR_ARG(host));
    snprintf(d->port, sizeof(d->port), "%u", (unsigned)port);
    uv_timer_init(loop, &d->timer);
    d->timer.data = d;
    // A literal address needs no resolver; connect() does not block, and its outcome comes from the
    // loop.
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    if (getaddrinfo(d->host, d->port, &hints, &d->addresses) == 0) {
        if (attempt(d, d->addresses)) return d;
        error_set(&d->err, ERROR_IO, "connect to %s:%s: %s", d->host, d->port, strerror(errno));
        end_attempt(d, false);
    }
    uv_timer_start(&d->timer, d->addresses ? on_failed : on_start, 0, 0);
    return d;
}
