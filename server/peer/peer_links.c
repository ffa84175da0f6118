#include "server/peer/peer_links.h"

#include <netinet/tcp.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "server/sessions/registry_table.h"

enum {
    LINKS_MAX = 256,
    CONNECT_MS = 2000, // name, TCP and TLS each
    USER_TIMEOUT_MS = 15000,
};

struct peer_link {
    struct peer_links *links;
    struct peer_link *next, **link;
    struct peer_pipe *pipe; // NULL: lost; the rest goes when nothing refers to it
    uv_tcp_t *tcp;          // until the pipe has it
    struct timer timer;     // of name and TCP
    uv_getaddrinfo_t resolving;
    uv_connect_t connecting;
    bool resolve_pending, connect_pending;
    uint64_t used_at_ms;
    char address[REGISTRY_ADDRESS_BYTES];
};

struct peer_links {
    struct loop *loop;
    struct peer_links_options options;
    struct peer_link *first;
    unsigned count;
    bool stopping, closing;
    loop_fn on_closed;
    void *closed_arg;
    struct metric *open;
};

static void check_closed(struct peer_links *links)
{
    if (!links->closing || links->first) return;
    loop_fn on_closed = links->on_closed;
    void *arg = links->closed_arg;
    SSL_CTX_free(links->options.tls);
    mem_free(links);
    on_closed(arg);
}

static void free_handle(uv_handle_t *handle)
{
    mem_free(handle);
}

// The pipe is gone; the memory goes when libuv has let go of the requests in it.
static void link_release(struct peer_link *link)
{
    timer_finish(&link->timer);
    if (link->tcp) uv_close((uv_handle_t *)link->tcp, free_handle); // ends a connect under way
    link->tcp = NULL;
    if (link->resolve_pending) uv_cancel((uv_req_t *)&link->resolving);
    if (link->pipe || link->resolve_pending || link->connect_pending) return;
    struct peer_links *links = link->links;
    *link->link = link->next;
    if (link->next) link->next->link = link->link;
    links->count--;
    metric_move(links->open, -1);
    mem_free(link);
    check_closed(links);
}

static void on_lost(void *arg, const char *reason)
{
    struct peer_link *link = arg;
    log_info("peer", "link_closed", log_c("address", link->address), log_c("reason", reason));
    link->pipe = NULL;
    link_release(link);
}

static void link_fail(struct peer_link *link, const char *what, int code)
{
    char text[96];
    if (!link->pipe) return;
    snprintf(text, sizeof text, "%s: %s", what, uv_strerror(code));
    peer_pipe_break(link->pipe, text);
}

// ---- connecting ----------------------------------------------------------------------------------------------------

static void on_timeout(void *arg)
{
    link_fail(arg, "connect", UV_ETIMEDOUT);
}

