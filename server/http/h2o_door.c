#include <netinet/tcp.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/http/h2o_door_state.h"
#include "server/tls/tcp_listener.h"

enum { USER_TIMEOUT_MS = 30000, SWEEP_MS = 1000 };

// ---- connections ---------------------------------------------------------------------------------------------------

static void close_when_empty(struct h2o_door *door);

static void on_handle_gone(void *arg)
{
    struct door_connection *connection = arg;
    struct h2o_door *door = connection->door;
    if (--connection->handles_open > 0) return;
    h2o_gate_finish(&connection->gate);
    if (connection->counted) census_leave(door->options.addresses, str_c(connection->network));
    if (connection->accounts) census_leave(connection->accounts, str_c(connection->account));
    *connection->link = connection->next;
    if (connection->next) connection->next->link = connection->link;
    door->connections--;
    metric_move(door->open_connections, -1);
    mem_free(connection);
    if (door->listener) tcp_listener_connection_closed(door->listener);
    close_when_empty(door);
}

static void on_connection_closed(uv_handle_t *handle)
{
    on_handle_gone(handle);
}

static void on_farewell_over(void *arg)
{
    struct door_connection *connection = arg;
    connection->farewell = NULL;
    on_handle_gone(connection);
}

// h2o has closed the socket: all that it wanted to send is with the kernel.
static void on_gate_closed(void *ctx)
{
    struct door_connection *connection = ctx;
    if (!connection->farewell) return;
    connection->handles_open++;
    farewell_start(connection->farewell, on_farewell_over, connection);
}

static void on_gate_refused(void *ctx)
{
    struct door_connection *connection = ctx;
    int fd = h2o_socket_get_fd(connection->gate.socket);
    if (fd >= 0) connection->farewell = farewell_create(loop_uv(connection->door->loop), fd);
}

static void open_gate(struct door_connection *connection, h2o_socket_t *socket)
{
    const struct h2o_door_options *options = &connection->door->options;
    connection->gate = (struct h2o_gate){
        .options = {.head_bytes_max = options->head_bytes_max, .body_bytes_max = options->body_bytes_max},
        .on_closed = on_gate_closed,
        .on_refused = on_gate_refused,
        .ctx = connection,
        .stream = (uv_stream_t *)&connection->tcp,
    };
    h2o_gate_open(&connection->gate, &connection->door->accept, socket);
}

static void on_handshake(h2o_socket_t *socket, const char *err)
{
    struct door_connection *connection = socket->data;
    connection->handshaking = NULL;
    if (err)
        h2o_socket_close(socket);
    else
        open_gate(connection, socket);
}

// False: too many from there. A proxy in front of us speaks for many clients.
static bool count_address(struct door_connection *connection)
{
    struct h2o_door *door = connection->door;
    struct sockaddr_storage address;
    char peer[INET6_ADDRSTRLEN] = "";
    int len = sizeof address;
    if (uv_tcp_getpeername(&connection->tcp, (struct sockaddr *)&address, &len) != 0) return true;
    uv_ip_name((struct sockaddr *)&address, peer, sizeof peer);
    if (trusted_proxies_have(&door->proxies, str_c(peer))) return true;
    census_network(peer, connection->network);
    connection->counted = census_enter(door->options.addresses, str_c(connection->network));
    return connection->counted;
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
    connection->handles_open = 1;
    connection->since_ms = uv_now(loop_uv(door->loop));
    if (!count_address(connection)) { // before the handshake, which is what costs
        metric_add(door->refused, 1);
        uv_close((uv_handle_t *)tcp, on_connection_closed);
        return;
    }
    h2o_socket_t *socket = h2o_uv_socket_create((uv_stream_t *)tcp, on_connection_closed);
    if (!door->accept.ssl_ctx) {
        open_gate(connection, socket);
        return;
    }
    socket->data = connection;
    connection->handshaking = socket;
    h2o_socket_ssl_handshake(socket, door->accept.ssl_ctx, NULL, on_handshake);
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
    if (on_written) on_written(socket, "the connection was closed");
}

