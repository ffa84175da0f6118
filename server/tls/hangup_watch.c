#include "server/tls/hangup_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"

struct hangup_watch {
    uv_poll_t poll;
    int fd;
    void (*on_hangup)(void *arg, bool reset);
    void *arg;
};

static void on_closed(uv_handle_t *handle)
{
    struct hangup_watch *watch = handle->data;
    close(watch->fd);
    mem_free(watch);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct hangup_watch *watch = poll->data;
    uv_poll_stop(poll);
    if (status >= 0 && !(events & UV_DISCONNECT)) return; // urgent data, which nobody sends
    // Of a peer that has ended its direction the end would be told for ever; a reset is told with
    // whatever is asked for.
    if (status >= 0) (void)uv_poll_start(poll, UV_PRIORITIZED, on_event);
    watch->on_hangup(watch->arg, status < 0);
}

struct hangup_watch *hangup_watch_create(uv_tcp_t *tcp, bool ended, void (*on_hangup)(void *arg, bool reset), void *arg)
{
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)tcp, &fd) != 0) return NULL;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return NULL;
    struct hangup_watch *watch = mem_zalloc(sizeof *watch);
    *watch = (struct hangup_watch){.fd = copy, .on_hangup = on_hangup, .arg = arg};
    if (uv_poll_init(tcp->loop, &watch->poll, copy) != 0) {
        close(copy);
        mem_free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    if (uv_poll_start(&watch->poll, ended ? UV_PRIORITIZED : UV_DISCONNECT, on_event) == 0) return watch;
    hangup_watch_destroy(watch);
    return NULL;
}

void hangup_watch_destroy(struct hangup_watch *watch)
{
    if (watch) uv_close((uv_handle_t *)&watch->poll, on_closed);
}
