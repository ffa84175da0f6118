// fake_api: a Kubernetes API of one test: an HTTP server on the test's own loop, over plain TCP on
// the loopback. The test's handler answers each GET with fake_api_reply() or opens a chunked stream
// to push watch events into.
#ifndef CULVERT_TESTS_UNIT_AGENT_FAKE_API_H
#define CULVERT_TESTS_UNIT_AGENT_FAKE_API_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop/loop.h"
#include "base/mem.h"
#include "base/strbuf.h"

struct fake_exchange {
    uv_tcp_t tcp;
    struct fake_api *api;
    struct fake_exchange *next;
    struct strbuf in;
    char path[4096];
    char authorization[256];
    bool streaming, closing;
};

struct fake_api {
    struct loop *loop;
    uv_tcp_t listener;
    struct fake_exchange *exchanges;
    void (*on_get)(void *arg, struct fake_exchange *exchange);
    void *arg;
    unsigned requests;
    char url[64];
};

struct fake_write {
    uv_write_t request;
    char *at;
};

static inline void fake_on_written(uv_write_t *request, int status)
{
    (void)status;
    struct fake_write *write = (struct fake_write *)request;
    mem_free(write->at);
    mem_free(write);
}

static inline void fake_api_write(struct fake_exchange *exchange, const char *at, size_t len)
{
    if (exchange->closing) return;
    struct fake_write *write = mem_zalloc(sizeof *write);
    write->at = mem_dup(at, len);
    uv_buf_t buffer = uv_buf_init(write->at, (unsigned)len);
    if (uv_write(&write->request, (uv_stream_t *)&exchange->tcp, &buffer, 1, fake_on_written) != 0)
        fake_on_written(&write->request, -1);
}

static inline void fake_api_reply(struct fake_exchange *exchange, int status, const char *body)
{
    char *text = mem_printf("HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status,
                            strlen(body), body);
    fake_api_write(exchange, text, strlen(text));
    mem_free(text);
}

static inline void fake_api_stream(struct fake_exchange *exchange)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    exchange->streaming = true;
    fake_api_write(exchange, head, sizeof head - 1);
}

static inline void fake_api_push(struct fake_exchange *exchange, const char *text)
{
    char *chunk = mem_printf("%zx\r\n%s\r\n", strlen(text), text);
    fake_api_write(exchange, chunk, strlen(chunk));
    mem_free(chunk);
}

static inline void fake_api_end(struct fake_exchange *exchange)
{
    exchange->streaming = false;
    fake_api_write(exchange, "0\r\n\r\n", 5);
}

static inline void fake_on_exchange_closed(uv_handle_t *handle)
{
    struct fake_exchange *exchange = handle->data;
    struct fake_exchange **link = &exchange->api->exchanges;
    while (*link != exchange)
        link = &(*link)->next;
    *link = exchange->next;
    strbuf_finish(&exchange->in);
    mem_free(exchange);
}

static inline void fake_api_cut(struct fake_exchange *exchange)
{
    if (exchange->closing) return;
    exchange->closing = true;
    uv_close((uv_handle_t *)&exchange->tcp, fake_on_exchange_closed);
}

static inline void fake_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    (void)handle;
    *out = uv_buf_init(mem_alloc(wanted), (unsigned)wanted);
}

static inline void fake_on_read(uv_stream_t *tcp, ssize_t got, const uv_buf_t *buffer)
{
    struct fake_exchange *exchange = tcp->data;
    if (got > 0) strbuf_add(&exchange->in, buffer->base, (size_t)got);
    mem_free(buffer->base);
    if (got < 0) {
        fake_api_cut(exchange);
        return;
    }
    char *end = exchange->in.len ? strstr(exchange->in.at, "\r\n\r\n") : NULL;
    if (!end) return;
    exchange->authorization[0] = 0;
    const char *header = strcasestr(exchange->in.at, "\r\nAuthorization: ");
    if (header) sscanf(header + 17, "%255[^\r]", exchange->authorization);
    if (sscanf(exchange->in.at, "GET %4095s HTTP/1.1", exchange->path) != 1) abort();
    strbuf_drop_front(&exchange->in, (size_t)(end + 4 - exchange->in.at));
    exchange->api->requests++;
    exchange->api->on_get(exchange->api->arg, exchange);
}

static inline void fake_on_connection(uv_stream_t *listener, int status)
{
    struct fake_api *api = listener->data;
    if (status != 0) abort();
    struct fake_exchange *exchange = mem_zalloc(sizeof *exchange);
    exchange->api = api;
    exchange->next = api->exchanges;
    api->exchanges = exchange;
    strbuf_init(&exchange->in, 64 * 1024);
    uv_tcp_init(loop_uv(api->loop), &exchange->tcp);
    exchange->tcp.data = exchange;
    if (uv_accept(listener, (uv_stream_t *)&exchange->tcp) != 0) abort();
    uv_read_start((uv_stream_t *)&exchange->tcp, fake_alloc, fake_on_read);
}

static inline void fake_api_open(struct fake_api *api, struct loop *loop,
                                 void (*on_get)(void *arg, struct fake_exchange *exchange), void *arg)
{
    *api = (struct fake_api){.loop = loop, .on_get = on_get, .arg = arg};
    struct sockaddr_in address;
    int len = sizeof address;
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(loop_uv(loop), &api->listener);
    api->listener.data = api;
    if (uv_tcp_bind(&api->listener, (struct sockaddr *)&address, 0) != 0 ||
        uv_listen((uv_stream_t *)&api->listener, 64, fake_on_connection) != 0)
        abort();
    uv_tcp_getsockname(&api->listener, (struct sockaddr *)&address, &len);
    snprintf(api->url, sizeof api->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
}

static inline void fake_api_close(struct fake_api *api)
{
    uv_close((uv_handle_t *)&api->listener, NULL);
    for (struct fake_exchange *exchange = api->exchanges; exchange; exchange = exchange->next)
        fake_api_cut(exchange);
}

static inline struct fake_exchange *fake_api_streaming(struct fake_api *api, const char *path)
{
    for (struct fake_exchange *exchange = api->exchanges; exchange; exchange = exchange->next)
        if (exchange->streaming && !exchange->closing && strncmp(exchange->path, path, strlen(path)) == 0)
            return exchange;
    return NULL;
}

static inline void fake_on_timeout(uv_timer_t *timer)
{
    (void)timer;
    fprintf(stderr, "the awaited condition never came\n");
    abort();
}

// Turns the loop until the condition holds; ten seconds are the end of patience.
static inline void fake_wait(struct loop *loop, bool (*holds)(void *arg), void *arg)
{
    uv_timer_t patience;
    uv_timer_init(loop_uv(loop), &patience);
    uv_timer_start(&patience, fake_on_timeout, 10000, 0);
    while (!holds(arg))
        uv_run(loop_uv(loop), UV_RUN_ONCE);
    uv_close((uv_handle_t *)&patience, NULL);
    uv_run(loop_uv(loop), UV_RUN_NOWAIT);
}

#endif
