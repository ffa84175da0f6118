#include "agent/admin.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/http1/http1.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"

enum {
    CONNECTIONS_MAX = 32,
    HEAD_BYTES_MAX = 8 * 1024,
    ANSWER_BYTES_MAX = 4 * 1024 * 1024,
    LIFE_MS = 5000,
    BACKLOG = 16
};

struct admin_connection {
    struct agent_admin *admin;
    struct admin_connection *next, *prev;
    uv_tcp_t tcp;
    struct timer timer;
    uv_write_t write;
    struct strbuf in, out;
    bool closing, answered;
    char buffer[2048];
};

struct agent_admin {
    uv_tcp_t tcp;
    agent_admin_ready_fn is_ready;
    void *arg;
    struct admin_connection *first;
    unsigned count, refs; // refs: the listener and the connections
};

static void unref(struct agent_admin *admin)
{
    if (--admin->refs == 0) mem_free(admin);
}

// ---- answers ---------------------------------------------------------------------------------------------------

static int write_ready(struct agent_admin *admin, struct strbuf *body)
{
    struct strbuf texts;
    strbuf_init(&texts, ANSWER_BYTES_MAX / 2);
    bool is_ready = admin->is_ready(admin->arg, &texts);
    if (is_ready) strbuf_add_c(body, texts.len ? "ok\n" : "ok");
    strbuf_add_str(body, strbuf_str(&texts));
    strbuf_finish(&texts);
    return is_ready ? 200 : 503;
}

static int write_body(struct agent_admin *admin, const struct http1_head *head, struct strbuf *body, const char **type)
{
    struct str rest = head->target, path;
    str_cut(&rest, '?', &path);
    *type = "text/plain; charset=utf-8";
    if (!str_eq(head->method, STR("GET")) && !str_eq(head->method, STR("HEAD"))) {
        strbuf_add_c(body, "only GET\n");
        return 405;
    }
    if (str_eq(path, STR("/livez"))) {
        strbuf_add_c(body, "ok");
    } else if (str_eq(path, STR("/readyz")) || str_eq(path, STR("/healthz"))) {
        return write_ready(admin, body);
    } else if (str_eq(path, STR("/version"))) {
        *type = "application/json";
        strbuf_add_c(body, "{\"version\":\"" CULVERT_VERSION "\"}\n");
    } else if (str_eq(path, STR("/metrics"))) {
        bool open = http1_has_token(head, STR("accept"), STR("application/openmetrics-text"));
        *type = open ? "application/openmetrics-text; version=1.0.0; charset=utf-8" : "text/plain; version=0.0.4";
        metrics_render(body, open);
    } else {
        strbuf_add_c(body, "not found\n");
        return 404;
    }
    return 200;
}

static void close_connection(struct admin_connection *c);

static void on_written(uv_write_t *write, int status)
{
    (void)status;
    close_connection(write->data);
}

static void send_answer(struct admin_connection *c, int status, const char *type, struct str body, bool head_only)
{
    const char *reason = status == 200 ? "OK" : status == 503 ? "Service Unavailable" : "Refused";
    c->answered = true;
    uv_read_stop((uv_stream_t *)&c->tcp);
    strbuf_addf(&c->out,
                "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
                "Connection: close\r\n\r\n",
                status, reason, type, body.len);
    if (!head_only) strbuf_add_str(&c->out, body);
    uv_buf_t buf = uv_buf_init(c->out.at, (unsigned)c->out.len);
    c->write.data = c;
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, on_written) < 0) close_connection(c);
}

static void on_head(struct admin_connection *c, const struct http1_head *head)
{
    struct strbuf body;
    const char *type;
    strbuf_init(&body, ANSWER_BYTES_MAX);
    int status = write_body(c->admin, head, &body, &type);
    send_answer(c, status, type, strbuf_str(&body), str_eq(head->method, STR("HEAD")));
    strbuf_finish(&body);
}

// ---- connections -----------------------------------------------------------------------------------------------

static void on_closed(uv_handle_t *handle)
{
    struct admin_connection *c = handle->data;
    unref(c->admin);
    strbuf_finish(&c->in);
    strbuf_finish(&c->out);
    mem_free(c);
}