static void on_connected(uv_connect_t *request, int status)
{
    struct peer_link *link = request->data;
    link->connect_pending = false;
    if (!link->pipe || !link->tcp) {
        link_release(link);
        return;
    }
    if (status != 0) {
        link_fail(link, "connect", status);
        return;
    }
    timer_stop(&link->timer);
    uv_tcp_t *tcp = link->tcp;
    uv_os_fd_t fd;
    unsigned timeout_ms = USER_TIMEOUT_MS;
    link->tcp = NULL;
    uv_tcp_nodelay(tcp, 1);
    if (uv_fileno((uv_handle_t *)tcp, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    peer_pipe_attach(link->pipe, tcp, link->links->options.tls, CONNECT_MS);
}

static void link_connect(struct peer_link *link, const struct sockaddr *address)
{
    link->tcp = mem_zalloc(sizeof *link->tcp);
    link->connecting.data = link;
    uv_tcp_init(loop_uv(link->links->loop), link->tcp);
    int code = uv_tcp_connect(&link->connecting, link->tcp, address, on_connected);
    link->connect_pending = code == 0;
    if (code != 0) link_fail(link, "connect", code);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct peer_link *link = request->data;
    link->resolve_pending = false;
    if (!link->pipe)
        link_release(link);
    else if (status != 0 || !list)
        link_fail(link, "name", status ? status : UV_EAI_NODATA);
    else
        link_connect(link, list->ai_addr);
    uv_freeaddrinfo(list);
}

static void link_start(struct peer_link *link)
{
    char host[256], service[8];
    struct str name;
    uint16_t port;
    if (parse_address(str_c(link->address), &name, &port, NULL) != ERROR_NONE || !name.len || name.len >= sizeof host) {
        link_fail(link, "address", UV_EINVAL);
        return;
    }
    snprintf(host, sizeof host, "%.*s", STR_ARG(name));
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    link->resolving.data = link;
    int code = uv_getaddrinfo(loop_uv(link->links->loop), &link->resolving, on_resolved, host, service, &hints);
    link->resolve_pending = code == 0;
    if (code != 0) link_fail(link, "name", code);
}

static const struct peer_pipe_events pipe_events = {.on_lost = on_lost};

static struct peer_link *link_create(struct peer_links *links, const char *address)
{
    struct peer_link *link = mem_zalloc(sizeof *link);
    link->links = links;
    snprintf(link->address, sizeof link->address, "%s", address);
    link->pipe = peer_pipe_create(links->options.pool, false, 0, &pipe_events, link);
    timer_init(&link->timer, loop_uv(links->loop), on_timeout, link);
    timer_start(&link->timer, CONNECT_MS, 0);
    link->next = links->first;
    link->link = &links->first;
    if (link->next) link->next->link = &link->next;
    links->first = link;
    links->count++;
    metric_move(links->open, 1);
    link_start(link);
    return link;
}

// ---- the table -----------------------------------------------------------------------------------------------------

struct peer_pipe *peer_links_get(struct peer_links *links, const char *address)
{
    struct peer_link *link = links->first;
    while (link && !(link->pipe && peer_pipe_takes_calls(link->pipe) && strcmp(link->address, address) == 0))
        link = link->next;
    if (!link && !links->stopping && links->count < LINKS_MAX) link = link_create(links, address);
    if (!link || !peer_pipe_takes_calls(link->pipe) || peer_pipe_streams(link->pipe) >= links->options.streams_max)
        return NULL;
    link->used_at_ms = clock_mono_ms();
    return link->pipe;
}

void peer_links_tick(struct peer_links *links, uint64_t now_ms)
{
    for (struct peer_link *link = links->first; link; link = link->next) {
        if (!link->pipe) continue;
        peer_pipe_tick(link->pipe, now_ms);
        if (peer_pipe_streams(link->pipe))
            link->used_at_ms = now_ms;
        else if (now_ms >= link->used_at_ms + links->options.idle_ms)
            peer_pipe_retire(link->pipe);
    }
}

struct peer_links *peer_links_create(struct loop *loop, const struct peer_links_options *options)
{
    struct peer_links *links = mem_zalloc(sizeof *links);
    links->loop = loop;
    links->options = *options;
    SSL_CTX_up_ref(options->tls);
    links->open =
        metric_with(metrics_gauge("culvert_peer_links", "Connections to the peer listeners of other replicas.", NULL));
    return links;
}

void peer_links_set_tls(struct peer_links *links, SSL_CTX *tls)
{
    SSL_CTX_up_ref(tls);
    SSL_CTX_free(links->options.tls);
    links->options.tls = tls;
}

void peer_links_close(struct peer_links *links, loop_fn on_closed, void *arg)
{
    links->stopping = true;
    for (struct peer_link *link = links->first, *next; link; link = next) {
        next = link->next;
        peer_pipe_destroy(link->pipe);
        link->pipe = NULL;
        link_release(link);
    }
    links->closing = true;
    links->on_closed = on_closed;
    links->closed_arg = arg;
    check_closed(links);
}
