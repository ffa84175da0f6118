#include "agent/calls/upstream.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "tunnel/wire/ws_handshake.h"

enum {
    REQUEST_BYTES_MAX = 96 * 1024, // the head comes from a stream's, which is bounded below that
    TAIL_BYTES_MAX = 16 * 1024,    // of a chunked body: last chunk line and trailers
    TRAILERS_MAX = 32,
    INFO_MAX = 16,             // 1xx answers before the head
    UNSAFE_IDLE_MS_MAX = 2000, // a request that cannot be repeated takes only a connection that was used just now
    CHUNK_LINE_BYTES = 20,
};

// STATE_HALF: of an upgraded connection the service has ended its half.
enum upstream_state { STATE_HEAD, STATE_BODY, STATE_BYTES, STATE_HALF, STATE_DONE };

struct upstream {
    struct upstream_pool *pool;
    struct upstream_connection *connection; // NULL once given back or closed
    struct upstream_events events;
    void *arg;
    enum upstream_state state;
    enum upstream_mode mode;
    char *host;
    uint16_t port;
    bool tls;
    char method[32];
    char key[WS_HANDSHAKE_KEY_BYTES];
    struct strbuf head; // of the request; kept until the answer begins, for the one retry
    struct strbuf in;   // a head that is incomplete
    bool chunked;       // the request body
    bool request_done, body_sent;
    bool safe, reused, retried, answered;
    unsigned infos;
    // the answer
    enum http1_body body;
    uint64_t body_left;
    bool keep_alive, surplus;
    struct http1_chunked decoder;
    struct strbuf tail;
    unsigned depth; // inside our own events
    bool destroyed;
};

// ---- end -------------------------------------------------------------------------------------------------------

static void drop_connection(struct upstream *u)
{
    if (u->connection) upstream_connection_close(u->connection);
    u->connection = NULL;
}

static void maybe_free(struct upstream *u)
{
    if (!u->destroyed || u->depth) return;
    strbuf_finish(&u->head);
    strbuf_finish(&u->in);
    strbuf_finish(&u->tail);
    mem_free(u->host);
    mem_free(u);
}

void upstream_destroy(struct upstream *u)
{
    if (!u) return;
    // Bytes of an upgraded connection may stand behind its last event: both halves were closed in good order.
    bool both_ended = u->state == STATE_HALF && u->request_done;
    if (both_ended && u->connection) {
        upstream_connection_finish(u->connection);
        u->connection = NULL;
    }
    drop_connection(u);
    u->state = STATE_DONE;
    u->destroyed = true;
    maybe_free(u);
}

static void fail(struct upstream *u, const struct error *err)
{
    if (u->state == STATE_DONE) return;
    drop_connection(u);
    u->state = STATE_DONE;
    u->events.on_fail(u->arg, err);
}

static void fail_protocol(struct upstream *u, const char *reason)
{
    struct error err = {0};
    error_set(&err, ERROR_PROTOCOL, "%s:%u: %s", u->host, (unsigned)u->port, reason);
    fail(u, &err);
}

// Lines "name: value" behind the last chunk: the decoder has checked their form.
static size_t read_trailers(struct upstream *u, struct http_header *out)
{
    struct str rest = strbuf_str(&u->tail), line, name;
    size_t count = 0;
    if (u->tail.overflow) return 0;
    if (str_starts(rest, STR("\r\n"))) rest = str_from(rest, 2);
    str_cut(&rest, '\n', &line); // the last chunk's size
    while (str_cut(&rest, '\n', &line) && line.len > 1 && count < TRAILERS_MAX) {
        struct str value = str_first(line, line.len - 1);
        if (str_cut(&value, ':', &name)) out[count++] = (struct http_header){name, str_trim(value)};
    }
    return count;
}

static void finish_answer(struct upstream *u)
{
    struct http_header trailers[TRAILERS_MAX];
    size_t count = u->body == HTTP1_BODY_CHUNKED ? read_trailers(u, trailers) : 0;
    struct upstream_connection *connection = u->connection;
    u->connection = NULL;
    u->state = STATE_DONE;
    if (u->keep_alive && u->request_done && !u->surplus)
        upstream_pool_give(u->pool, connection);
    else
        upstream_connection_close(connection);
    u->events.on_end(u->arg, trailers, count);
}

// ---- body of the answer ----------------------------------------------------------------------------------------

static void give_data(struct upstream *u, const char *at, size_t len)
{
    if (!len || u->state >= STATE_HALF) return;
    if (!u->events.on_data(u->arg, at, len) && u->connection) upstream_connection_pause(u->connection);
}

