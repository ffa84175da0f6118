#include "server/ingress/ingress_http1.h"

#include "base/mem.h"
#include "base/parse.h"
#include "server/ingress/ingress_http1_state.h"
#include "server/ingress/ingress_transfer.h"

enum { PIPELINED_PER_TURN = 16, TRAILER_TEXT_BYTES_MAX = 16 * 1024 };

static uint64_t now_ms(const struct ingress_http1 *http1)
{
    return ingress_connection_now_ms(http1->connection);
}

// ---- time ----------------------------------------------------------------------------------------------------

static uint64_t deadline_ms(const struct ingress_http1 *http1)
{
    const struct ingress_options *options = &http1->connection->ingress->options;
    switch (http1->state) {
    case INGRESS_HTTP1_IDLE:
        return http1->since_ms + (http1->requests ? options->idle_timeout_ms : options->head_timeout_ms);
    case INGRESS_HTTP1_HEAD: return http1->since_ms + options->head_timeout_ms;
    case INGRESS_HTTP1_EXCHANGE: break;
    }
    return now_ms(http1) + options->stall_timeout_ms / 4 + 1;
}

static void enter(struct ingress_http1 *http1, enum ingress_http1_state state)
{
    http1->state = state;
    http1->since_ms = http1->read_at_ms = now_ms(http1);
    ingress_connection_forget_progress(http1->connection);
    ingress_connection_arm(http1->connection, deadline_ms(http1));
}

static void check_exchange(struct ingress_http1 *http1)
{
    struct ingress_connection *connection = http1->connection;
    struct call_exchange *exchange = http1->exchange;
    uint64_t limit = connection->ingress->options.stall_timeout_ms, sent = connection->sent_bytes;
    bool stalled = ingress_connection_has_stalled(connection, limit);
    // The other half is waited for once the client could see the end of ours.
    bool is_saying = http1->raw && (!tls_stream_is_shut(connection->stream) || connection->sent_bytes != sent);
    if (is_saying || !call_exchange_awaits_body(exchange)) http1->read_at_ms = now_ms(http1);
    if (call_exchange_is_patient(exchange))
        ingress_connection_forget_progress(connection);
    else if (stalled)
        ingress_connection_cut(connection, "client-stalled");
    else if (now_ms(http1) - http1->read_at_ms >= limit)
        ingress_connection_cut(connection, "body-stalled");
}

static void end_if_idle(struct ingress_http1 *http1)
{
    if (http1->state == INGRESS_HTTP1_IDLE && http1->in.len == 0) ingress_connection_linger(http1->connection);
}

static uint64_t on_time(void *front, uint64_t now)
{
    struct ingress_http1 *http1 = front;
    uint64_t due = deadline_ms(http1), again;
    switch (http1->state) {
    case INGRESS_HTTP1_IDLE:
        if (now < due) break;
        end_if_idle(http1);
        return 0;
    case INGRESS_HTTP1_HEAD:
        if (now < due) break;
        ingress_http1_refuse(http1, 408, "head-timeout", "the request head took too long");
        return 0;
    case INGRESS_HTTP1_EXCHANGE:
        again = call_exchange_on_time(http1->exchange, now);
        if (again && again < due) due = again;
        check_exchange(http1);
        break;
    }
    return due;
}

// ---- requests ------------------------------------------------------------------------------------------------

// RFC 6455 section 4.2.1; the version is the exchange's to check. False: refused.
static bool check_websocket_key(struct ingress_http1 *http1)
{
    uint8_t key[24];
    size_t key_len = 0;
    if (parse_base64(http1_find(&http1->head, STR("sec-websocket-key")), key, sizeof key, &key_len, NULL) ==
            ERROR_NONE &&
        key_len == 16)
        return true;
    ingress_http1_refuse(http1, 400, "bad-request", "malformed WebSocket handshake");
    return false;
}

