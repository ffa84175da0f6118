#include "server/h2o_door.h"

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <h2o.h>
#include <h2o/http1.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "server/ingress_problem.h"
#include "server/tcp_listener.h"

enum { USER_TIMEOUT_MS = 30000, SWEEP_MS = 1000 };

struct door_handler {
    h2o_handler_t super;
    struct h2o_door *door;
};

struct h2o_door {
    struct loop *loop;
    struct h2o_door_options options;
    h2o_globalconf_t config;
    h2o_context_t context;
    h2o_accept_ctx_t accept;
    struct tcp_listener *listener; // NULL once closed
    struct door_connection *first;
    uv_timer_t *sweep;
    size_t connections, requests;
    bool stopped;
    loop_fn on_closed;
    void *on_closed_arg;
    struct metric *open_connections, *in_flight, *seconds;
    struct metric_family *answers;
};

// The generator is what h2o sees of a streamed answer; it comes first, so that the one is the other.
struct door_request {
    h2o_generator_t generator;
    h2o_req_t *req;
    struct h2o_door *door;
    uint64_t since_us;
    loop_fn on_gone, on_ready;
    void *on_gone_arg, *on_ready_arg;
    struct door_watch *watch;
    bool started, over;
    bool sending; // a piece is under way: h2o takes the next one in its proceed callback only
    bool cut;     // to be ended there
    int status;
    char id[ID_UUID_BYTES > 65 ? ID_UUID_BYTES : 65];
    char peer[INET6_ADDRSTRLEN];
};

// An accepted connection, so that closing the door can reach those that h2o does not count as requests.
struct door_connection {
    uv_tcp_t tcp; // first: the listener allocates it, and h2o takes its data pointer for itself
    struct door_connection *next, **link;
    struct h2o_door *door;
};

// uv_poll for the hang-up of a client whose answer is pending; on a copy of the descriptor, because h2o owns the
// original.
struct door_watch {
    uv_poll_t poll;
    int fd;
    struct door_request *request; // NULL once it is over
};

// ---- requests ------------------------------------------------------------------------------------------------------

static void on_watch_closed(uv_handle_t *handle)
{
    struct door_watch *watch = handle->data;
    close(watch->fd);
    mem_free(watch);
}

static void watch_stop(struct door_request *request)
{
    struct door_watch *watch = request->watch;
    if (!watch) return;
    request->watch = NULL;
    watch->request = NULL;
    uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
}

static void request_over(struct door_request *request)
{
    if (request->over) return;
    request->over = true;
    watch_stop(request);
    struct h2o_door *door = request->door;
    door->requests--;
    metric_move(door->in_flight, -1);
    char status[8];
    snprintf(status, sizeof status, "%d", request->status);
    metric_add(metric_with(door->answers, door->options.name, status), 1);
    metric_observe(door->seconds, (double)(clock_mono_us() - request->since_us) / 1e6);
}

static void request_gone(struct door_request *request)
{
    if (request->over) return;
    request->status = 499;
    request_over(request);
    if (request->on_gone) request->on_gone(request->on_gone_arg);
}

// h2o frees the request's pool: the connection ended.
static void on_request_disposed(void *at)
{
    request_gone(at);
}

// Ends a streamed answer in the middle. While a piece is under way h2o may not be called: the socket is shut, so that
// the piece ends soon, and the rest is done then. The request may be freed by this.
static void cut(struct door_request *request)
{
    h2o_req_t *req = request->req;
    req->http1_is_persistent = 0;
    if (!request->sending) {
        h2o_send(req, NULL, 0, H2O_SEND_STATE_ERROR);
        return;
    }
    request->cut = true;
    shutdown(h2o_socket_get_fd(req->conn->callbacks->get_socket(req->conn)), SHUT_RDWR);
}

static void on_watch(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct door_watch *watch = poll->data;
    struct door_request *request = watch->request;
    if (!request) return;
    h2o_req_t *req = request->req;
    request_gone(request);
    // h2o does not know yet: end its side, which closes the connection.
    if (request->started)
        cut(request);
    else
        h2o_send_error_generic(req, 499, "Client Closed Request", "", H2O_SEND_ERROR_HTTP1_CLOSE_CONNECTION);
}