static void feed_chunked(struct upstream *u, const char *at, size_t len)
{
    while (len && u->state == STATE_BODY) {
        struct error err = {0};
        struct str data;
        size_t used;
        bool done;
        if (http1_chunked_feed(&u->decoder, at, len, &used, &data, &done, &err)) {
            fail_protocol(u, err.text);
            return;
        }
        // Bytes that are no data: what stands behind the last data, in the end, holds the trailers.
        const char *frame = at;
        if (data.len) {
            strbuf_clear(&u->tail);
            frame = data.at + data.len;
        }
        strbuf_add(&u->tail, frame, (size_t)(at + used - frame));
        at += used;
        len -= used;
        give_data(u, data.at, data.len);
        if (!done || u->state != STATE_BODY) continue;
        u->surplus = len > 0;
        finish_answer(u);
    }
}

static void feed_body(struct upstream *u, const char *at, size_t len)
{
    if (u->state == STATE_BYTES || u->body == HTTP1_BODY_UNTIL_CLOSE) {
        give_data(u, at, len);
    } else if (u->body == HTTP1_BODY_CHUNKED) {
        feed_chunked(u, at, len);
    } else {
        size_t here = len < u->body_left ? len : (size_t)u->body_left;
        u->body_left -= here;
        u->surplus = here < len;
        give_data(u, at, here);
        if (!u->body_left && u->state == STATE_BODY) finish_answer(u);
    }
}

// ---- head of the answer ----------------------------------------------------------------------------------------

static bool check_upgrade(struct upstream *u, const struct http1_head *head)
{
    struct error err = {0};
    if (u->mode != UPSTREAM_WEBSOCKET) {
        fail_protocol(u, "answered 101 to a request without upgrade");
        return false;
    }
    if (ws_handshake_check(head, str_c(u->key), &err)) {
        fail_protocol(u, err.text);
        return false;
    }
    return true;
}

static void on_final_head(struct upstream *u, const struct http1_head *head)
{
    if (head->status == 101) {
        if (!check_upgrade(u, head)) return;
        u->state = STATE_BYTES;
        u->body = HTTP1_BODY_UNTIL_CLOSE;
    } else {
        u->state = STATE_BODY;
        u->body = head->body;
        u->body_left = head->body == HTTP1_BODY_LENGTH ? head->content_length : 0;
        // Not switched: what the caller means for the other side of a 101 is no part of this HTTP connection.
        if (u->mode == UPSTREAM_WEBSOCKET) u->request_done = true;
        u->keep_alive = head->keep_alive && head->body != HTTP1_BODY_UNTIL_CLOSE && u->mode == UPSTREAM_HTTP;
        http1_chunked_init(&u->decoder);
    }
    u->events.on_head(u->arg, head);
}

// Reads heads off at..len until the final one; returns the bytes used, or 0 when more are needed or it failed.
static size_t read_heads(struct upstream *u, const char *at, size_t len)
{
    size_t used = 0;
    while (u->state == STATE_HEAD) {
        struct http1_head head;
        struct error err = {0};
        size_t bytes;
        enum error_code code =
            http1_parse_response(at + used, len - used, HTTP1_HEAD_BYTES_MAX, str_c(u->method), &head, &bytes, &err);
        if (code == ERROR_AGAIN) break;
        if (code) {
            fail_protocol(u, err.text);
            break;
        }
        used += bytes;
        if (head.status >= 200 || head.status == 101)
            on_final_head(u, &head);
        else if (++u->infos > INFO_MAX)
            fail_protocol(u, "too many informational answers");
        else
            u->events.on_info(u->arg, &head);
    }
    return used;
}

static void feed_head(struct upstream *u, const char *at, size_t len)
{
    size_t used;
    if (!u->in.len) {
        used = read_heads(u, at, len);
        if (u->state == STATE_HEAD) strbuf_add(&u->in, at + used, len - used);
    } else {
        // The head began in an earlier read: look at both together, then go on in this one.
        size_t before = u->in.len;
        size_t room = u->in.max - before;
        strbuf_add(&u->in, at, len < room ? len : room);
        used = read_heads(u, u->in.at, u->in.len);
        if (u->state == STATE_HEAD) {
            strbuf_drop_front(&u->in, used);
            if (len > room) fail_protocol(u, "head is too long");
            return;
        }
        used -= before; // the final head ends in this read, or it would have been found before
        strbuf_clear(&u->in);
    }
    if (u->state == STATE_BODY && (u->body == HTTP1_BODY_NONE || (u->body == HTTP1_BODY_LENGTH && !u->body_left))) {
        u->surplus = used < len;
        finish_answer(u);
    } else if ((u->state == STATE_BODY || u->state == STATE_BYTES) && used < len) {
        feed_body(u, at + used, len - used);
    }
}

