#include "server/ingress_connection.h"

#include <stddef.h>

#include "base/http1.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/ingress_exchange.h"

enum { PIPELINED_PER_TURN = 16 };

static uint64_t now_ms(const struct ingress_connection *connection)
{
    return uv_now(loop_uv(connection->ingress->loop));
}

// ---- time ----------------------------------------------------------------------------------------------------

static uint64_t deadline_ms(const struct ingress_connection *connection)
{
    const struct ingress_options *options = &connection->ingress->options;
    switch (connection->state) {
    case INGRESS_IDLE:
        return connection->since_ms + (connection->requests ? options->idle_timeout_ms : options->head_timeout_ms);
    case INGRESS_HEAD: return connection->since_ms + options->head_timeout_ms;
    case INGRESS_EXCHANGE: return now_ms(connection) + options->stall_timeout_ms / 4 + 1;
    case INGRESS_LINGERING:
        return now_ms(connection) +
               (options->stall_timeout_ms < INGRESS_LINGER_MS ? options->stall_timeout_ms : INGRESS_LINGER_MS) / 2 + 1;
    case INGRESS_OPENING: // the stream has its own
    case INGRESS_CLOSED: break;
    }
    return 0;
}

static void on_timer(uv_timer_t *timer);

// A timer that runs already and comes earlier is left alone: it looks at the state of that time.
static void arm(struct ingress_connection *connection)
{
    uint64_t due = deadline_ms(connection);
    if (due == 0 || (connection->timer_due_ms && connection->timer_due_ms <= due)) return;
    uint64_t now = now_ms(connection);
    connection->timer_due_ms = due;
    uv_timer_start(&connection->timer, on_timer, due > now ? due - now : 1, 0);
}

static void enter(struct ingress_connection *connection, enum ingress_connection_state state)
{
    connection->state = state;
    connection->since_ms = connection->read_at_ms = connection->sent_at_ms = now_ms(connection);
    connection->sent_bytes = UINT64_MAX; // not looked at yet
    arm(connection);
}

// Nothing queued counts as progress: the client owes us nothing.
static bool has_stalled(struct ingress_connection *connection)
{
    uint64_t now = now_ms(connection);
    uint64_t sent = tls_stream_sent_bytes(connection->stream);
    uint64_t limit = connection->ingress->options.stall_timeout_ms;
    if (sent != connection->sent_bytes || tls_stream_queued(connection->stream) == 0) {
        connection->sent_bytes = sent;
        connection->sent_at_ms = now;
    }
    return now - connection->sent_at_ms >= limit;
}

