#include "server/ingress/ingress_connection.h"

#include <stddef.h>
#include <stdio.h>

#include "base/log/log.h"
#include "base/mem.h"

uint64_t ingress_connection_now_ms(const struct ingress_connection *connection)
{
    return uv_now(loop_uv(connection->ingress->loop));
}

// ---- of the listener -----------------------------------------------------------------------------------------

void ingress_count_answer(struct ingress *ingress, int status)
{
    struct metric **metric = &ingress->answers_by_status[status >= 0 && status < 600 ? status : 0];
    if (!*metric) {
        char code[16];
        snprintf(code, sizeof code, "%d", status);
        *metric = metric_with(ingress->answers, "ingress", code);
    }
    metric_add(*metric, 1);
}

static void on_pool_closed(void *arg)
{
    struct ingress *ingress = arg;
    loop_post(ingress->loop, ingress->on_closed, ingress->on_closed_arg);
}

void ingress_check_closed(struct ingress *ingress)
{
    if (!ingress->closing || ingress->connections > 0 || ingress->calls.authentications > 0 || ingress->pool_closed)
        return;
    ingress->pool_closed = true;
    tls_stream_pool_close(&ingress->pool, on_pool_closed, ingress);
}

// ---- time ----------------------------------------------------------------------------------------------------

static void on_timer(uv_timer_t *timer);

// A timer that runs already and comes earlier is left alone: it looks at the state of that time.
void ingress_connection_arm(struct ingress_connection *connection, uint64_t due_ms)
{
    if (due_ms == 0 || connection->state == INGRESS_CLOSED) return;
    if (connection->timer_due_ms && connection->timer_due_ms <= due_ms) return;
    uint64_t now = ingress_connection_now_ms(connection);
    connection->timer_due_ms = due_ms;
    uv_timer_start(&connection->timer, on_timer, due_ms > now ? due_ms - now : 1, 0);
}

bool ingress_connection_has_stalled(struct ingress_connection *connection, uint64_t limit_ms)
{
    uint64_t now = ingress_connection_now_ms(connection);
    uint64_t sent = tls_stream_sent_bytes(connection->stream);
    if (sent != connection->sent_bytes || tls_stream_queued(connection->stream) == 0) {
        connection->sent_bytes = sent;
        connection->sent_at_ms = now;
    }
    return now - connection->sent_at_ms >= limit_ms;
}

void ingress_connection_forget_progress(struct ingress_connection *connection)
{
    connection->sent_at_ms = ingress_connection_now_ms(connection);
    connection->sent_bytes = UINT64_MAX; // not looked at yet
}

static void look_at_lingering(struct ingress_connection *connection)
{
    uint64_t limit = connection->ingress->options.stall_timeout_ms;
    uint64_t now = ingress_connection_now_ms(connection);
    bool over = tls_stream_is_shut(connection->stream) &&
                (connection->eof || now - connection->linger_since_ms >= INGRESS_LINGER_MS);
    if (over || ingress_connection_has_stalled(connection, limit)) {
        ingress_connection_close(connection);
        return;
    }
    ingress_connection_arm(connection, now + (limit < INGRESS_LINGER_MS ? limit : INGRESS_LINGER_MS) / 2 + 1);
}

static void on_timer(uv_timer_t *timer)
{
    struct ingress_connection *connection = timer->data;
    connection->timer_due_ms = 0;
    if (connection->state == INGRESS_LINGERING) look_at_lingering(connection);
    if (connection->state != INGRESS_SERVING) return;
    uint64_t due = connection->protocol->on_time(connection->front, ingress_connection_now_ms(connection));
    if (connection->state == INGRESS_SERVING) ingress_connection_arm(connection, due);
}

void ingress_connection_be_patient(struct ingress_connection *connection)
{
    if (!connection->patient) tls_stream_be_patient(connection->stream);
    connection->patient = true;
}

// ---- the socket's callbacks ----------------------------------------------------------------------------------

static void start_protocol(struct ingress_connection *connection)
{
    const struct ingress *ingress = connection->ingress;
    bool http2 = str_eq(tls_stream_protocol(connection->stream), STR("h2"));
    connection->state = INGRESS_SERVING;
    connection->protocol = http2 ? ingress->http2 : ingress->http1;
    connection->front = connection->protocol->create(connection);
    metric_add(metric_with(connection->ingress->by_protocol, connection->protocol->name), 1);
}