// ---- connection ------------------------------------------------------------------------------------------------

static void connect_upstream(struct upstream *u, uint64_t idle_ms_max);

// A kept connection may have been closed by the service at the very moment it was taken. Nothing of an answer came, the
// method is safe and no body was sent: ask once more on a new connection (RFC 9112 section 9.3.1).
static bool retry(struct upstream *u)
{
    if (!u->reused || u->retried || u->answered || u->body_sent || !u->safe || u->state != STATE_HEAD) return false;
    u->retried = true;
    drop_connection(u);
    connect_upstream(u, 0);
    return true;
}

static void on_connection_read(void *arg, const char *at, size_t len)
{
    struct upstream *u = arg;
    u->depth++;
    if (!u->answered) {
        u->answered = true;
        strbuf_finish(&u->head);
    }
    if (u->state == STATE_HEAD)
        feed_head(u, at, len);
    else
        feed_body(u, at, len);
    u->depth--;
    maybe_free(u);
}

static void on_connection_eof(void *arg)
{
    struct upstream *u = arg;
    u->depth++;
    if (u->state == STATE_BYTES) {
        u->state = STATE_HALF; // ours goes on until the owner destroys
        u->events.on_end(u->arg, NULL, 0);
    } else if (u->state == STATE_BODY && u->body == HTTP1_BODY_UNTIL_CLOSE) {
        finish_answer(u);
    } else if (!retry(u)) {
        fail_protocol(u, "closed the connection early");
    }
    u->depth--;
    maybe_free(u);
}

static void on_connection_error(void *arg, const struct error *err)
{
    struct upstream *u = arg;
    u->depth++;
    if (!retry(u)) fail(u, err);
    u->depth--;
    maybe_free(u);
}

static void on_connection_room(void *arg)
{
    struct upstream *u = arg;
    u->depth++;
    u->events.on_room(u->arg);
    u->depth--;
    maybe_free(u);
}

static void on_connection_connected(void *arg)
{
    struct upstream *u = arg;
    struct http1_head head;
    if (u->mode != UPSTREAM_RAW) return;
    memset(&head, 0, sizeof(head));
    head.status = 200;
    u->depth++;
    u->state = STATE_BYTES;
    u->events.on_head(u->arg, &head);
    if (u->connection) upstream_connection_resume(u->connection);
    u->depth--;
    maybe_free(u);
}

static void connect_upstream(struct upstream *u, uint64_t idle_ms_max)
{
    static const struct upstream_connection_events events = {
        .on_connected = on_connection_connected,
        .on_read = on_connection_read,
        .on_eof = on_connection_eof,
        .on_room = on_connection_room,
        .on_error = on_connection_error,
    };
    u->connection = upstream_pool_take(u->pool, str_c(u->host), u->port, u->tls, idle_ms_max, &events, u, &u->reused);
    struct str head = strbuf_str(&u->head);
    if (u->mode != UPSTREAM_RAW) upstream_connection_write(u->connection, &head, 1);
}

// ---- request ---------------------------------------------------------------------------------------------------

static void add_header(struct strbuf *out, struct str name, struct str value)
{
    strbuf_add_str(out, name);
    strbuf_add(out, ": ", 2);
    strbuf_add_str(out, value);
    strbuf_add(out, "\r\n", 2);
}

static void add_host(struct strbuf *out, struct str host, uint16_t port, bool tls)
{
    strbuf_addf(out, str_has_byte(host, ':') ? "Host: [%.*s]" : "Host: %.*s", STR_ARG(host));
    if (port != (tls ? 443 : 80)) strbuf_addf(out, ":%u", (unsigned)port);
    strbuf_add_c(out, "\r\n");
}

