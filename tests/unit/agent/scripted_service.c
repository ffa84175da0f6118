#include "tests/unit/agent/scripted_service.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "tunnel/wire/ws_handshake.h"

enum { RECEIVED_BYTES_MAX = 64 * 1024 * 1024 };

struct connection {
    struct scripted_service *service;
    struct connection *next;
    uv_tcp_t tcp;
    bool ended; // by the other end
};

struct scripted_service {
    uv_tcp_t listener;
    const struct scripted_step *steps;
    size_t count, step;
    struct strbuf received;
    size_t taken; // of received, by steps
    struct connection *first;
    unsigned connections, open, handles;
    bool destroyed;
    char buffer[65536];
};

static void free_service(struct scripted_service *s)
{
    if (s->handles) return;
    strbuf_finish(&s->received);
    mem_free(s);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct scripted_service *s = handle->data;
    s->handles--;
    free_service(s);
}

static void on_connection_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    c->service->handles--;
    free_service(c->service);
    mem_free(c);
}

static void close_connection(struct connection *c)
{
    struct connection **at = &c->service->first;
    while (*at && *at != c)
        at = &(*at)->next;
    if (!*at) return;
    *at = c->next;
    if (!c->ended) c->service->open--;
    uv_close((uv_handle_t *)&c->tcp, on_connection_closed);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status;
    mem_free(write->data);
    mem_free(write);
}

static void send_bytes(struct connection *c, const char *at, size_t len)
{
    if (!len) return;
    uv_write_t *write = mem_zalloc(sizeof(*write));
    write->data = mem_dup(at, len);
    uv_buf_t buf = uv_buf_init(write->data, (unsigned)len);
    uv_write(write, (uv_stream_t *)&c->tcp, &buf, 1, on_written);
}

static void send_upgrade(struct connection *c)
{
    struct scripted_service *s = c->service;
    const char *key = strstr(s->received.at, "Sec-WebSocket-Key: ");
    char accept[WS_HANDSHAKE_ACCEPT_BYTES], text[256];
    ws_handshake_accept(str_of(key + strlen("Sec-WebSocket-Key: "), 24), accept);
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: chat\r\n\r\n",
                     accept);
    send_bytes(c, text, (size_t)n);
}

static void on_ended(uv_shutdown_t *shutdown_request, int status)
{
    (void)status;
    mem_free(shutdown_request);
}

static void end_half(struct connection *c)
{
    uv_shutdown(mem_zalloc(sizeof(uv_shutdown_t)), (uv_stream_t *)&c->tcp, on_ended);
}

static void make_step(struct connection *c, const struct scripted_step *step)
{
    if (step->websocket) send_upgrade(c);
    if (step->answer) send_bytes(c, step->answer, strlen(step->answer));
    if (step->fill_bytes) {
        char *fill = mem_alloc(step->fill_bytes);
        memset(fill, 'x', step->fill_bytes);
        send_bytes(c, fill, step->fill_bytes);
        mem_free(fill);
    }
    if (step->end) end_half(c);
    if (step->close) close_connection(c);
}

static void go_on(struct connection *c)
{
    struct scripted_service *s = c->service;
    while (s->step < s->count) {
        const struct scripted_step *step = &s->steps[s->step];
        const char *found = step->wait && s->received.at ? strstr(s->received.at + s->taken, step->wait) : NULL;
        if (step->wait && !found) return;
        if (found) s->taken = (size_t)(found - s->received.at) + strlen(step->wait);
        s->step++;
        make_step(c, step);
        if (step->close) return;
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct connection *c = handle->data;
    (void)suggested;
    *out = uv_buf_init(c->service->buffer, sizeof(c->service->buffer));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct connection *c = stream->data;
    if (n < 0) {
        c->ended = true;
        c->service->open--;
        uv_read_stop(stream);
        if (n != UV_EOF) close_connection(c);
        return;
    }
    strbuf_add(&c->service->received, buf->base, (size_t)n);
    go_on(c);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct scripted_service *s = listener->data;
    struct connection *c = mem_zalloc(sizeof(*c));
    (void)status;
    c->service = s;
    c->next = s->first;
    s->first = c;
    s->connections++;
    s->open++;
    s->handles++;
    uv_tcp_init(listener->loop, &c->tcp);
    c->tcp.data = c;
    uv_accept(listener, (uv_stream_t *)&c->tcp);
    uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

struct scripted_service *scripted_service_create(uv_loop_t *loop, const struct scripted_step *steps, size_t count)
{
    struct scripted_service *s = mem_zalloc(sizeof(*s));
    struct sockaddr_in address;
    s->steps = steps;
    s->count = count;
    s->handles = 1;
    strbuf_init(&s->received, RECEIVED_BYTES_MAX);
    strbuf_add(&s->received, "", 0);
    uv_tcp_init(loop, &s->listener);
    s->listener.data = s;
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_bind(&s->listener, (const struct sockaddr *)&address, 0);
    uv_listen((uv_stream_t *)&s->listener, 16, on_connection);
    return s;
}

void scripted_service_destroy(struct scripted_service *s)
{
    while (s->first)
        close_connection(s->first);
    uv_close((uv_handle_t *)&s->listener, on_listener_closed);
}

uint16_t scripted_service_port(const struct scripted_service *s)
{
    struct sockaddr_in address;
    int len = sizeof(address);
    uv_tcp_getsockname(&s->listener, (struct sockaddr *)&address, &len);
    return ntohs(address.sin_port);
}

const char *scripted_service_received(const struct scripted_service *s)
{
    return s->received.at ? s->received.at : "";
}

unsigned scripted_service_connections(const struct scripted_service *s)
{
    return s->connections;
}

unsigned scripted_service_open(const struct scripted_service *s)
{
    return s->open;
}

bool scripted_service_done(const struct scripted_service *s)
{
    return s->step == s->count;
}

size_t scripted_service_unsent(const struct scripted_service *s)
{
    size_t bytes = 0;
    for (const struct connection *c = s->first; c; c = c->next)
        bytes += uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
    return bytes;
}
