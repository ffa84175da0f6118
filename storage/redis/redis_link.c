#include "storage/redis/redis_link.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"

enum { RETRY_BASE_MS = 100, RETRY_CAP_MS = 5000, ADDRESS_BYTES = 64 };

enum link_state { LINK_RESTING, LINK_RESOLVING, LINK_CONNECTING, LINK_READY, LINK_CLOSED };

// What hiredis is given as its event loop, for one context.
struct link_events {
    uv_poll_t poll;
    struct redis_link *link;
    redisAsyncContext *context; // NULL once hiredis has freed it
    int wanted;
};

struct redis_link {
    struct redis_link_options options;
    enum link_state state;
    redisAsyncContext *context;
    struct redis_tls *tls; // while there is a context, with rediss://
    struct link_events *events;
    uv_timer_t timer; // the next try, or the time limit of this one
    uv_getaddrinfo_t *resolving;
    struct backoff backoff;
    struct error reason; // why the context is going
    bool has_reason;
};

static void on_timer(uv_timer_t *timer);

// ---- hiredis' event loop -------------------------------------------------------------------------------------------

static void on_poll(uv_poll_t *poll, int status, int what)
{
    struct link_events *events = poll->data;
    if (status < 0) what = UV_READABLE; // reading finds out what is wrong
    if (events->context && (what & UV_READABLE)) redisAsyncHandleRead(events->context);
    if (events->context && (what & UV_WRITABLE)) redisAsyncHandleWrite(events->context);
}

static void want(struct link_events *events, int wanted)
{
    events->wanted = wanted;
    if (wanted)
        uv_poll_start(&events->poll, wanted, on_poll);
    else
        uv_poll_stop(&events->poll);
}

static void add_read(void *data)
{
    struct link_events *events = data;
    want(events, events->wanted | UV_READABLE);
}

static void del_read(void *data)
{
    struct link_events *events = data;
    want(events, events->wanted & ~UV_READABLE);
}

static void add_write(void *data)
{
    struct link_events *events = data;
    want(events, events->wanted | UV_WRITABLE);
}

static void del_write(void *data)
{
    struct link_events *events = data;
    want(events, events->wanted & ~UV_WRITABLE);
}

static void free_events(uv_handle_t *poll)
{
    mem_free(poll->data);
}

// hiredis frees the context right after this, whoever asked for it: the one place where a
// connection ends.
static void cleanup(void *data)
{
    struct link_events *events = data;
    struct redis_link *link = events->link;
    struct error err;
    const struct error *tls_failure = redis_tls_failure(link->tls);
    if (link->has_reason)
        err = link->reason;
    else if (tls_failure)
        err = *tls_failure;
    else
        error_set(&err, ERROR_UNAVAILABLE, "Redis: %s",
                  events->context->errstr[0] ? events->context->errstr : "the connection ended");
    events->context = NULL;
    uv_close((uv_handle_t *)&events->poll, free_events);
    redis_tls_close(link->tls);
    link->tls = NULL;
    link->context = NULL;
    link->events = NULL;
    link->has_reason = false;
    if (link->state == LINK_CLOSED) return;
    bool was_ready = link->state == LINK_READY;
    link->state = LINK_RESTING;
    uv_timer_start(&link->timer, on_timer, backoff_next_ms(&link->backoff) + 1, 0);
    link->options.on_lost(link->options.ctx, link, was_ready, &err);
}

static bool attach(struct redis_link *link, redisAsyncContext *context)
{
    struct link_events *events = mem_zalloc(sizeof *events);
    if (uv_poll_init(link->options.uv, &events->poll, context->c.fd) != 0) {
        mem_free(events);
        return false;
    }
    events->poll.data = events;
    events->link = link;
    events->context = context;
    context->ev.data = events;
    context->ev.addRead = add_read;
    context->ev.delRead = del_read;
    context->ev.addWrite = add_write;
    context->ev.delWrite = del_write;
    context->ev.cleanup = cleanup;
    link->events = events;
    link->context = context;
    return true;
}

// ---- connecting ----------------------------------------------------------------------------------------------------

static void rest(struct redis_link *link, const struct error *err)
{
    link->state = LINK_RESTING;
    uv_timer_start(&link->timer, on_timer, backoff_next_ms(&link->backoff) + 1, 0);
    link->options.on_lost(link->options.ctx, link, false, err);
}

// Replies to the greeting; the last one (data is the link) makes it ready.
static void on_greeting(redisAsyncContext *context, void *reply, void *data)
{
    struct redis_link *link = context->data;
    const redisReply *r = reply;
    if (!r || link->has_reason) return;
    if (r->type == REDIS_REPLY_ERROR) {
        // hiredis frees it when this callback has returned.
        error_set(&link->reason, ERROR_UNAUTHENTICATED, "Redis refused the login: %.200s", r->str);
        link->has_reason = true;
        redisAsyncFree(context);
        return;
    }
    if (!data || link->state != LINK_CONNECTING) return;
    link->state = LINK_READY;
    uv_timer_stop(&link->timer);
    backoff_reset(&link->backoff);
    link->options.on_ready(link->options.ctx, link);
}

// A silent death of the peer is noticed in about 15 s, also on a connection that only listens.
static void keep_alive(int fd)
{
    int on = 1, idle = 5, interval = 3, count = 3, user_ms = 15000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
}

