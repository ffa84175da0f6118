#include <netinet/tcp.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/http/h2o_listener_state.h"
#include "server/tls/tcp_listener.h"

enum { USER_TIMEOUT_MS = 30000, SWEEP_MS = 1000 };

// ---- connections ------------------------------------------------------------------------------

static void close_when_empty(struct h2o_listener *listener);

static void on_handle_gone(void *arg)
{
    struct listener_connection *connection = arg;
    struct h2o_listener *listener = connection->listener;
    if (--connection->handles_open > 0) return;
    h2o_gate_finish(&connection->gate);
    if (connection->counted) connection_limiter_leave(listener->options.addresses, str_c(connection->network));
    if (connection->accounts) connection_limiter_leave(connection->accounts, str_c(connection->account));
    *connection->link = connection->next;
    if (connection->next) connection->next->link = connection->link;
    listener->connections--;
    metric_move(listener->open_connections, -1);
    mem_free(connection);
    if (listener->listener) tcp_listener_connection_closed(listener->listener);
    close_when_empty(listener);
}

static void on_connection_closed(uv_handle_t *handle)
{
    on_handle_gone(handle);
}

static void on_lingering_close_over(void *arg)
{
    struct listener_connection *connection = arg;
    connection->lingering_close = NULL;
    on_handle_gone(connection);
}

// h2o has closed the socket: all that it wanted to send is with the kernel.
static void on_gate_closed(void *ctx)
{
    struct listener_connection *connection = ctx;
    if (!connection->lingering_close) return;
    connection->handles_open++;
    lingering_close_start(connection->lingering_close, on_lingering_close_over, connection);
}

static void on_gate_refused(void *ctx)
{
    struct listener_connection *connection = ctx;
    int fd = h2o_socket_get_fd(connection->gate.socket);
    if (fd >= 0) connection->lingering_close = lingering_close_create(loop_uv(connection->listener->loop), fd);
}

static void open_gate(struct listener_connection *connection, h2o_socket_t *socket)
{
    const struct h2o_listener_options *options = &connection->listener->options;
    connection->gate = (struct h2o_gate){
        .options = {.head_bytes_max = options->head_bytes_max, .body_bytes_max = options->body_bytes_max},
        .on_closed = on_gate_closed,
        .on_refused = on_gate_refused,
        .ctx = connection,
        .stream = (uv_stream_t *)&connection->tcp,
    };
    h2o_gate_open(&connection->gate, &connection->listener->accept, socket);
}

static void on_handshake(h2o_socket_t *socket, const char *err)
{
    struct listener_connection *connection = socket->data;
    connection->handshaking = NULL;
    if (err)
        h2o_socket_close(socket);
    else
        open_gate(connection, socket);
}

// False: too many from there. A proxy in front of us speaks for many clients.
static bool count_address(struct listener_connection *connection)
{
    struct h2o_listener *listener = connection->listener;
    struct sockaddr_storage address;
    char peer[INET6_ADDRSTRLEN] = "";
    int len = sizeof address;
    if (uv_tcp_getpeername(&connection->tcp, (struct sockaddr *)&address, &len) != 0) return true;
    uv_ip_name((struct sockaddr *)&address, peer, sizeof peer);
    if (trusted_proxies_have(&listener->proxies, str_c(peer))) return true;
    connection_limiter_network(peer, connection->network);
    connection->counted = connection_limiter_enter(listener->options.addresses, str_c(connection->network));
    return connection->counted;
}

