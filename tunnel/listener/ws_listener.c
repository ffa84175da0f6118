// The server's part of tunnel/listener/ws.h: sockets in, limits, deadlines, the end.
#include "tunnel/listener/ws_listener.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tunnel/listener/ws_tls.h"

enum {
    HANDSHAKE_MS = 10000, // TLS and the request together
    TIMER_MS = 500,
    DAY_MS = 24 * 60 * 60 * 1000,
};

// ---- deadlines --------------------------------------------------------------------------------

void ws_unlink(struct tunnel_ws *ws)
{
    *ws->link = ws->next;
    if (ws->next) ws->next->link = ws->link;
}

static void insert(struct tunnel_ws **list, struct tunnel_ws *ws)
{
    ws->next = *list;
    ws->link = list;
    if (ws->next) ws->next->link = &ws->next;
    *list = ws;
}

static void on_deadline(struct tunnel_ws *ws)
{
    if (ws->state == WS_TLS || ws->state == WS_HEAD)
        ws_opening_expire(ws);
    else
        ws_drop(ws); // it was notified, or could not be, that this is the end
}

static void on_timer(uv_timer_t *timer)
{
    struct tunnel_ws_server *server = timer->data;
    uint64_t now_ms = clock_mono_ms();
    for (struct tunnel_ws *ws = server->timed, *next; ws; ws = next) {
        next = ws->next; // nothing is freed here, and a new deadline moves only its own connection
        if (now_ms >= ws->deadline_ms) on_deadline(ws);
    }
    if (!server->timed) uv_timer_stop(timer);
}

void ws_set_deadline(struct tunnel_ws *ws, uint64_t after_ms)
{
    struct tunnel_ws_server *server = ws->server;
    ws_unlink(ws);
    ws->deadline_ms = after_ms ? clock_mono_ms() + after_ms : 0;
    insert(after_ms ? &server->timed : &server->settled, ws);
    if (after_ms && !server->destroyed && !uv_is_active((uv_handle_t *)&server->timer))
        uv_timer_start(&server->timer, on_timer, TIMER_MS, TIMER_MS);
}

void ws_end_handshake(struct tunnel_ws *ws)
{
    if (!ws->handshaking) return;
    ws->handshaking = false;
    ws->server->handshakes--;
    connection_limiter_leave(ws->server->options.handshake_addresses, str_c(ws->network));
}

void ws_opened(struct tunnel_ws *ws)
{
    struct tunnel_ws_server *server = ws->server;
    ws_end_handshake(ws);
    ws_set_deadline(ws, 0);
    server->options.on_room(server->options.ctx);
}

// ---- sockets in -------------------------------------------------------------------------------

bool tunnel_ws_server_has_room(const struct tunnel_ws_server *server)
{
    return server->handshakes < server->options.handshakes_max &&
           server->connections - server->handshakes < server->options.connections_max + server->options.handshakes_max;
}

static void turn_tickets(struct tunnel_ws_server *server)
{
    uint64_t day = (uint64_t)clock_wall_ms() / DAY_MS;
    if (day == server->ticket_day) return;
    server->ticket_day = day;
    ws_tls_set_day(server->tls, day);
}

void tunnel_ws_server_adopt(struct tunnel_ws_server *server, int fd, const char *remote)
{
    // One address must not hold all the places where others would authenticate.
    char network[INET6_ADDRSTRLEN];
    listener_network(remote, network);
    if (!connection_limiter_enter(server->options.handshake_addresses, str_c(network))) {
        server->options.on_handshake_failed(server->options.ctx, "address");
        close(fd);
        return;
    }
    struct tunnel_ws *ws = mem_zalloc(sizeof(*ws));
    if (server->destroyed || uv_poll_init(server->loop, &ws->poll, fd) != 0) {
        connection_limiter_leave(server->options.handshake_addresses, str_c(network));
        close(fd);
        mem_free(ws);
        return;
    }
    memcpy(ws->network, network, sizeof(ws->network));
    turn_tickets(server);
    ws->server = server;
    ws->poll.data = ws;
    ws->turn_item.run = ws_on_turn;
    snprintf(ws->remote, sizeof(ws->remote), "%s", remote);
    strbuf_init(&ws->head, WS_HEAD_BYTES_MAX);
    byte_queue_init(&ws->control, WS_CONTROL_BYTES_MAX);
    tls_pipe_init(&ws->pipe, &server->pool, fd, server->tls);
    ws->handshaking = true;
    server->handles_open++;
    server->connections++;
    server->handshakes++;
    insert(&server->settled, ws);
    ws_set_deadline(ws, HANDSHAKE_MS);
    ws_watch(ws);
}