static void on_sweep(void *arg)
{
    struct h2o_door *door = arg;
    uint64_t now_ms = uv_now(door->context.loop);
    // Handles that are closed leave the list in a later turn.
    for (struct door_connection *connection = door->first; connection; connection = connection->next) {
        h2o_socket_t *handshaking = connection->handshaking;
        if (!handshaking) {
            end_if_stuck(connection);
            h2o_gate_expire(&connection->gate, now_ms, door->options.request_timeout_ms);
        } else if (now_ms - connection->since_ms >= door->options.request_timeout_ms) {
            connection->handshaking = NULL;
            h2o_socket_close(handshaking);
        }
    }
}

// ---- the door ------------------------------------------------------------------------------------------------------

static void make_metrics(struct h2o_door *door)
{
    const char *name = door->options.name;
    door->open_connections =
        metric_with(metrics_gauge("culvert_http_connections", "Open connections by listener.", "listener", NULL), name);
    door->in_flight =
        metric_with(metrics_gauge("culvert_http_requests_in_flight", "Requests in flight.", "listener", NULL), name);
    door->seconds = metric_with(
        metrics_histogram("culvert_http_request_seconds", "Time from request to end of response.", "listener", NULL),
        name);
    door->refused = metric_with(metrics_counter("culvert_http_refused_connections_total",
                                                "Connections refused by the limit per address.", "listener", NULL),
                                name);
    door->answers = metrics_counter("culvert_http_requests_total", "Answered requests.", "listener", "code", NULL);
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
    // The gate is earlier, and says why: h2o would close without a word.
    door->config.http1.req_timeout = 2 * options->request_timeout_ms + 2 * SWEEP_MS;
    door->config.max_request_entity_size = options->body_bytes_max;
    h2o_hostconf_t *host = h2o_config_register_host(&door->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_pathconf_t *path = h2o_config_register_path(host, "/", 0);
    struct door_handler *handler = (struct door_handler *)h2o_create_handler(path, sizeof *handler);
    handler->super.on_req = h2o_request_on_handler;
    handler->door = door;
    h2o_context_init(&door->context, loop_uv(loop), &door->config);
    door->accept = (h2o_accept_ctx_t){.ctx = &door->context, .hosts = door->config.hosts};
    timer_init(&door->sweep, loop_uv(loop), on_sweep, door);
    timer_start(&door->sweep, SWEEP_MS, SWEEP_MS);
    h2o_door_set_tls(door, options->tls);
    door->own_quota.max = options->connections_max;
    struct quota *quota = options->connections ? options->connections : &door->own_quota;
    if (trusted_proxies_parse(str_c(options->trusted_proxies), &door->proxies, err) != ERROR_NONE) {
        h2o_door_destroy(door);
        return NULL;
    }
    door->listener = tcp_listener_create(loop, options->listen, quota, on_accepted, door, err);
    if (door->listener) {
        tcp_listener_set_handle_bytes(door->listener, sizeof(struct door_connection));
        return door;
    }
    h2o_door_destroy(door);
    return NULL;
}

uint16_t h2o_door_port(const struct h2o_door *door)
{
    return tcp_listener_port(door->listener);
}

void h2o_door_set_tls(struct h2o_door *door, SSL_CTX *tls)
{
    if (tls) SSL_CTX_up_ref(tls);
    if (door->accept.ssl_ctx) SSL_CTX_free(door->accept.ssl_ctx);
    door->accept.ssl_ctx = tls;
}

void h2o_door_wind_down(struct h2o_door *door)
{
    door->winding_down = true;
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
        if (uv_fileno((uv_handle_t *)&connection->tcp, &fd) == 0)
            shutdown(fd, SHUT_RDWR);
        else
            farewell_stop(connection->farewell);
    }
    close_when_empty(door);
}

void h2o_door_destroy(struct h2o_door *door)
{
    if (!door) return;
    timer_finish(&door->sweep);
    if (door->accept.ssl_ctx) SSL_CTX_free(door->accept.ssl_ctx);
    tcp_listener_destroy(door->listener);
    h2o_context_dispose(&door->context);
    h2o_config_dispose(&door->config);
    mem_free(door);
}