static void watch_start(struct door_request *request)
{
    h2o_socket_t *socket = request->req->conn->callbacks->get_socket(request->req->conn);
    int fd = fcntl(h2o_socket_get_fd(socket), F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return; // without it the hang-up is noticed at the next write
    struct door_watch *watch = mem_zalloc(sizeof *watch);
    watch->fd = fd;
    watch->request = request;
    watch->poll.data = watch;
    if (uv_poll_init(loop_uv(request->door->loop), &watch->poll, fd) != 0) {
        close(fd);
        mem_free(watch);
        return;
    }
    request->watch = watch;
    uv_poll_start(&watch->poll, UV_DISCONNECT, on_watch);
}

static struct str iov_str(h2o_iovec_t iov)
{
    return str_of(iov.base, iov.len);
}

struct str door_request_method(const struct door_request *request)
{
    return iov_str(request->req->input.method);
}

struct str door_request_target(const struct door_request *request)
{
    return iov_str(request->req->input.path);
}

struct str door_request_host(const struct door_request *request)
{
    return iov_str(request->req->input.authority);
}

struct str door_request_body(const struct door_request *request)
{
    return request->req->entity.base ? iov_str(request->req->entity) : STR_EMPTY;
}

struct str door_request_header(const struct door_request *request, struct str name)
{
    for (size_t i = 0; i < request->req->headers.size; i++)
        if (str_eq_nocase(iov_str(*request->req->headers.entries[i].name), name))
            return iov_str(request->req->headers.entries[i].value);
    return STR_EMPTY;
}

size_t door_request_header_count(const struct door_request *request)
{
    return request->req->headers.size;
}

struct door_header door_request_header_at(const struct door_request *request, size_t i)
{
    const h2o_header_t *header = &request->req->headers.entries[i];
    return (struct door_header){iov_str(*header->name), iov_str(header->value)};
}

struct str door_request_peer(const struct door_request *request)
{
    return str_c(request->peer);
}

struct str door_request_id(const struct door_request *request)
{
    return str_c(request->id);
}

void door_request_on_gone(struct door_request *request, loop_fn on_gone, void *arg, bool watch)
{
    request->on_gone = on_gone;
    request->on_gone_arg = arg;
    if (watch && on_gone && !request->watch) watch_start(request);
}

// h2o keeps views of header texts: they are copied into the request's pool.
static void add_header(h2o_req_t *req, struct str name, struct str value)
{
    h2o_iovec_t n = h2o_strdup(&req->pool, name.at, name.len);
    h2o_iovec_t v = h2o_strdup(&req->pool, value.at ? value.at : "", value.len);
    h2o_add_header_by_str(&req->pool, &req->res.headers, n.base, n.len, 1, NULL, v.base, v.len);
}

static void set_head(struct door_request *request, int status, const struct door_header *headers, size_t count)
{
    h2o_req_t *req = request->req;
    request->status = status;
    req->res.status = status;
    req->res.reason = ingress_problem_reason(status);
    for (size_t i = 0; i < count; i++)
        add_header(req, headers[i].name, headers[i].value);
    add_header(req, STR("x-request-id"), str_c(request->id));
    if (request->door->stopped) req->http1_is_persistent = 0;
}

void door_request_answer(struct door_request *request, int status, const char *content_type,
                         const struct door_header *headers, size_t header_count, struct str body)
{
    if (request->over) return;
    h2o_req_t *req = request->req;
    set_head(request, status, headers, header_count);
    if (content_type) add_header(req, STR("content-type"), str_c(content_type));
    add_header(req, STR("x-content-type-options"), STR("nosniff"));
    add_header(req, STR("cache-control"), STR("no-store"));
    request_over(request);
    req->res.content_length = body.len;
    // Copies the body into the pool, so that the caller's memory is free at once.
    h2o_send_inline(req, body.at ? body.at : "", body.len);
}

static void on_proceed(h2o_generator_t *generator, h2o_req_t *req)
{
    struct door_request *request = (struct door_request *)generator;
    request->sending = false;
    if (request->cut)
        h2o_send(req, NULL, 0, H2O_SEND_STATE_ERROR);
    else if (!request->over && request->on_ready)
        request->on_ready(request->on_ready_arg);
}

static void on_stop(h2o_generator_t *generator, h2o_req_t *req)
{
    (void)req;
    request_gone((struct door_request *)generator);
}

void door_request_start(struct door_request *request, int status, uint64_t content_length,
                        const struct door_header *headers, size_t header_count, loop_fn on_ready, void *arg)
{
    if (request->over) return;
    set_head(request, status, headers, header_count);
    request->req->res.content_length = content_length == UINT64_MAX ? SIZE_MAX : (size_t)content_length;
    request->on_ready = on_ready;
    request->on_ready_arg = arg;
    request->started = request->sending = true;
    request->generator = (h2o_generator_t){.proceed = on_proceed, .stop = on_stop};
    h2o_start_response(request->req, &request->generator);
    h2o_send(request->req, NULL, 0, H2O_SEND_STATE_IN_PROGRESS); // the head leaves at once
}

void door_request_write(struct door_request *request, struct str piece)
{
    if (request->over) return;
    assert(request->door->accept.ssl_ctx && piece.len && !request->sending);
    request->sending = true;
    h2o_iovec_t iov = h2o_iovec_init(piece.at, piece.len);
    h2o_send(request->req, &iov, 1, H2O_SEND_STATE_IN_PROGRESS);
}

void door_request_end(struct door_request *request)
{
    if (request->over) return;
    assert(!request->sending);
    request_over(request);
    h2o_send(request->req, NULL, 0, H2O_SEND_STATE_FINAL);
}

void door_request_abort(struct door_request *request)
{
    if (request->over) return;
    request_over(request);
    cut(request);
}

static bool is_request_id(struct str s)
{
    if (s.len < 8 || s.len > 64) return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
        if (!ok) return false;
    }
    return true;
}