static void on_open(void *arg)
{
    struct ingress_connection *connection = arg;
    if (connection->ingress->stopped) {
        ingress_connection_linger(connection);
        return;
    }
    start_protocol(connection);
    tls_stream_read_start(connection->stream);
}

static void on_data(void *arg, const char *at, size_t len)
{
    struct ingress_connection *connection = arg;
    if (connection->cut_reason || connection->state != INGRESS_SERVING) return;
    connection->protocol->on_data(connection->front, at, len);
}

static void on_eof(void *arg)
{
    struct ingress_connection *connection = arg;
    if (connection->cut_reason || connection->state == INGRESS_CLOSED) return;
    connection->eof = true;
    if (connection->state == INGRESS_SERVING)
        connection->protocol->on_eof(connection->front);
    else if (connection->state != INGRESS_LINGERING || tls_stream_is_shut(connection->stream))
        ingress_connection_close(connection);
}

static void on_drain(void *arg)
{
    struct ingress_connection *connection = arg;
    if (connection->state == INGRESS_SERVING) connection->protocol->on_drain(connection->front);
}

static void on_hangup(void *arg)
{
    struct ingress_connection *connection = arg;
    if (connection->state == INGRESS_SERVING) connection->protocol->on_hangup(connection->front);
}

// Both ends are over: nothing is left to linger for.
static void on_shut(void *arg)
{
    struct ingress_connection *connection = arg;
    if (connection->state == INGRESS_LINGERING && connection->eof) ingress_connection_close(connection);
}

static void on_fail(void *arg, const struct error *err)
{
    struct ingress_connection *connection = arg;
    log_debug("ingress", "connection_failed", log_c("peer", connection->peer), log_err(err));
    if (connection->state == INGRESS_SERVING && connection->protocol->is_busy(connection->front))
        ingress_connection_cut(connection, "client-gone");
    else
        ingress_connection_close(connection);
}

static void run_turn(struct turn_item *item)
{
    struct ingress_connection *connection =
        (struct ingress_connection *)((char *)item - offsetof(struct ingress_connection, turn_item));
    if (connection->state == INGRESS_CLOSED) return;
    if (connection->cut_reason) {
        metric_add(metric_with(connection->ingress->cuts, connection->cut_reason), 1);
        log_debug("ingress", "connection_cut", log_c("peer", connection->peer),
                  log_c("reason", connection->cut_reason));
        if (connection->state == INGRESS_SERVING && connection->protocol->on_cut &&
            connection->protocol->on_cut(connection->front))
            ingress_connection_linger(connection);
        else
            ingress_connection_close(connection);
    } else if (connection->state == INGRESS_SERVING) {
        connection->protocol->on_turn(connection->front);
    }
}

// ---- for the protocols ---------------------------------------------------------------------------------------

void ingress_connection_wake(struct ingress_connection *connection)
{
    if (connection->state != INGRESS_CLOSED) turn_add(&connection->ingress->pool.turn, &connection->turn_item);
}

void ingress_connection_cut(struct ingress_connection *connection, const char *reason)
{
    if (connection->cut_reason) return;
    connection->cut_reason = reason;
    ingress_connection_wake(connection);
}

static void end_protocol(struct ingress_connection *connection)
{
    if (connection->front) connection->protocol->destroy(connection->front);
    connection->front = NULL;
}

void ingress_connection_linger(struct ingress_connection *connection)
{
    if (connection->state == INGRESS_LINGERING || connection->state == INGRESS_CLOSED) return;
    end_protocol(connection);
    connection->state = INGRESS_LINGERING;
    connection->linger_since_ms = ingress_connection_now_ms(connection);
    ingress_connection_forget_progress(connection);
    tls_stream_shutdown(connection->stream);
    tls_stream_read_start(connection->stream);
    look_at_lingering(connection);
}

bool ingress_connection_take_account(struct ingress_connection *connection, struct str account_id)
{
    struct connection_limiter *accounts = connection->ingress->options.accounts;
    if (str_eq(account_id, str_c(connection->account))) return true;
    if (account_id.len >= sizeof connection->account || !connection_limiter_enter(accounts, account_id)) return false;
    if (connection->account[0]) connection_limiter_leave(accounts, str_c(connection->account));
    snprintf(connection->account, sizeof connection->account, "%.*s", STR_ARG(account_id));
    return true;
}