// The listener's: tcp is ours from here on.
static void on_accepted(void *ctx, uv_tcp_t *tcp)
{
    struct h2o_listener *listener = ctx;
    struct listener_connection *connection = (struct listener_connection *)tcp;
    connection->listener = listener;
    connection->next = listener->first;
    connection->link = &listener->first;
    if (listener->first) listener->first->link = &connection->next;
    listener->first = connection;
    uv_os_fd_t fd;
    // h2o has no write time-out: the kernel ends a connection whose peer takes nothing.
    unsigned timeout = USER_TIMEOUT_MS;
    if (uv_fileno((uv_handle_t *)tcp, &fd) == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    listener->connections++;
    metric_move(listener->open_connections, 1);
    connection->handles_open = 1;
    connection->since_ms = uv_now(loop_uv(listener->loop));
    if (!count_address(connection)) { // before the handshake, which is what costs
        metric_add(listener->refused, 1);
        uv_close((uv_handle_t *)tcp, on_connection_closed);
        return;
    }
    h2o_socket_t *socket = h2o_uv_socket_create((uv_stream_t *)tcp, on_connection_closed);
    if (!listener->accept.ssl_ctx) {
        open_gate(connection, socket);
        return;
    }
    socket->data = connection;
    connection->handshaking = socket;
    h2o_socket_ssl_handshake(socket, listener->accept.ssl_ctx, NULL, on_handshake);
}

// After a failed read libuv refuses further writes at once. h2o overlooks that refusal when it
// wants to end the connection with TLS' lingering close, and would wait for ever: its write is
// failed here in libuv's stead.
static void end_if_stuck(struct listener_connection *connection)
{
    uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
    h2o_socket_t *socket = connection->tcp.data;
    if (uv_is_closing((uv_handle_t *)stream) || uv_is_writable(stream) || uv_stream_get_write_queue_size(stream))
        return;
    h2o_socket_cb on_written = socket->_cb.write;
    socket->_cb.write = NULL;
    if (on_written) on_written(socket, "the connection was closed");
}

static void on_sweep(void *arg)
{
    struct h2o_listener *listener = arg;
    uint64_t now_ms = uv_now(listener->context.loop);
    // Handles that are closed leave the list in a later turn.
    for (struct listener_connection *connection = listener->first; connection; connection = connection->next) {
        h2o_socket_t *handshaking = connection->handshaking;
        if (!handshaking) {
            end_if_stuck(connection);
            h2o_gate_expire(&connection->gate, now_ms, listener->options.request_timeout_ms);
        } else if (now_ms - connection->since_ms >= listener->options.request_timeout_ms) {
            connection->handshaking = NULL;
            h2o_socket_close(handshaking);
        }
    }
}

// ---- the listener
//
// ------------------------------------------------------------------------------------------------------

static void make_metrics(struct h2o_listener *listener)
{
    const char *name = listener->options.name;
    listener->open_connections =
        metric_with(metrics_gauge("culvert_http_connections", "Open connections by listener.", "listener", NULL), name);
    listener->in_flight =
        metric_with(metrics_gauge("culvert_http_requests_in_flight", "Requests in flight.", "listener", NULL), name);
    listener->seconds = metric_with(
        metrics_histogram("culvert_http_request_seconds", "Time from request to end of response.", "listener", NULL),
        name);
    listener->refused = metric_with(metrics_counter("culvert_http_refused_connections_total",
                                                    "Connections refused by the limit per address.", "listener", NULL),
                                    name);
    listener->answers = metrics_counter("culvert_http_requests_total", "Answered requests.", "listener", "code", NULL);
}

struct h2o_listener *h2o_listener_create(struct loop *loop, const struct h2o_listener_options *options,
                                         struct error *err)
{
    struct h2o_listener *listener = mem_zalloc(sizeof *listener);
    listener->loop = loop;
    listener->options = *options;
    make_metrics(listener);
    h2o_config_init(&listener->config);
    listener->config.server_name = h2o_iovec_init(H2O_STRLIT("culvert"));
    listener->config.http1.upgrade_to_http2 = 0;
    listener->config.http2.callbacks.request_shutdown =
        NULL; // there is no HTTP/2 here, and its timer outlives the listener
    // The gate is earlier, and says why: h2o would close without a word.
    listener->config.http1.req_timeout = 2 * options->request_timeout_ms + 2 * SWEEP_MS;
    listener->config.max_request_entity_size = options->body_bytes_max;
    h2o_hostconf_t *host = h2o_config_register_host(&listener->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_pathconf_t *path = h2o_config_register_path(host, "/", 0);
    struct listener_handler *handler = (struct listener_handler *)h2o_create_handler(path, sizeof *handler);
    handler->super.on_req = h2o_request_on_handler;
    handler->listener = listener;
    h2o_context_init(&listener->context, loop_uv(loop), &listener->config);
    listener->accept = (h2o_accept_ctx_t){.ctx = &listener->context, .hosts = listener->config.hosts};
    timer_init(&listener->sweep, loop_uv(loop), on_sweep, listener);
    timer_start(&listener->sweep, SWEEP_MS, SWEEP_MS);
    h2o_listener_set_tls(listener, options->tls);
    listener->own_quota.max = options->connections_max;
    struct quota *quota = options->connections ? options->connections : &listener->own_quota;
    if (trusted_proxies_parse(str_c(options->trusted_proxies), &listener->proxies, err) != ERROR_NONE) {
        h2o_listener_destroy(listener);
        return NULL;
    }
    listener->listener = tcp_listener_create(loop, options->listen, quota, on_accepted, listener, err);
    if (listener->listener) {
        tcp_listener_set_handle_bytes(listener->listener, sizeof(struct listener_connection));
        return listener;
    }
    h2o_listener_destroy(listener);
    return NULL;
}

uint16_t h2o_listener_port(const struct h2o_listener *listener)
{
    return tcp_listener_port(listener->listener);
}

void h2o_listener_set_tls(struct h2o_listener *listener, SSL_CTX *tls)
{
    if (tls) SSL_CTX_up_ref(tls);
    if (listener->accept.ssl_ctx) SSL_CTX_free(listener->accept.ssl_ctx);
    listener->accept.ssl_ctx = tls;
}

void h2o_listener_wind_down(struct h2o_listener *listener)
{
    listener->winding_down = true;
}

void h2o_listener_stop_accepting(struct h2o_listener *listener)
{
    if (listener->stopped) return;
    listener->stopped = true;
    if (listener->listener) tcp_listener_stop(listener->listener);
    h2o_context_request_shutdown(&listener->context);
}

bool h2o_listener_is_idle(const struct h2o_listener *listener)
{
    return listener->requests == 0;
}

static void close_when_empty(struct h2o_listener *listener)
{
    if (!listener->on_closed || listener->connections) return;
    loop_fn on_closed = listener->on_closed;
    listener->on_closed = NULL;
    loop_post(listener->loop, on_closed, listener->on_closed_arg);
}

void h2o_listener_close(struct h2o_listener *listener, loop_fn on_closed, void *arg)
{
    h2o_listener_stop_accepting(listener);
    listener->on_closed = on_closed;
    listener->on_closed_arg = arg;
    // Cut at the socket: h2o then ends each connection in its own order.
    for (struct listener_connection *connection = listener->first; connection; connection = connection->next) {
        uv_os_fd_t fd;
        if (uv_fileno((uv_handle_t *)&connection->tcp, &fd) == 0)
            shutdown(fd, SHUT_RDWR);
        else
            lingering_close_stop(connection->lingering_close);
    }
    close_when_empty(listener);
}

void h2o_listener_destroy(struct h2o_listener *listener)
{
    if (!listener) return;
    timer_finish(&listener->sweep);
    if (listener->accept.ssl_ctx) SSL_CTX_free(listener->accept.ssl_ctx);
    tcp_listener_destroy(listener->listener);
    h2o_context_dispose(&listener->context);
    h2o_config_dispose(&listener->config);
    mem_free(listener);
}