static void note_peer(struct door_request *request)
{
    struct sockaddr_storage address;
    socklen_t len = request->req->conn->callbacks->get_peername(request->req->conn, (struct sockaddr *)&address);
    if (len == 0) return;
    uv_ip_name((struct sockaddr *)&address, request->peer, sizeof request->peer);
}

// What h2o lets pass although RFC 9112 (3.2, 5.2, 6.3) asks for a refusal, because the next server on the way may read
// it otherwise. h2o keeps the fields of the framing to itself, so they are counted in the head as it came.
static const char *fault_of_head(const h2o_req_t *req)
{
    const h2o_buffer_t *input = req->conn->callbacks->get_socket(req->conn)->input;
    struct str rest = str_of(input->bytes, input->size), line, name;
    unsigned hosts = 0, lengths = 0, encodings = 0;
    while (rest.len && (rest.at[0] == '\r' || rest.at[0] == '\n'))
        rest = str_from(rest, 1);
    str_cut(&rest, '\n', &line);
    while (rest.len) {
        str_cut(&rest, '\n', &line);
        if (line.len && line.at[line.len - 1] == '\r') line.len--;
        if (line.len == 0) break;
        if (line.at[0] == ' ' || line.at[0] == '\t') return "a folded header line\n";
        str_cut(&line, ':', &name);
        hosts += str_eq_nocase(name, STR("host"));
        lengths += str_eq_nocase(name, STR("content-length"));
        encodings += str_eq_nocase(name, STR("transfer-encoding"));
    }
    if (hosts > 1 || (hosts == 0 && req->version >= 0x101)) return "there must be one Host\n";
    if (lengths + encodings > 1) return "the length of the body is given more than once\n";
    return NULL;
}