// ---- life -------------------------------------------------------------------------------------

enum error_code tunnel_ws_server_create(uv_loop_t *loop, const struct tunnel_ws_options *options,
                                        struct tunnel_ws_server **out, struct error *err)
{
    SSL_CTX *tls = NULL;
    if (!options->tls_certificate_file || !options->tls_key_file)
        return error_set(err, ERROR_INVALID, "the tunnel listener requires a TLS certificate and its key");
    enum error_code code = ws_tls_create(options->tls_certificate_file, options->tls_key_file, &tls, err);
    if (code) return code;
    struct tunnel_ws_server *server = mem_zalloc(sizeof(*server));
    server->options = *options;
    server->loop = loop;
    server->tls = tls;
    server->plain = mem_alloc(WS_PLAIN_BYTES);
    server->message = mem_alloc(WS_FRAME_HEADER_BYTES_MAX + TUNNEL_WS_WRITE_BYTES);
    tls_pool_init(&server->pool);
    turn_init(&server->turn, loop);
    uv_timer_init(loop, &server->timer);
    server->timer.data = server;
    server->handles_open = 1; // the timer: it ends with the server
    *out = server;
    return ERROR_NONE;
}

enum error_code tunnel_ws_server_reload_tls(struct tunnel_ws_server *server, struct error *err)
{
    SSL_CTX *tls = NULL;
    enum error_code code = ws_tls_create(server->options.tls_certificate_file, server->options.tls_key_file, &tls, err);
    if (code) return code;
    SSL_CTX_free(server->tls); // connections hold it on
    server->tls = tls;
    server->ticket_day = 0;
    return ERROR_NONE;
}

static void on_turn_closed(void *arg)
{
    struct tunnel_ws_server *server = arg;
    void (*on_done)(void *arg) = server->on_done;
    void *done_arg = server->arg;
    tls_pool_finish(&server->pool);
    SSL_CTX_free(server->tls);
    mem_free(server->plain);
    mem_free(server->message);
    mem_free(server);
    if (on_done) on_done(done_arg);
}

// The turn is needed until the last connection has called on_closed.
static void release_handle(struct tunnel_ws_server *server)
{
    if (--server->handles_open == 0) turn_close(&server->turn, on_turn_closed, server);
}

void ws_on_handle_closed(uv_handle_t *handle)
{
    struct tunnel_ws *ws = handle->data;
    struct tunnel_ws_server *server = ws->server;
    mem_free(ws);
    release_handle(server);
}

static void on_timer_closed(uv_handle_t *handle)
{
    release_handle(handle->data);
}

static void drop_all(struct tunnel_ws *list)
{
    for (struct tunnel_ws *ws = list, *next; ws; ws = next) {
        next = ws->next;
        ws_send_pending(ws); // a Close frame that waits for the end of the turn
        ws_drop(ws);
    }
}

void tunnel_ws_server_destroy(struct tunnel_ws_server *server, void (*on_done)(void *arg), void *arg)
{
    server->destroyed = true;
    server->on_done = on_done;
    server->arg = arg;
    drop_all(server->timed);
    drop_all(server->settled);
    uv_close((uv_handle_t *)&server->timer, on_timer_closed);
}