static void add_framing(struct upstream *u, const struct upstream_request *request)
{
    struct strbuf *out = &u->head;
    if (u->mode == UPSTREAM_WEBSOCKET) {
        ws_handshake_key(u->key);
        strbuf_add_c(out, "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
        add_header(out, STR("Sec-WebSocket-Key"), str_c(u->key));
    } else if (request->has_body && request->content_length < 0) {
        u->chunked = true;
        strbuf_add_c(out, "Transfer-Encoding: chunked\r\n");
    } else if (request->has_body || !u->safe) {
        strbuf_addf(out, "Content-Length: %lld\r\n", request->has_body ? (long long)request->content_length : 0LL);
    }
}

static enum error_code write_head(struct upstream *u, const struct upstream_request *request, struct error *err)
{
    struct strbuf *out = &u->head;
    struct str method = u->mode == UPSTREAM_WEBSOCKET ? STR("GET") : request->method;
    if (!http1_is_token(method) || method.len >= sizeof(u->method))
        return error_set(err, ERROR_INVALID, "method cannot be written");
    memcpy(u->method, method.at, method.len);
    u->safe = str_eq(method, STR("GET")) || str_eq(method, STR("HEAD")) || str_eq(method, STR("OPTIONS"));
    strbuf_addf(out, "%s ", u->method);
    strbuf_add_str(out, request->path);
    strbuf_add_c(out, " HTTP/1.1\r\n");
    add_host(out, request->host, request->port, request->tls);
    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *h = &request->headers[i];
        if (!http1_is_token(h->name) || !http1_is_field_value(h->value))
            return error_set(err, ERROR_INVALID, "a header cannot be written");
        add_header(out, h->name, h->value);
    }
    add_framing(u, request);
    strbuf_add_c(out, "\r\n");
    return out->overflow ? error_set(err, ERROR_TOO_LARGE, "request head is too long") : ERROR_NONE;
}

struct upstream *upstream_start(struct upstream_pool *pool, const struct upstream_request *request,
                                const struct upstream_events *events, void *arg, struct error *err)
{
    struct upstream *u = mem_zalloc(sizeof(*u));
    u->pool = pool;
    u->events = *events;
    u->arg = arg;
    u->mode = request->mode;
    u->host = mem_strndup(request->host.at, request->host.len);
    u->port = request->port;
    u->tls = request->tls;
    u->request_done = !request->has_body && request->mode == UPSTREAM_HTTP;
    strbuf_init(&u->head, REQUEST_BYTES_MAX);
    strbuf_init(&u->in, HTTP1_HEAD_BYTES_MAX);
    strbuf_init(&u->tail, TAIL_BYTES_MAX);
    if (u->mode != UPSTREAM_RAW && write_head(u, request, err)) {
        upstream_destroy(u);
        return NULL;
    }
    connect_upstream(u, u->mode != UPSTREAM_HTTP ? 0 : u->safe ? UPSTREAM_POOL_IDLE_MS : UNSAFE_IDLE_MS_MAX);
    return u;
}

bool upstream_write(struct upstream *u, const void *at, size_t len)
{
    if (!u->connection || u->request_done || !len) return true; // answered already: the rest is of no interest
    if (u->mode == UPSTREAM_WEBSOCKET && u->state == STATE_HEAD) {
        // To a service that has not switched they could be a request that passed no rule.
        u->depth++;
        fail_protocol(u, "data before the service switched to WebSocket");
        u->depth--;
        maybe_free(u);
        return true;
    }
    u->body_sent = true;
    if (!u->chunked) {
        struct str part = str_of(at, len);
        return upstream_connection_write(u->connection, &part, 1);
    }
    char line[CHUNK_LINE_BYTES];
    int n = snprintf(line, sizeof(line), "%zx\r\n", len);
    const struct str parts[] = {str_of(line, (size_t)n), str_of(at, len), STR("\r\n")};
    return upstream_connection_write(u->connection, parts, 3);
}

// The last chunk, with what may stand behind it (RFC 9112 section 7.1.2).
static void write_last_chunk(struct upstream *u, const struct http_header *trailers, size_t count)
{
    struct strbuf last;
    strbuf_init(&last, REQUEST_BYTES_MAX);
    strbuf_add_c(&last, "0\r\n");
    for (size_t i = 0; i < count; i++)
        if (http1_is_token(trailers[i].name) && http1_is_field_value(trailers[i].value))
            add_header(&last, trailers[i].name, trailers[i].value);
    strbuf_add_c(&last, "\r\n");
    struct str text = last.overflow ? STR("0\r\n\r\n") : strbuf_str(&last);
    u->body_sent = true;
    upstream_connection_write(u->connection, &text, 1);
    strbuf_finish(&last);
}

void upstream_end(struct upstream *u, const struct http_header *trailers, size_t count)
{
    if (u->request_done) return;
    u->request_done = true;
    if (!u->connection) return;
    if (u->mode != UPSTREAM_HTTP)
        upstream_connection_end(u->connection);
    else if (u->chunked)
        write_last_chunk(u, trailers, count);
}

void upstream_resume(struct upstream *u)
{
    if (u->connection && u->state < STATE_HALF) upstream_connection_resume(u->connection);
}