static void close_connection(struct admin_connection *c)
{
    if (c->closing) return;
    c->closing = true;
    if (c->prev) c->prev->next = c->next;
    if (!c->prev) c->admin->first = c->next;
    if (c->next) c->next->prev = c->prev;
    c->admin->count--;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
    timer_finish(&c->timer);
}

static void on_timeout(void *arg)
{
    close_connection(arg);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct admin_connection *c = handle->data;
    (void)suggested;
    *out = uv_buf_init(c->buffer, sizeof(c->buffer));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct admin_connection *c = stream->data;
    struct http1_head head;
    struct error err = {0};
    size_t bytes;
    if (n == 0 || c->answered) return;
    if (n < 0) {
        close_connection(c);
        return;
    }
    strbuf_add(&c->in, buf->base, (size_t)n);
    enum error_code code = c->in.overflow
                               ? ERROR_TOO_LARGE
                               : http1_parse_request(c->in.at, c->in.len, HEAD_BYTES_MAX, &head, &bytes, &err);
    if (code == ERROR_AGAIN) return;
    if (code)
        send_answer(c, code == ERROR_TOO_LARGE ? 431 : 400, "text/plain", STR("bad request\n"), false);
    else
        on_head(c, &head);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct agent_admin *admin = listener->data;
    if (status < 0) return;
    struct admin_connection *c = mem_zalloc(sizeof(*c));
    c->admin = admin;
    admin->refs++;
    admin->count++;
    c->next = admin->first;
    if (c->next) c->next->prev = c;
    admin->first = c;
    strbuf_init(&c->in, HEAD_BYTES_MAX + 1);
    strbuf_init(&c->out, ANSWER_BYTES_MAX + 1024);
    uv_tcp_init(listener->loop, &c->tcp);
    timer_init(&c->timer, listener->loop, on_timeout, c);
    c->tcp.data = c;
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) < 0 || admin->count > CONNECTIONS_MAX ||
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) < 0) {
        close_connection(c);
        return;
    }
    timer_start(&c->timer, LIFE_MS, 0);
}

// ---- listener --------------------------------------------------------------------------------------------------

static int parse_listen(struct str listen, struct sockaddr_storage *out)
{
    char text[64];
    struct str host;
    uint16_t port;
    if (parse_address(listen, &host, &port, NULL)) return UV_EINVAL;
    snprintf(text, sizeof(text), "%.*s", host.len ? (int)host.len : 7, host.len ? host.at : "0.0.0.0");
    if (str_eq(host, STR("localhost"))) snprintf(text, sizeof(text), "127.0.0.1");
    if (uv_ip4_addr(text, port, (struct sockaddr_in *)out) == 0) return 0;
    return uv_ip6_addr(text, port, (struct sockaddr_in6 *)out);
}

static void on_listener_closed(uv_handle_t *handle)
{
    unref(handle->data);
}

struct agent_admin *agent_admin_create(uv_loop_t *loop, struct str listen, agent_admin_ready_fn is_ready, void *arg,
                                       struct error *err)
{
    struct agent_admin *admin = mem_zalloc(sizeof(*admin));
    struct sockaddr_storage address = {0};
    admin->is_ready = is_ready;
    admin->arg = arg;
    admin->refs = 1;
    uv_tcp_init(loop, &admin->tcp);
    admin->tcp.data = admin;
    int rc = parse_listen(listen, &address);
    if (rc == 0) rc = uv_tcp_bind(&admin->tcp, (const struct sockaddr *)&address, 0);
    if (rc == 0) rc = uv_listen((uv_stream_t *)&admin->tcp, BACKLOG, on_connection);
    if (rc == 0) return admin;
    error_set(err, ERROR_INVALID, "admin.listen %.*s: %s", STR_ARG(str_first(listen, 80)), uv_strerror(rc));
    agent_admin_destroy(admin);
    return NULL;
}

uint16_t agent_admin_port(const struct agent_admin *admin)
{
    struct sockaddr_storage address = {0};
    int len = sizeof(address);
    if (uv_tcp_getsockname(&admin->tcp, (struct sockaddr *)&address, &len) < 0) return 0;
    // The port stands at the same place in both families.
    return ntohs(((const struct sockaddr_in *)&address)->sin_port);
}

void agent_admin_destroy(struct agent_admin *admin)
{
    if (!admin) return;
    while (admin->first)
        close_connection(admin->first);
    uv_close((uv_handle_t *)&admin->tcp, on_listener_closed);
}