// What the request wants to switch to, if that is something offered here: anything else is plain HTTP (RFC 9110
// section 7.8). False: refused.
static bool read_upgrade(struct ingress_http1 *http1, struct str *out)
{
    const struct http1_head *head = &http1->head;
    bool websocket = str_eq_nocase(head->upgrade, STR("websocket"));
    *out = STR_EMPTY;
    if (!websocket && !str_eq_nocase(head->upgrade, STR("connect-tcp"))) return true;
    if (!str_eq(head->method, STR("GET")) || head->body != HTTP1_BODY_NONE) {
        ingress_http1_refuse(http1, 400, "bad-request", "only a GET without a body can be upgraded");
        return false;
    }
    *out = websocket ? STR("websocket") : STR("connect-tcp");
    return !websocket || check_websocket_key(http1);
}

static void begin_exchange(struct ingress_http1 *http1)
{
    const struct http1_head *head = &http1->head;
    struct str protocol;
    if (!read_upgrade(http1, &protocol)) return;
    bool none = head->body == HTTP1_BODY_NONE || (head->body == HTTP1_BODY_LENGTH && head->content_length == 0);
    const struct call_head request = {
        .method = head->method,
        .target = head->target,
        .host = head->host,
        .peer = str_c(http1->connection->peer),
        .tls = http1->connection->ingress->tls != NULL,
        .protocol = protocol,
        .expect = head->minor == 1 ? http1_find(head, STR("expect")) : STR_EMPTY,
        .headers = head->headers,
        .header_count = head->header_count,
        .complete = none && protocol.len == 0,
        .has_length = head->body == HTTP1_BODY_LENGTH,
    };
    http1->last = !head->keep_alive || head->minor == 0 || http1->connection->ingress->winding_down;
    http1->body_left = head->content_length;
    http1->raw = http1->client_blocked = false;
    http1->answer_body = HTTP1_BODY_NONE;
    http1_chunked_init(&http1->chunked);
    http1->chunked.trailers = &http1->trailer_text;
    http1->exchange = call_exchange_create(&http1->connection->ingress->calls, &request, &ingress_http1_front, http1);
    enter(http1, INGRESS_HTTP1_EXCHANGE);
    call_exchange_start(http1->exchange);
}

// Takes a head off the input. False: nothing to do until more arrives, or the connection is over.
static bool take_head(struct ingress_http1 *http1)
{
    struct ingress_connection *connection = http1->connection;
    struct strbuf *in = &http1->in;
    struct error err;
    size_t bytes = 0;
    if (in->len == 0) return false;
    enum error_code code =
        http1_parse_request(in->at, in->len, connection->ingress->options.head_bytes_max, &http1->head, &bytes, &err);
    if (code == ERROR_AGAIN) {
        if (http1->state == INGRESS_HTTP1_IDLE) enter(http1, INGRESS_HTTP1_HEAD);
        return false;
    }
    if (code != ERROR_NONE) {
        bool large = code == ERROR_TOO_LARGE;
        ingress_http1_refuse(http1, large ? 431 : 400, large ? "head-too-large" : "bad-request", err.text);
        return false;
    }
    // The buffers change places: the head's text stays where its views point.
    struct strbuf text = *in;
    *in = http1->head_text;
    http1->head_text = text;
    strbuf_clear(in);
    strbuf_add(in, text.at + bytes, text.len - bytes);
    http1->requests++;
    begin_exchange(http1);
    return connection->state == INGRESS_SERVING; // else the front is gone
}

static void trim(struct strbuf *buffer)
{
    if (buffer->len == 0 && buffer->cap > INGRESS_KEPT_BYTES_MAX) strbuf_finish(buffer);
}

static void end_exchange(struct ingress_http1 *http1)
{
    call_exchange_destroy(http1->exchange);
    http1->exchange = NULL;
    strbuf_clear(&http1->head_text);
    trim(&http1->head_text);
    strbuf_finish(&http1->trailer_text);
}

// ---- bodies --------------------------------------------------------------------------------------------------

static void end_chunked(struct ingress_http1 *http1)
{
    struct http_header trailers[INGRESS_TRAILER_LINES_MAX];
    size_t count = http1_parse_trailers(strbuf_str(&http1->trailer_text), trailers, INGRESS_TRAILER_LINES_MAX);
    call_exchange_feed_end(http1->exchange, trailers, count);
}

