#include "server/tls/tcp_listener.h"

#include <unistd.h>

#include "base/loop/listener.h"
#include "base/mem.h"

enum { USER_TIMEOUT_MS = 60 * 1000 };

struct tcp_listener {
    struct listener *listener;
    uv_loop_t *uv;
    size_t handle_bytes;
    struct quota *quota;
    tcp_listener_accepted on_accepted;
    void *ctx;
};

static bool has_room(void *ctx)
{
    const struct tcp_listener *listener = ctx;
    return quota_has_room(listener->quota);
}

static void drop_handle(uv_handle_t *handle)
{
    mem_free(handle);
}

uv_tcp_t *tcp_listener_adopt(struct tcp_listener *listener, int fd)
{
    uv_tcp_t *tcp = mem_zalloc(listener->handle_bytes);
    uv_tcp_init(listener->uv, tcp);
    if (uv_tcp_open(tcp, fd) != 0) {
        uv_close((uv_handle_t *)tcp, drop_handle);
        return NULL;
    }
    quota_add(listener->quota);
    return tcp;
}

static void on_accept(void *ctx, int fd, const char *remote)
{
    struct tcp_listener *listener = ctx;
    uv_tcp_t *tcp = tcp_listener_adopt(listener, fd);
    (void)remote;
    if (tcp)
        listener->on_accepted(listener->ctx, tcp);
    else
        close(fd);
}

struct tcp_listener *tcp_listener_create(struct loop *loop, const char *address, struct quota *quota,
                                         tcp_listener_accepted on_accepted, void *ctx, struct error *err)
{
    struct tcp_listener *listener = mem_alloc(sizeof *listener);
    *listener = (struct tcp_listener){
        .uv = loop_uv(loop),
        .handle_bytes = sizeof(uv_tcp_t),
        .quota = quota,
        .on_accepted = on_accepted,
        .ctx = ctx,
    };
    const struct listener_options options = {
        .address = str_c(address),
        .user_timeout_ms = USER_TIMEOUT_MS,
        .ctx = listener,
        .has_room = has_room,
        .on_accept = on_accept,
    };
    if (listener_create(loop, &options, &listener->listener, err) == ERROR_NONE) return listener;
    mem_free(listener);
    return NULL;
}

void tcp_listener_set_handle_bytes(struct tcp_listener *listener, size_t bytes)
{
    listener->handle_bytes = bytes;
}

uint16_t tcp_listener_port(const struct tcp_listener *listener)
{
    return listener_port(listener->listener);
}

void tcp_listener_connection_closed(struct tcp_listener *listener)
{
    quota_give(listener->quota);
    listener_resume(listener->listener);
}

void tcp_listener_stop(struct tcp_listener *listener)
{
    listener_stop(listener->listener);
}

void tcp_listener_destroy(struct tcp_listener *listener)
{
    if (!listener) return;
    listener_destroy(listener->listener);
    mem_free(listener);
}