// h2o itself takes far longer heads.
static bool is_head_too_long(const h2o_req_t *req, size_t bytes_max)
{
    size_t bytes = req->input.method.len + req->input.path.len + req->input.authority.len;
    for (size_t i = 0; i < req->headers.size; i++)
        bytes += req->headers.entries[i].name->len + req->headers.entries[i].value.len + 4;
    return bytes_max && bytes > bytes_max;
}

static int on_h2o_request(h2o_handler_t *handler, h2o_req_t *req)
{
    struct h2o_door *door = ((struct door_handler *)handler)->door;
    struct door_request *request = h2o_mem_alloc_shared(&req->pool, sizeof *request, on_request_disposed);
    memset(request, 0, sizeof *request);
    request->req = req;
    request->door = door;
    request->since_us = clock_mono_us();
    note_peer(request);
    struct str id = door_request_header(request, STR("x-request-id"));
    if (is_request_id(id))
        snprintf(request->id, sizeof request->id, "%.*s", STR_ARG(id));
    else
        id_uuid7(request->id);
    door->requests++;
    metric_move(door->in_flight, 1);
    const char *fault = fault_of_head(req);
    bool long_head = is_head_too_long(req, door->options.head_bytes_max);
    if (!fault && !long_head) {
        door->options.on_request(door->options.ctx, request);
        return 0;
    }
    req->http1_is_persistent = 0;
    if (long_head) fault = "the request's head is too long\n";
    door_request_answer(request, long_head ? 431 : 400, "text/plain; charset=utf-8", NULL, 0, str_c(fault));
    return 0;
}

// ---- connections ---------------------------------------------------------------------------------------------------

static void close_when_empty(struct h2o_door *door);

static void on_connection_closed(uv_handle_t *handle)
{
    struct door_connection *connection = (struct door_connection *)handle;
    struct h2o_door *door = connection->door;
    *connection->link = connection->next;
    if (connection->next) connection->next->link = connection->link;
    door->connections--;
    metric_move(door->open_connections, -1);
    mem_free(connection);
    if (door->listener) tcp_listener_connection_closed(door->listener);
    close_when_empty(door);
}

