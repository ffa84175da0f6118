#include "tests/unit/agent/http2_service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop/byte_queue.h"
#include "base/mem.h"

enum { CONNECTIONS_MAX = 8, POLL_MS = 5 };

struct stream {
    char path[64];
    struct byte_queue body;
    size_t big_left;
    size_t held;
    bool ended;
};

struct connection {
    struct http2_service *service;
    int fd;
    nghttp2_session *h2;
};

struct http2_service {
    int listener;
    uint16_t port;
    pthread_t thread;
    atomic_bool stop;
    struct http2_service_seen seen;
    struct connection connections[CONNECTIONS_MAX];
    unsigned count;
};

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

static ssize_t read_answer(nghttp2_session *h2, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
                           nghttp2_data_source *source, void *arg)
{
    struct connection *c = arg;
    struct stream *s = source->ptr;
    bool big = s->big_left > 0;
    if (!strcmp(s->path, "/reset") && s->big_left < 1000) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (!strcmp(s->path, "/reset")) len = 100;
    size_t left = big ? s->big_left : byte_queue_len(&s->body), n = left < len ? left : len;
    if (big) {
        memset(buf, 'b', n);
        s->big_left -= n;
    } else if (n) {
        memcpy(buf, byte_queue_front(&s->body), n);
        byte_queue_drop(&s->body, n);
    }
    atomic_fetch_add(&c->service->seen.sent, n);
    if (n < left) return (ssize_t)n;
    const nghttp2_nv trailers[] = {field("grpc-status", "0"), field("x-sum", "9")};
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    nghttp2_submit_trailer(h2, id, trailers, 2);
    return (ssize_t)n;
}

static void answer(struct connection *c, int32_t id, struct stream *s)
{
    const nghttp2_nv head[] = {field(":status", "200"), field("content-type", "application/grpc")};
    const nghttp2_nv info[] = {field(":status", "103"), field("link", "</x>")};
    const nghttp2_data_provider body = {.source.ptr = s, .read_callback = read_answer};
    if (!strcmp(s->path, "/hang")) return;
    if (!strcmp(s->path, "/info")) nghttp2_submit_headers(c->h2, NGHTTP2_FLAG_NONE, id, NULL, info, 2, NULL);
    if (!strcmp(s->path, "/big")) s->big_left = HTTP2_SERVICE_BIG_BYTES;
    if (!strcmp(s->path, "/reset")) s->big_left = 1000;
    if (!strcmp(s->path, "/refuse")) {
        nghttp2_submit_rst_stream(c->h2, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
    } else {
        nghttp2_submit_response(c->h2, id, head, 2, &body);
    }
}

static int on_begin(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct connection *c = arg;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    atomic_fetch_add(&c->service->seen.streams, 1);
    nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, mem_zalloc(sizeof(struct stream)));
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct connection *c = arg;
    struct stream *s = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    (void)flags;
    (void)name_len;
    if (!strcmp((const char *)name, ":path")) snprintf(s->path, sizeof(s->path), "%.*s", (int)value_len, value);
    if (!strcmp((const char *)name, "te")) atomic_store(&c->service->seen.te, !strcmp((const char *)value, "trailers"));
    if (!strcmp((const char *)name, "x-sum"))
        atomic_store(&c->service->seen.trailer, !strcmp((const char *)value, "7"));
    return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    struct connection *c = arg;
    struct stream *s = nghttp2_session_get_stream_user_data(h2, id);
    (void)flags;
    atomic_fetch_add(&c->service->seen.received, len);
    if (!strcmp(s->path, "/echo")) byte_queue_add(&s->body, at, len);
    nghttp2_session_consume_connection(h2, len);
    if (atomic_load(&c->service->seen.hold))
        s->held += len;
    else
        nghttp2_session_consume_stream(h2, id, len);
    return 0;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct connection *c = arg;
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code == NGHTTP2_CANCEL)
        atomic_fetch_add(&c->service->seen.cancels, 1);
    bool carries_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    struct stream *s = carries_end ? nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id) : NULL;
    if (s && frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        s->ended = true;
        answer(c, frame->hd.stream_id, s);
    }
    return 0;
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    struct stream *s = nghttp2_session_get_stream_user_data(h2, id);
    (void)code;
    (void)arg;
    if (!s) return 0;
    byte_queue_finish(&s->body);
    mem_free(s);
    return 0;
}

static void take_connection(struct http2_service *service)
{
    struct connection *c = &service->connections[service->count];
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    c->fd = accept4(service->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (c->fd < 0) return;
    c->service = service;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_server_new2(&c->h2, callbacks, c, option)) abort();
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    nghttp2_submit_settings(c->h2, NGHTTP2_FLAG_NONE, NULL, 0);
    service->count++;
    atomic_fetch_add(&service->seen.connections, 1);
}

static void drop_connection(struct connection *c)
{
    if (c->fd < 0) return;
    close(c->fd);
    c->fd = -1;
    nghttp2_session_del(c->h2); // streams that are still open are the test's to close
    c->h2 = NULL;
}

static void turn(struct connection *c)
{
    static __thread uint8_t buffer[65536];
    const uint8_t *at;
    ssize_t n = read(c->fd, buffer, sizeof(buffer));
    bool over = n == 0 || (n < 0 && errno != EAGAIN);
    if (n > 0 && nghttp2_session_mem_recv(c->h2, buffer, (size_t)n) < 0) over = true;
    while (!over && (n = nghttp2_session_mem_send(c->h2, &at)) > 0) {
        for (ssize_t sent = 0; sent < n && !over;) {
            ssize_t k = send(c->fd, at + sent, (size_t)(n - sent), MSG_NOSIGNAL);
            if (k < 0 && errno == EAGAIN) {
                struct pollfd room = {.fd = c->fd, .events = POLLOUT};
                poll(&room, 1, POLL_MS);
                over = atomic_load(&c->service->stop);
                continue;
            }
            over = k < 0;
            sent += k;
        }
    }
    if (over) drop_connection(c);
}

static void *serve(void *arg)
{
    struct http2_service *service = arg;
    while (!atomic_load(&service->stop)) {
        struct pollfd fds[CONNECTIONS_MAX + 1] = {{.fd = service->listener, .events = POLLIN}};
        for (unsigned i = 0; i < service->count; i++)
            fds[i + 1] = (struct pollfd){.fd = service->connections[i].fd, .events = POLLIN};
        unsigned count = service->count;
        poll(fds, count + 1, POLL_MS);
        if (fds[0].revents && service->count < CONNECTIONS_MAX) take_connection(service);
        for (unsigned i = 0; i < count; i++)
            if (service->connections[i].fd >= 0) turn(&service->connections[i]);
    }
    for (unsigned i = 0; i < service->count; i++)
        drop_connection(&service->connections[i]);
    return NULL;
}

struct http2_service *http2_service_start(void)
{
    struct http2_service *service = mem_zalloc(sizeof(*service));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    service->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(service->listener, (const struct sockaddr *)&address, sizeof(address)) || listen(service->listener, 8))
        abort();
    getsockname(service->listener, (struct sockaddr *)&address, &len);
    service->port = ntohs(address.sin_port);
    if (pthread_create(&service->thread, NULL, serve, service)) abort();
    return service;
}

void http2_service_stop(struct http2_service *service)
{
    atomic_store(&service->stop, true);
    pthread_join(service->thread, NULL);
    close(service->listener);
    mem_free(service);
}

uint16_t http2_service_port(const struct http2_service *service)
{
    return service->port;
}

struct http2_service_seen *http2_service_seen(struct http2_service *service)
{
    return &service->seen;
}