static size_t feed_chunked(struct ingress_http1 *http1, const char *at, size_t len)
{
    size_t total = 0;
    while (total < len && call_exchange_wants(http1->exchange)) {
        size_t used = 0;
        struct str data;
        bool done = false;
        struct error err;
        if (http1_chunked_feed(&http1->chunked, at + total, len - total, &used, &data, &done, &err) != ERROR_NONE) {
            http1->last = true;
            call_exchange_feed_broken(http1->exchange, err.text);
            return len;
        }
        total += used;
        if (data.len > 0) call_exchange_feed(http1->exchange, data.at, data.len);
        if (done) end_chunked(http1);
    }
    return total;
}

// Returns how many bytes were taken.
static size_t feed(struct ingress_http1 *http1, const char *at, size_t len)
{
    if (!call_exchange_wants(http1->exchange)) return 0;
    if (http1->raw) {
        call_exchange_feed(http1->exchange, at, len);
        return len;
    }
    if (http1->head.body == HTTP1_BODY_CHUNKED) return feed_chunked(http1, at, len);
    size_t take = http1->body_left < len ? (size_t)http1->body_left : len;
    http1->body_left -= take;
    call_exchange_feed(http1->exchange, at, take);
    if (http1->body_left == 0) call_exchange_feed_end(http1->exchange, NULL, 0);
    return take;
}

// ---- input ---------------------------------------------------------------------------------------------------

// A connection whose requests all go to another loop's session is better off there, once its answer has left.
static void note_home(struct ingress_http1 *http1)
{
    unsigned home = call_exchange_home(http1->exchange);
    bool is_away = home != loop_index(http1->connection->ingress->loop);
    if (home != http1->home) http1->answers_away = 0;
    http1->home = home;
    http1->answers_away = is_away ? http1->answers_away + 1 : 0;
    if (http1->answers_away >= INGRESS_TRANSFER_AFTER) ingress_connection_wake(http1->connection);
}

// False: it stays.
static bool follow_home(struct ingress_http1 *http1)
{
    if (http1->answers_away < INGRESS_TRANSFER_AFTER || http1->state != INGRESS_HTTP1_IDLE || http1->in.len > 0)
        return false;
    http1->answers_away = 0;
    return ingress_transfer_begin(http1->connection, http1->home);
}

// Feeds what waits. False: the exchange is not over, or nothing may follow it.
static bool advance_exchange(struct ingress_http1 *http1)
{
    struct strbuf *in = &http1->in;
    if (in->len > 0) {
        size_t used = feed(http1, in->at, in->len);
        strbuf_drop_front(in, used);
    }
    // Half-close, once what has come before is passed on.
    if (in->len == 0 && http1->connection->eof && http1->raw) call_exchange_feed_end(http1->exchange, NULL, 0);
    if (!call_exchange_is_over(http1->exchange)) return false;
    if (http1->last || !call_exchange_is_received(http1->exchange)) {
        ingress_connection_linger(http1->connection);
        return false;
    }
    note_home(http1);
    end_exchange(http1);
    enter(http1, INGRESS_HTTP1_IDLE);
    return true;
}

static void pace_reading(struct ingress_http1 *http1)
{
    struct tls_stream *stream = http1->connection->stream;
    trim(&http1->in);
    if (http1->in.len >= INGRESS_INPUT_BYTES)
        tls_stream_read_stop(stream);
    else
        tls_stream_read_start(stream);
}

// Moves the input and the exchange forward as far as they go.
static void advance(struct ingress_http1 *http1)
{
    struct ingress_connection *connection = http1->connection;
    for (int i = 0; i < PIPELINED_PER_TURN; i++) {
        if (connection->cut_reason) return;
        if (http1->state == INGRESS_HTTP1_EXCHANGE && !advance_exchange(http1)) break;
        if (connection->ingress->stopped && http1->in.len == 0) {
            end_if_idle(http1);
            return;
        }
        if (!take_head(http1)) break;
    }
    if (connection->state != INGRESS_SERVING) return; // the front is gone
    // More requests wait than one turn takes: the others first.
    if (http1->state == INGRESS_HTTP1_IDLE && http1->in.len > 0 && memchr(http1->in.at, '\n', http1->in.len))
        ingress_connection_wake(connection);
    pace_reading(http1);
}

