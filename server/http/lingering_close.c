#include "server/http/lingering_close.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

enum { READS_PER_TURN = 16, READ_BYTES = 16 * 1024 };

struct lingering_close {
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

struct lingering_close *lingering_close_create(uv_loop_t *uv, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return NULL;
    struct lingering_close *lingering_close = mem_zalloc(sizeof *lingering_close);
    lingering_close->uv = uv;
    lingering_close->fd = copy;
    return lingering_close;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct lingering_close *lingering_close = handle->data;
    if (--lingering_close->handles_open > 0) return;
    void (*on_over)(void *arg) = lingering_close->on_over;
    void *arg = lingering_close->arg;
    close(lingering_close->fd);
    mem_free(lingering_close);
    on_over(arg);
}

void lingering_close_stop(struct lingering_close *lingering_close)
{
    if (!lingering_close || lingering_close->stopped) return;
    if (!lingering_close->started) {
        close(lingering_close->fd);
        mem_free(lingering_close);
        return;
    }
    lingering_close->stopped = true;
    if (lingering_close->handles_open == 2) uv_close((uv_handle_t *)&lingering_close->poll, on_handle_closed);
    uv_close((uv_handle_t *)&lingering_close->timer, on_handle_closed);
}

static void on_timer(uv_timer_t *timer)
{
    lingering_close_stop(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct lingering_close *lingering_close = poll->data;
    char dropped[READ_BYTES];
    (void)events;
    for (int i = 0; i < READS_PER_TURN && status == 0; i++) {
        ssize_t n = read(lingering_close->fd, dropped, sizeof dropped);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) break;
        lingering_close->dropped_bytes += (size_t)n;
        if (lingering_close->dropped_bytes >= LINGERING_CLOSE_BYTES_MAX) break;
        if (i + 1 == READS_PER_TURN) return; // the others first
    }
    lingering_close_stop(lingering_close);
}

void lingering_close_start(struct lingering_close *lingering_close, void (*on_over)(void *arg), void *arg)
{
    lingering_close->started = true;
    lingering_close->on_over = on_over;
    lingering_close->arg = arg;
    lingering_close->poll.data = lingering_close->timer.data = lingering_close;
    uv_timer_init(lingering_close->uv, &lingering_close->timer);
    lingering_close->handles_open = 1;
    (void)shutdown(lingering_close->fd, SHUT_WR);
    if (uv_poll_init(lingering_close->uv, &lingering_close->poll, lingering_close->fd) == 0) {
        lingering_close->handles_open = 2;
        uv_poll_start(&lingering_close->poll, UV_READABLE, on_poll);
    }
    uv_timer_start(&lingering_close->timer, on_timer, lingering_close->handles_open == 2 ? LINGERING_CLOSE_MS : 0, 0);
}