// ---- life ----------------------------------------------------------------------------------------------------

void ingress_connection_stop(struct ingress_connection *connection)
{
    if (connection->state == INGRESS_SERVING && !connection->cut_reason) connection->protocol->stop(connection->front);
}

static void count_connection(struct ingress *ingress, bool is_new)
{
    if (is_new)
        ingress->connections++;
    else
        ingress->connections--;
    metric_move(ingress->open_connections, is_new ? 1 : -1);
    if (ingress->options.open) atomic_store(ingress->options.open, ingress->connections);
}

static void on_handle_gone(struct ingress_connection *connection)
{
    struct ingress *ingress = connection->ingress;
    if (--connection->handles_open > 0) return;
    *connection->link = connection->next;
    if (connection->next) connection->next->link = connection->link;
    if (connection->counted) connection_limiter_leave(ingress->options.addresses, str_c(connection->network));
    if (connection->account[0]) connection_limiter_leave(ingress->options.accounts, str_c(connection->account));
    count_connection(ingress, false);
    mem_free(connection);
    if (ingress->listener) tcp_listener_connection_closed(ingress->listener);
    ingress_check_closed(ingress);
}

static void on_stream_closed(void *arg)
{
    on_handle_gone(arg);
}

static void on_timer_closed(uv_handle_t *handle)
{
    on_handle_gone(handle->data);
}

void ingress_connection_close(struct ingress_connection *connection)
{
    if (connection->state == INGRESS_CLOSED) return;
    end_protocol(connection);
    connection->state = INGRESS_CLOSED;
    turn_remove(&connection->ingress->pool.turn, &connection->turn_item);
    tls_stream_close(connection->stream, on_stream_closed, connection);
    uv_close((uv_handle_t *)&connection->timer, on_timer_closed);
}

static void link_connection(struct ingress_connection *connection, struct ingress *ingress)
{
    connection->ingress = ingress;
    connection->next = ingress->first;
    connection->link = &ingress->first;
    if (ingress->first) ingress->first->link = &connection->next;
    ingress->first = connection;
    count_connection(ingress, true);
}

static const struct tls_stream_events stream_events = {.on_open = on_open,
                                                       .on_data = on_data,
                                                       .on_eof = on_eof,
                                                       .on_drain = on_drain,
                                                       .on_hangup = on_hangup,
                                                       .on_shut = on_shut,
                                                       .on_fail = on_fail};

// All but its stream.
static struct ingress_connection *create(struct ingress *ingress)
{
    struct ingress_connection *connection = mem_zalloc(sizeof *connection);
    link_connection(connection, ingress);
    connection->handles_open = 2;
    connection->turn_item.run = run_turn;
    uv_timer_init(loop_uv(ingress->loop), &connection->timer);
    connection->timer.data = connection;
    return connection;
}

struct ingress_connection *ingress_connection_resume(struct ingress *ingress, uv_tcp_t *tcp, SSL *ssl)
{
    struct ingress_connection *connection = create(ingress);
    connection->stream = tls_stream_resume(&ingress->pool, tcp, ssl, &stream_events, connection);
    connection->state = INGRESS_SERVING;
    connection->protocol = ingress->http1;
    connection->front = connection->protocol->resume(connection);
    tls_stream_read_start(connection->stream);
    return connection;
}

void ingress_connection_create(struct ingress *ingress, uv_tcp_t *tcp)
{
    struct ingress_connection *connection = create(ingress);
    connection->stream = tls_stream_create(&ingress->pool, tcp, ingress->tls, ingress->options.head_timeout_ms,
                                           &stream_events, connection);
    tls_stream_peer(connection->stream, connection->peer);
    // A proxy in front of us speaks for many clients.
    if (trusted_proxies_have(&ingress->calls.trusted, str_c(connection->peer))) return;
    connection_limiter_network(connection->peer, connection->network);
    connection->counted = connection_limiter_enter(ingress->options.addresses, str_c(connection->network));
    if (connection->counted) return;
    // Before the handshake, which is what costs.
    metric_add(metric_with(ingress->refused, "address"), 1);
    ingress_connection_close(connection);
}