static void check_exchange(struct ingress_connection *connection)
{
    struct ingress_exchange *exchange = connection->exchange;
    bool stalled = has_stalled(connection);
    if (stalled && !ingress_exchange_is_patient(exchange)) {
        ingress_connection_cut(connection, "client-stalled");
    } else if (ingress_exchange_awaits_body(exchange) &&
               now_ms(connection) - connection->read_at_ms >= connection->ingress->options.stall_timeout_ms) {
        ingress_connection_cut(connection, "body-stalled");
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct ingress_connection *connection = timer->data;
    uint64_t now = now_ms(connection);
    connection->timer_due_ms = 0;
    switch (connection->state) {
    case INGRESS_IDLE:
        if (now >= deadline_ms(connection)) ingress_connection_end_if_idle(connection);
        break;
    case INGRESS_HEAD:
        if (now >= deadline_ms(connection))
            ingress_exchange_refuse(connection, 408, "head-timeout", "the request head took too long");
        break;
    case INGRESS_EXCHANGE: check_exchange(connection); break;
    case INGRESS_LINGERING:
        if (has_stalled(connection) || (tls_stream_is_shut(connection->stream) &&
                                        (connection->eof || now - connection->since_ms >= INGRESS_LINGER_MS)))
            ingress_connection_close(connection);
        break;
    case INGRESS_OPENING:
    case INGRESS_CLOSED: break;
    }
    if (connection->state != INGRESS_CLOSED) arm(connection);
}

// ---- input ---------------------------------------------------------------------------------------------------

void ingress_connection_linger(struct ingress_connection *connection)
{
    ingress_exchange_destroy(connection->exchange);
    connection->exchange = NULL;
    strbuf_clear(&connection->in);
    strbuf_shrink(&connection->in);
    enter(connection, INGRESS_LINGERING);
    tls_stream_shutdown(connection->stream);
    tls_stream_read_start(connection->stream);
}

// Takes a head off the input. False: nothing to do until more arrives.
static bool take_head(struct ingress_connection *connection)
{
    struct strbuf *in = &connection->in;
    struct http1_head head;
    struct error err;
    size_t bytes = 0;
    if (in->len == 0) return false;
    enum error_code code =
        http1_parse_request(in->at, in->len, connection->ingress->options.head_bytes_max, &head, &bytes, &err);
    if (code == ERROR_AGAIN) {
        if (connection->state == INGRESS_IDLE) enter(connection, INGRESS_HEAD);
        return false;
    }
    if (code != ERROR_NONE) {
        bool large = code == ERROR_TOO_LARGE;
        ingress_exchange_refuse(connection, large ? 431 : 400, large ? "head-too-large" : "bad-request", err.text);
        return false;
    }
    // The exchange keeps the head's text; what came behind it goes into a new buffer.
    struct strbuf rest;
    strbuf_init(&rest, in->max);
    strbuf_add(&rest, in->at + bytes, in->len - bytes);
    char *text = strbuf_detach(in);
    *in = rest;
    connection->requests++;
    enter(connection, INGRESS_EXCHANGE);
    connection->exchange = ingress_exchange_create(connection, text, &head);
    return true;
}

// Moves the input and the exchange forward as far as they go.
static void advance(struct ingress_connection *connection)
{
    struct strbuf *in = &connection->in;
    for (int i = 0; i < PIPELINED_PER_TURN; i++) {
        if (connection->cut_reason || connection->state == INGRESS_LINGERING || connection->state == INGRESS_CLOSED)
            return;
        if (connection->state == INGRESS_EXCHANGE) {
            if (in->len > 0) {
                size_t used = ingress_exchange_feed(connection->exchange, in->at, in->len);
                strbuf_drop_front(in, used);
            }
            if (in->len == 0 && connection->eof) ingress_exchange_feed_end(connection->exchange);
            if (!ingress_exchange_is_over(connection->exchange)) break;
            if (!ingress_exchange_keeps_alive(connection->exchange)) {
                ingress_connection_linger(connection);
                return;
            }
            ingress_exchange_destroy(connection->exchange);
            connection->exchange = NULL;
            enter(connection, INGRESS_IDLE);
        }
        if (connection->ingress->stopped && in->len == 0) {
            ingress_connection_end_if_idle(connection);
            return;
        }
        if (!take_head(connection)) break;
    }
    if (connection->state == INGRESS_LINGERING || connection->state == INGRESS_CLOSED) return;
    // More requests wait than one turn takes: the others first.
    if (connection->state != INGRESS_EXCHANGE && in->len > 0 && memchr(in->at, '\n', in->len) &&
        connection->state == INGRESS_IDLE)
        ingress_connection_wake(connection);
    strbuf_shrink(in);
    if (in->len >= INGRESS_INPUT_BYTES)
        tls_stream_read_stop(connection->stream);
    else
        tls_stream_read_start(connection->stream);
}

static void on_data(void *arg, const char *at, size_t len)
{
    struct ingress_connection *connection = arg;
    size_t used = 0;
    if (connection->cut_reason || connection->state == INGRESS_CLOSED) return;
    connection->read_at_ms = now_ms(connection);
    if (connection->state == INGRESS_LINGERING) return;
    // A body goes from the record into the tunnel without another copy.
    if (connection->state == INGRESS_EXCHANGE && connection->in.len == 0)
        used = ingress_exchange_feed(connection->exchange, at, len);
    if (used < len && !strbuf_add(&connection->in, at + used, len - used)) {
        ingress_connection_cut(connection, "input-overflow");
        return;
    }
    // A head that comes in drops is looked at when a line is complete, not at every byte.
    bool waits = connection->state == INGRESS_HEAD && !memchr(at, '\n', len) &&
                 connection->in.len < connection->ingress->options.head_bytes_max;
    if (!waits) advance(connection);
}

static void on_eof(void *arg)
{
    struct ingress_connection *connection = arg;
    if (connection->cut_reason || connection->state == INGRESS_CLOSED) return;
    connection->eof = true;
    if (connection->state == INGRESS_EXCHANGE) {
        if (ingress_exchange_is_raw(connection->exchange))
            ingress_connection_wake(connection); // half-close, once what has come before is passed on
        else
            ingress_connection_cut(connection, "client-gone");
    } else if (connection->state == INGRESS_LINGERING && !tls_stream_is_shut(connection->stream)) {
        return; // our last bytes are still on their way
    } else {
        ingress_connection_close(connection);
    }
}

// ---- the other callbacks -------------------------------------------------------------------------------------

static void on_open(void *arg)
{
    struct ingress_connection *connection = arg;
    enter(connection, INGRESS_IDLE);
    if (connection->ingress->stopped)
        ingress_connection_end_if_idle(connection);
    else
        tls_stream_read_start(connection->stream);
}

static void on_drain(void *arg)
{
    struct ingress_connection *connection = arg;
    if (connection->exchange) ingress_exchange_drained(connection->exchange);
}

// The client ended its direction while we do not read because the tunnel takes no more of its body.
static void on_hangup(void *arg)
{
    struct ingress_connection *connection = arg;
    if (connection->state == INGRESS_EXCHANGE && !ingress_exchange_is_raw(connection->exchange))
        ingress_connection_cut(connection, "client-gone");
}

static void on_fail(void *arg, const struct error *err)
{
    struct ingress_connection *connection = arg;
    log_debug("ingress", "connection_failed", log_c("peer", connection->peer), log_err(err));
    if (connection->state == INGRESS_EXCHANGE)
        ingress_connection_cut(connection, "client-gone");
    else
        ingress_connection_close(connection);
}

static void run_turn(struct turn_item *item)
{
    struct ingress_connection *connection =
        (struct ingress_connection *)((char *)item - offsetof(struct ingress_connection, turn_item));
    if (connection->state == INGRESS_CLOSED) return;
    if (!connection->cut_reason) {
        advance(connection);
        return;
    }
    metric_add(metric_with(connection->ingress->cuts, connection->cut_reason), 1);
    log_debug("ingress", "connection_cut", log_c("peer", connection->peer), log_c("reason", connection->cut_reason));
    ingress_connection_close(connection);
}

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

void ingress_connection_end_if_idle(struct ingress_connection *connection)
{
    if (connection->state == INGRESS_IDLE && connection->in.len == 0) ingress_connection_linger(connection);
}

// ---- life ----------------------------------------------------------------------------------------------------

static void on_handle_gone(struct ingress_connection *connection)
{
    struct ingress *ingress = connection->ingress;
    if (--connection->handles_open > 0) return;
    *connection->link = connection->next;
    if (connection->next) connection->next->link = connection->link;
    ingress->connections--;
    metric_move(ingress->open_connections, -1);
    strbuf_finish(&connection->in);
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
    connection->state = INGRESS_CLOSED;
    turn_remove(&connection->ingress->pool.turn, &connection->turn_item);
    ingress_exchange_destroy(connection->exchange);
    connection->exchange = NULL;
    tls_stream_close(connection->stream, on_stream_closed, connection);
    uv_close((uv_handle_t *)&connection->timer, on_timer_closed);
}

void ingress_connection_create(struct ingress *ingress, uv_tcp_t *tcp)
{
    static const struct tls_stream_events events = {.on_open = on_open,
                                                    .on_data = on_data,
                                                    .on_eof = on_eof,
                                                    .on_drain = on_drain,
                                                    .on_hangup = on_hangup,
                                                    .on_fail = on_fail};
    struct ingress_connection *connection = mem_zalloc(sizeof *connection);
    connection->ingress = ingress;
    connection->next = ingress->first;
    connection->link = &ingress->first;
    if (ingress->first) ingress->first->link = &connection->next;
    ingress->first = connection;
    ingress->connections++;
    metric_move(ingress->open_connections, 1);
    connection->handles_open = 2;
    connection->turn_item.run = run_turn;
    // Reading pauses at INGRESS_INPUT_BYTES, or when a head could be too large; one read may come on top of either.
    strbuf_init(&connection->in,
                ingress->options.head_bytes_max + INGRESS_INPUT_BYTES + 2 * (size_t)TLS_STREAM_READ_BYTES);
    uv_timer_init(loop_uv(ingress->loop), &connection->timer);
    connection->timer.data = connection;
    connection->stream =
        tls_stream_create(&ingress->pool, tcp, ingress->tls, ingress->options.head_timeout_ms, &events, connection);
    tls_stream_peer(connection->stream, connection->peer);
}