static void on_data(void *front, const char *at, size_t len)
{
    struct ingress_http1 *http1 = front;
    size_t used = 0;
    http1->read_at_ms = now_ms(http1);
    // A body goes from the record into the tunnel without another copy.
    if (http1->state == INGRESS_HTTP1_EXCHANGE && http1->in.len == 0) used = feed(http1, at, len);
    if (used < len && !strbuf_add(&http1->in, at + used, len - used)) {
        ingress_connection_cut(http1->connection, "input-overflow");
        return;
    }
    // A head that comes in drops is not parsed at each of them.
    size_t head_bytes_max = http1->connection->ingress->options.head_bytes_max;
    if (http1->state != INGRESS_HTTP1_HEAD ||
        http1_head_is_due(http1->in.at, http1->in.len, http1->in.len - (len - used), head_bytes_max))
        advance(http1);
}

static void on_eof(void *front)
{
    struct ingress_http1 *http1 = front;
    if (http1->state != INGRESS_HTTP1_EXCHANGE)
        ingress_connection_close(http1->connection);
    else if (http1->raw)
        ingress_connection_wake(http1->connection);
    else
        ingress_connection_cut(http1->connection, "client-gone");
}

static void on_hangup(void *front)
{
    struct ingress_http1 *http1 = front;
    // The client ended its direction while we do not read because the tunnel takes no more of its body.
    if (http1->state == INGRESS_HTTP1_EXCHANGE && !http1->raw) ingress_connection_cut(http1->connection, "client-gone");
}

static void on_drain(void *front)
{
    struct ingress_http1 *http1 = front;
    http1->client_blocked = false;
    if (http1->exchange) call_exchange_took(http1->exchange, SIZE_MAX);
}

static void on_turn(void *front)
{
    if (!follow_home(front)) advance(front);
}

// ---- life ----------------------------------------------------------------------------------------------------

static void stop(void *front)
{
    struct ingress_http1 *http1 = front;
    http1->last = true;
    end_if_idle(http1);
}

static bool is_busy(const void *front)
{
    const struct ingress_http1 *http1 = front;
    return http1->state == INGRESS_HTTP1_EXCHANGE;
}

static void destroy(void *front)
{
    struct ingress_http1 *http1 = front;
    call_exchange_destroy(http1->exchange);
    strbuf_finish(&http1->in);
    strbuf_finish(&http1->head_text);
    strbuf_finish(&http1->trailer_text);
    mem_free(http1);
}

static void *create(struct ingress_connection *connection)
{
    struct ingress_http1 *http1 = mem_zalloc(sizeof *http1);
    // Reading pauses at INGRESS_INPUT_BYTES, or when a head could be too large; one read may come on top of either.
    size_t bytes_max =
        connection->ingress->options.head_bytes_max + INGRESS_INPUT_BYTES + 2 * (size_t)TLS_STREAM_READ_BYTES;
    http1->connection = connection;
    strbuf_init(&http1->in, bytes_max);
    strbuf_init(&http1->head_text, bytes_max);
    strbuf_init(&http1->trailer_text, TRAILER_TEXT_BYTES_MAX);
    enter(http1, INGRESS_HTTP1_IDLE);
    return http1;
}

// Between two requests, the first of which were another front's.
static void *resume(struct ingress_connection *connection)
{
    struct ingress_http1 *http1 = create(connection);
    http1->requests = 1;
    enter(http1, INGRESS_HTTP1_IDLE);
    return http1;
}

const struct ingress_protocol ingress_http1_protocol = {
    .name = "http/1.1",
    .create = create,
    .resume = resume,
    .on_data = on_data,
    .on_eof = on_eof,
    .on_drain = on_drain,
    .on_hangup = on_hangup,
    .on_turn = on_turn,
    .on_time = on_time,
    .stop = stop,
    .is_busy = is_busy,
    .destroy = destroy,
};