// The listener's: tcp is ours from here on.
static void on_accepted(void *ctx, uv_tcp_t *tcp)
{
    struct h2o_door *door = ctx;
    struct door_connection *connection = (struct door_connection *)tcp;
    connection->door = door;
    connection->next = door->first;
    connection->link = &door->first;
    if (door->first) door->first->link = &connection->next;
    door->first = connection;
    uv_os_fd_t fd;
    // h2o has no write time-out: the kernel ends a connection whose peer takes nothing.
    unsigned timeout = USER_TIMEOUT_MS;
    if (uv_fileno((uv_handle_t *)tcp, &fd) == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    door->connections++;
    metric_move(door->open_connections, 1);
    h2o_accept(&door->accept, h2o_uv_socket_create((uv_stream_t *)tcp, on_connection_closed));
}

// After a failed read libuv refuses further writes at once. h2o overlooks that refusal when it wants to end the
// connection with TLS' farewell, and would wait for ever: its write is failed here in libuv's stead.
static void end_if_stuck(struct door_connection *connection)
{
    uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
    h2o_socket_t *socket = connection->tcp.data;
    if (uv_is_closing((uv_handle_t *)stream) || uv_is_writable(stream) || uv_stream_get_write_queue_size(stream))
        return;
    h2o_socket_cb on_written = socket->_cb.write;
    socket->_cb.write = NULL;
    if (on_written) on_written(socket, "the connection is gone");
}

static void on_sweep(uv_timer_t *timer)
{
    struct h2o_door *door = timer->data;
    // Handles that are closed leave the list in a later turn.
    for (struct door_connection *connection = door->first; connection; connection = connection->next)
        end_if_stuck(connection);
}

static void free_timer(uv_handle_t *timer)
{
    mem_free(timer);
}

// ---- the door ------------------------------------------------------------------------------------------------------

static void make_metrics(struct h2o_door *door)
{
    const char *name = door->options.name;
    door->open_connections =
        metric_with(metrics_gauge("culvert_http_connections", "Open connections of a door.", "door", NULL), name);
    door->in_flight =
        metric_with(metrics_gauge("culvert_http_requests_in_flight", "Requests being answered.", "door", NULL), name);
    door->seconds = metric_with(
        metrics_histogram("culvert_http_request_seconds", "Time from request to end of answer.", "door", NULL), name);
    door->answers = metrics_counter("culvert_http_requests_total", "Answered requests.", "door", "code", NULL);
}

struct h2o_door *h2o_door_create(struct loop *loop, const struct h2o_door_options *options, struct error *err)
{
    struct h2o_door *door = mem_zalloc(sizeof *door);
    door->loop = loop;
    door->options = *options;
    make_metrics(door);
    h2o_config_init(&door->config);
    door->config.server_name = h2o_iovec_init(H2O_STRLIT("culvert"));
    door->config.http1.upgrade_to_http2 = 0;
    door->config.http2.callbacks.request_shutdown = NULL; // there is no HTTP/2 here, and its timer outlives the door
    door->config.http1.req_timeout = options->request_timeout_ms;
    door->config.handshake_timeout = options->request_timeout_ms;
    door->config.max_request_entity_size = options->body_bytes_max;
    h2o_hostconf_t *host = h2o_config_register_host(&door->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_pathconf_t *path = h2o_config_register_path(host, "/", 0);
    struct door_handler *handler = (struct door_handler *)h2o_create_handler(path, sizeof *handler);
    handler->super.on_req = on_h2o_request;
    handler->door = door;
    h2o_context_init(&door->context, loop_uv(loop), &door->config);
    door->accept = (h2o_accept_ctx_t){.ctx = &door->context, .hosts = door->config.hosts};
    door->sweep = mem_zalloc(sizeof *door->sweep);
    door->sweep->data = door;
    uv_timer_init(loop_uv(loop), door->sweep);
    uv_timer_start(door->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    h2o_door_set_tls(door, options->tls);
    door->listener = tcp_listener_create(loop, options->listen, options->connections_max, on_accepted, door, err);
    if (door->listener) {
        tcp_listener_set_handle_bytes(door->listener, sizeof(struct door_connection));
        return door;
    }
    h2o_door_destroy(door);
    return NULL;
}

void h2o_door_set_tls(struct h2o_door *door, SSL_CTX *tls)
{
    if (tls) SSL_CTX_up_ref(tls);
    if (door->accept.ssl_ctx) SSL_CTX_free(door->accept.ssl_ctx);
    door->accept.ssl_ctx = tls;
}

void h2o_door_stop_accepting(struct h2o_door *door)
{
    if (door->stopped) return;
    door->stopped = true;
    if (door->listener) tcp_listener_stop(door->listener);
    h2o_context_request_shutdown(&door->context);
}

bool h2o_door_is_idle(const struct h2o_door *door)
{
    return door->requests == 0;
}

static void close_when_empty(struct h2o_door *door)
{
    if (!door->on_closed || door->connections) return;
    loop_fn on_closed = door->on_closed;
    door->on_closed = NULL;
    loop_post(door->loop, on_closed, door->on_closed_arg);
}

void h2o_door_close(struct h2o_door *door, loop_fn on_closed, void *arg)
{
    h2o_door_stop_accepting(door);
    door->on_closed = on_closed;
    door->on_closed_arg = arg;
    // Cut at the socket: h2o then ends each connection in its own order.
    for (struct door_connection *connection = door->first; connection; connection = connection->next) {
        uv_os_fd_t fd;
        if (uv_fileno((uv_handle_t *)&connection->tcp, &fd) == 0) shutdown(fd, SHUT_RDWR);
    }
    close_when_empty(door);
}

void h2o_door_destroy(struct h2o_door *door)
{
    if (!door) return;
    uv_close((uv_handle_t *)door->sweep, free_timer);
    if (door->accept.ssl_ctx) SSL_CTX_free(door->accept.ssl_ctx);
    tcp_listener_destroy(door->listener);
    h2o_context_dispose(&door->context);
    h2o_config_dispose(&door->config);
    mem_free(door);
}