static void greet(struct redis_link *link)
{
    const struct redis_address *address = link->options.address;
    redisAsyncContext *context = link->context;
    if (address->password) {
        const char *words[] = {"AUTH", address->user ? address->user : address->password, address->password};
        redisAsyncCommandArgv(context, on_greeting, NULL, address->user ? 3 : 2, words, NULL);
    }
    if (address->database) {
        char number[16];
        snprintf(number, sizeof number, "%u", address->database);
        const char *words[] = {"SELECT", number};
        redisAsyncCommandArgv(context, on_greeting, NULL, 2, words, NULL);
    }
    const char *words[] = {"PING"};
    redisAsyncCommandArgv(context, on_greeting, link, 1, words, NULL);
}

// With rediss:// the context gets a socket pair in place of its connection (redis_tls.h), before
// anything is sent.
static bool encrypt(struct redis_link *link, redisAsyncContext *context, struct error *err)
{
    const struct redis_address *address = link->options.address;
    if (address->host) keep_alive(context->c.fd);
    if (!address->tls) return true;
    link->tls = redis_tls_create(link->options.uv, link->options.tls, address->host, context->c.fd, err);
    return link->tls != NULL;
}

// host: numeric, or NULL for the unix socket.
static void dial(struct redis_link *link, const char *host)
{
    link->state = LINK_CONNECTING;
    redisAsyncContext *context = host ? redisAsyncConnect(host, link->options.address->port)
                                      : redisAsyncConnectUnix(link->options.address->path);
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "Redis: %s", context && context->err ? context->errstr : "no connection");
    if (!context || context->err || !encrypt(link, context, &err) || !attach(link, context)) {
        if (context) redisAsyncFree(context);
        redis_tls_close(link->tls);
        link->tls = NULL;
        rest(link, &err);
        return;
    }
    context->data = link;
    greet(link);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct redis_link *link = request->data;
    mem_free(request);
    if (link) {
        link->resolving = NULL;
        char address[ADDRESS_BYTES] = "";
        if (status == 0 && list && list->ai_family == AF_INET)
            uv_ip4_name((const struct sockaddr_in *)list->ai_addr, address, sizeof address);
        else if (status == 0 && list && list->ai_family == AF_INET6)
            uv_ip6_name((const struct sockaddr_in6 *)list->ai_addr, address, sizeof address);
        struct error err;
        if (address[0])
            dial(link, address);
        else
            rest(link, (error_set(&err, ERROR_UNAVAILABLE, "Redis: its host name does not resolve"), &err));
    }
    uv_freeaddrinfo(list);
}

static void start(struct redis_link *link)
{
    uv_timer_start(&link->timer, on_timer, link->options.timeout_ms, 0);
    const char *host = link->options.address->host;
    struct in6_addr ignored;
    if (!host || inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1) {
        dial(link, host);
        return;
    }
    // hiredis would look the name up on this thread.
    link->state = LINK_RESOLVING;
    link->resolving = mem_zalloc(sizeof *link->resolving);
    link->resolving->data = link;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    if (uv_getaddrinfo(link->options.uv, link->resolving, on_resolved, host, NULL, &hints) == 0) return;
    mem_free(link->resolving);
    link->resolving = NULL;
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "Redis: its host name cannot be resolved");
    rest(link, &err);
}

static void stop_resolving(struct redis_link *link)
{
    if (!link->resolving) return;
    link->resolving->data = NULL;
    uv_cancel((uv_req_t *)link->resolving);
    link->resolving = NULL;
}

static void on_timer(uv_timer_t *timer)
{
    struct redis_link *link = timer->data;
    struct error err;
    error_set(&err, ERROR_TIMEOUT, "Redis: no connection in time");
    switch (link->state) {
    case LINK_RESTING: start(link); break;
    case LINK_RESOLVING:
        stop_resolving(link);
        rest(link, &err);
        break;
    case LINK_CONNECTING: redis_link_drop(link, &err); break;
    case LINK_READY:
    case LINK_CLOSED: break;
    }
}

// ---- life ----------------------------------------------------------------------------------------------------------

struct redis_link *redis_link_create(const struct redis_link_options *options)
{
    struct redis_link *link = mem_zalloc(sizeof *link);
    link->options = *options;
    backoff_init(&link->backoff, RETRY_BASE_MS, RETRY_CAP_MS);
    uv_timer_init(options->uv, &link->timer);
    link->timer.data = link;
    uv_timer_start(&link->timer, on_timer, 0, 0);
    return link;
}

redisAsyncContext *redis_link_context(struct redis_link *link)
{
    return link->state == LINK_READY ? link->context : NULL;
}

void redis_link_drop(struct redis_link *link, const struct error *why)
{
    if (!link->context) return;
    link->reason = *why;
    link->has_reason = true;
    redisAsyncFree(link->context);
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct redis_link *link = timer->data;
    struct redis_link_options options = link->options;
    mem_free(link);
    options.on_closed(options.ctx);
}

void redis_link_close(struct redis_link *link)
{
    link->state = LINK_CLOSED;
    stop_resolving(link);
    if (link->context) redisAsyncFree(link->context);
    uv_close((uv_handle_t *)&link->timer, on_timer_closed);
}
