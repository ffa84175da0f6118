#include "server/http/farewell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

enum { READS_PER_TURN = 16, READ_BYTES = 16 * 1024 };

struct farewell {
    uv_loop_t *uv;
    uv_poll_t poll;
    uv_timer_t timer;
    int fd;
    unsigned handles_open;
    size_t dropped_bytes;
    bool started, stopped;
    void (*on_over)(void *arg);
    void *arg;
};

struct farewell *farewell_create(uv_loop_t *uv, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return NULL;
    struct farewell *farewell = mem_zalloc(sizeof *farewell);
    farewell->uv = uv;
    farewell->fd = copy;
    return farewell;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct farewell *farewell = handle->data;
    if (--farewell->handles_open > 0) return;
    void (*on_over)(void *arg) = farewell->on_over;
    void *arg = farewell->arg;
    close(farewell->fd);
    mem_free(farewell);
    on_over(arg);
}

void farewell_stop(struct farewell *farewell)
{
    if (!farewell || farewell->stopped) return;
    if (!farewell->started) {
        close(farewell->fd);
        mem_free(farewell);
        return;
    }
    farewell->stopped = true;
    if (farewell->handles_open == 2) uv_close((uv_handle_t *)&farewell->poll, on_handle_closed);
    uv_close((uv_handle_t *)&farewell->timer, on_handle_closed);
}

static void on_timer(uv_timer_t *timer)
{
    farewell_stop(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct farewell *farewell = poll->data;
    char dropped[READ_BYTES];
    (void)events;
    for (int i = 0; i < READS_PER_TURN && status == 0; i++) {
        ssize_t n = read(farewell->fd, dropped, sizeof dropped);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) break;
        farewell->dropped_bytes += (size_t)n;
        if (farewell->dropped_bytes >= FAREWELL_BYTES_MAX) break;
        if (i + 1 == READS_PER_TURN) return; // the others first
    }
    farewell_stop(farewell);
}

void farewell_start(struct farewell *farewell, void (*on_over)(void *arg), void *arg)
{
    farewell->started = true;
    farewell->on_over = on_over;
    farewell->arg = arg;
    farewell->poll.data = farewell->timer.data = farewell;
    uv_timer_init(farewell->uv, &farewell->timer);
    farewell->handles_open = 1;
    (void)shutdown(farewell->fd, SHUT_WR);
    if (uv_poll_init(farewell->uv, &farewell->poll, farewell->fd) == 0) {
        farewell->handles_open = 2;
        uv_poll_start(&farewell->poll, UV_READABLE, on_poll);
    }
    uv_timer_start(&farewell->timer, on_timer, farewell->handles_open == 2 ? FAREWELL_MS : 0, 0);
}
