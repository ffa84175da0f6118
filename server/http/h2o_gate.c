#include "server/http/h2o_gate.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/proxy/call_headers.h"

enum {
    TRAILER_TEXT_BYTES_MAX = 16 * 1024,   // more than http1_chunked_feed() takes
    PENDING_BYTES_MAX = 16 * 1024 * 1024, // never reached: one read comes behind a request
    HEAD_LOOK_BYTES = 16,                 // the first bytes are looked at even before a line is complete
};

static void advance(struct h2o_gate *gate);

static struct h2o_gate *gate_of(h2o_socket_t *socket)
{
    return socket->on_close.data;
}

struct h2o_gate *h2o_gate_of(h2o_req_t *req)
{
    return gate_of(req->conn->callbacks->get_socket(req->conn));
}

bool h2o_gate_take_ticket(struct h2o_gate *gate)
{
    bool ticket = gate->ticket;
    gate->ticket = false;
    return ticket;
}

static void restart_clock(struct h2o_gate *gate)
{
    gate->since_ms = uv_now(h2o_socket_get_loop(gate->socket));
}

// ---- in h2o's place --------------------------------------------------------------------------------------------

// A read that filled the buffer to its last byte while nothing else had come: libuv tries again, finds nothing, says
// so, and h2o's TLS takes that for a failure. The stream is alive; after a real failure it is not readable, after the
// end of what the client sends it is not active.
static bool was_nothing(const struct h2o_gate *gate, const char *err)
{
    return err == h2o_socket_error_io && gate->socket->bytes_read == 0 && uv_is_readable(gate->stream) &&
           uv_is_active((uv_handle_t *)gate->stream);
}

static void on_read(h2o_socket_t *socket, const char *err)
{
    struct h2o_gate *gate = gate_of(socket);
    if (err && was_nothing(gate, err)) return;
    if (err) {
        gate->h2o_read(socket, err); // ends the connection
        h2o_gate_hold(gate);
    } else {
        advance(gate);
    }
}

static void on_write(h2o_socket_t *socket, const char *err)
{
    struct h2o_gate *gate = gate_of(socket);
    h2o_socket_cb h2o_write = gate->h2o_write;
    gate->h2o_write = NULL;
    h2o_write(socket, err);
    h2o_gate_hold(gate);
}

void h2o_gate_hold(struct h2o_gate *gate)
{
    h2o_socket_t *socket = gate->socket;
    if (!socket) return;
    if (socket->_cb.write && socket->_cb.write != on_write && !gate->continuing) {
        gate->h2o_write = socket->_cb.write;
        socket->_cb.write = on_write;
    }
    if (socket->_cb.read != gate->h2o_read || gate->state == H2O_GATE_REFUSED) return;
    socket->_cb.read = on_read; // h2o waits for the next request
    gate->state = H2O_GATE_HEAD;
    gate->looked_at = 0;
    strbuf_finish(&gate->trailers);
    restart_clock(gate);
    if (gate->pending.len) advance(gate);
}

static void on_socket_closed(void *arg)
{
    struct h2o_gate *gate = arg;
    gate->socket = NULL;
    gate->on_closed(gate->ctx);
}

void h2o_gate_open(struct h2o_gate *gate, h2o_accept_ctx_t *accept, h2o_socket_t *socket)
{
    gate->socket = socket;
    socket->on_close.cb = on_socket_closed;
    socket->on_close.data = gate;
    strbuf_init(&gate->pending, PENDING_BYTES_MAX);
    strbuf_init(&gate->trailers, TRAILER_TEXT_BYTES_MAX);
    strbuf_init(&gate->head, 2 * (gate->options.head_bytes_max ? gate->options.head_bytes_max : HTTP1_HEAD_BYTES_MAX));
    // What came with the end of the handshake is for the gate first.
    strbuf_add(&gate->pending, socket->input->bytes, socket->input->size);
    socket->input->size = 0;
    gate->state = H2O_GATE_PASSED;
    struct timeval now;
    gettimeofday(&now, NULL);
    h2o_http1_accept(accept, socket, now);
    gate->h2o_read = socket->_cb.read;
    h2o_gate_hold(gate);
}

void h2o_gate_finish(struct h2o_gate *gate)
{
    strbuf_finish(&gate->pending);
    strbuf_finish(&gate->head);
    strbuf_finish(&gate->trailers);
}

// ---- requests --------------------------------------------------------------------------------------------------

static void put_input(struct h2o_gate *gate, const char *at, size_t len)
{
    h2o_iovec_t room = h2o_buffer_reserve(&gate->socket->input, len);
    memcpy(room.base, at, len);
    gate->socket->input->size += len;
}

static void pass(struct h2o_gate *gate)
{
    h2o_socket_t *socket = gate->socket;
    gate->ticket = true;
    socket->_cb.read = gate->h2o_read; // as h2o left it
    gate->h2o_read(socket, NULL);
    // It is a whole request: were h2o to wait for more of it, the two would not agree on what it is.
    if (gate->socket && socket->_cb.read == gate->h2o_read) gate->h2o_read(socket, "h2o reads the request otherwise");
    h2o_gate_hold(gate);
}

// h2o has not seen the request: it gets one that the handler answers with the refusal.
static void refuse(struct h2o_gate *gate, int status, const char *code)
{
    static const char instead[] = "GET / HTTP/1.1\r\nhost:refused\r\nconnection:close\r\n\r\n";
    gate->state = H2O_GATE_REFUSED;
    gate->refusal = status;
    gate->code = code;
    gate->keep_alive = false;
    strbuf_finish(&gate->pending);
    strbuf_init(&gate->pending, 0);
    gate->socket->input->size = 0;
    put_input(gate, instead, sizeof instead - 1);
    if (gate->on_refused) gate->on_refused(gate->ctx);
    pass(gate);
}

static void refuse_with(struct h2o_gate *gate, int status, const char *code, const char *reason)
{
    (void)error_set(&gate->reason, ERROR_INVALID, "%s", reason);
    refuse(gate, status, code);
}

// The request is whole: its head and body are the first `bytes` of the input, the rest waits.
static void complete(struct h2o_gate *gate, size_t bytes)
{
    h2o_buffer_t *input = gate->socket->input;
    if (!strbuf_add(&gate->pending, input->bytes + bytes, input->size - bytes)) {
        refuse_with(gate, 400, "bad-request", "too much came behind the request");
        return;
    }
    input->size = bytes;
    if (gate->head.len) {
        // No header line of ours is longer than the one it came from: the head shrinks towards the body.
        if (gate->has_body) strbuf_addf(&gate->head, "content-length:%zu\r\n", gate->body_bytes);
        strbuf_add_c(&gate->head, "\r\n");
        assert(!gate->head.overflow && gate->head.len <= gate->head_bytes);
        size_t spare = gate->head_bytes - gate->head.len;
        memcpy(input->bytes + spare, gate->head.at, gate->head.len);
        h2o_buffer_consume(&gate->socket->input, spare);
        strbuf_finish(&gate->head);
    }
    strbuf_shrink(&gate->pending);
    gate->state = H2O_GATE_PASSED;
    pass(gate);
}

static bool has_field(const struct http1_head *head, struct str name)
{
    for (size_t i = 0; i < head->header_count; i++)
        if (str_eq_nocase(head->headers[i].name, name)) return true;
    return false;
}

// h2o takes the white space behind a value for a part of it.
static bool has_loose_end(const struct http1_head *head)
{
    for (size_t i = 0; i < head->header_count; i++) {
        struct str value = head->headers[i].value;
        if (value.len == 0 || value.at[value.len] != '\r') return true;
    }
    return false;
}

static bool is_for_h2o(const struct http1_head *head)
{
    return head->body != HTTP1_BODY_CHUNKED && !has_field(head, STR("expect")) && !has_loose_end(head);
}

// Leaves out what was dealt with here: the framing, and the wait for "100 Continue".
static void write_head(struct h2o_gate *gate, const struct http1_head *head)
{
    struct strbuf *out = &gate->head;
    strbuf_clear(out);
    strbuf_addf(out, "%.*s %.*s HTTP/1.%d\r\n", STR_ARG(head->method), STR_ARG(head->target), head->minor);
    for (size_t i = 0; i < head->header_count; i++) {
        struct str name = head->headers[i].name;
        if (str_eq_nocase(name, STR("content-length")) || str_eq_nocase(name, STR("transfer-encoding")) ||
            str_eq_nocase(name, STR("expect")))
            continue;
        strbuf_addf(out, "%.*s:%.*s\r\n", STR_ARG(name), STR_ARG(head->headers[i].value));
    }
}

static void on_continued(h2o_socket_t *socket, const char *err)
{
    struct h2o_gate *gate = gate_of(socket);
    gate->continuing = false;
    if (err)
        on_read(socket, err);
    else
        advance(gate);
}

static void take_body(struct h2o_gate *gate);

static void begin_body(struct h2o_gate *gate, const struct http1_head *head)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    gate->state = H2O_GATE_BODY;
    gate->body = head->body;
    gate->body_bytes = head->body == HTTP1_BODY_LENGTH ? (size_t)head->content_length : 0;
    gate->looked_at = gate->head_bytes;
    http1_chunked_init(&gate->chunked);
    gate->chunked.trailers = &gate->trailers;
    if (head->expect_continue && gate->socket->input->size == gate->head_bytes) {
        h2o_iovec_t iov = h2o_iovec_init(interim, sizeof interim - 1);
        gate->continuing = true;
        h2o_socket_write(gate->socket, &iov, 1, on_continued);
    } else {
        take_body(gate);
    }
}

// A head of one meaning that is not served all the same. False: it is served.
static bool refuse_head(struct h2o_gate *gate, const struct http1_head *head)
{
    struct str id = call_headers_request_id(head->headers, head->header_count);
    snprintf(gate->request_id, sizeof gate->request_id, "%.*s", STR_ARG(id));
    if (!http1_is_known_method(head->method))
        refuse_with(gate, 501, "not-implemented", "the method is not one of HTTP");
    else if (head->minor == 1 && !head->expect_continue && http1_find(head, STR("expect")).len > 0)
        refuse_with(gate, 417, "expectation-failed", "only 100-continue can be expected here");
    else if (head->body == HTTP1_BODY_LENGTH && head->content_length > gate->options.body_bytes_max)
        refuse_with(gate, 413, "body-too-large", "the body is too large");
    else
        gate->request_id[0] = '\0';
    return gate->refusal != 0;
}

static void take_head(struct h2o_gate *gate)
{
    const h2o_buffer_t *input = gate->socket->input;
    size_t max = gate->options.head_bytes_max ? gate->options.head_bytes_max : HTTP1_HEAD_BYTES_MAX;
    // A head that comes in drops is not parsed at each of them.
    if (input->size == 0) return;
    if (gate->looked_at == 0) restart_clock(gate); // the first bytes of a request
    bool look = gate->looked_at < HEAD_LOOK_BYTES || http1_head_is_due(input->bytes, input->size, gate->looked_at, max);
    struct http1_head head;
    gate->looked_at = input->size;
    if (!look) return;
    enum error_code code = http1_parse_request(input->bytes, input->size, max, &head, &gate->head_bytes, &gate->reason);
    if (code == ERROR_AGAIN) return;
    if (code == ERROR_TOO_LARGE) {
        refuse(gate, 431, "head-too-large");
    } else if (code != ERROR_NONE) {
        refuse(gate, 400, "bad-request");
    } else if (refuse_head(gate, &head)) {
        return;
    } else {
        gate->keep_alive = head.keep_alive;
        gate->has_body = head.body != HTTP1_BODY_NONE;
        if (!is_for_h2o(&head)) write_head(gate, &head);
        if (head.body == HTTP1_BODY_NONE)
            complete(gate, gate->head_bytes);
        else
            begin_body(gate, &head);
    }
}

// Unchunks in place: what was decoded follows the head.
static void take_chunks(struct h2o_gate *gate)
{
    h2o_buffer_t *input = gate->socket->input;
    bool done = false;
    while (gate->looked_at < input->size && !done) {
        size_t used = 0;
        struct str data;
        if (http1_chunked_feed(&gate->chunked, input->bytes + gate->looked_at, input->size - gate->looked_at, &used,
                               &data, &done, &gate->reason) != ERROR_NONE) {
            refuse(gate, 400, "bad-request");
            return;
        }
        gate->looked_at += used;
        if (data.len > gate->options.body_bytes_max - gate->body_bytes) {
            refuse_with(gate, 413, "body-too-large", "the body is too large");
            return;
        }
        memmove(input->bytes + gate->head_bytes + gate->body_bytes, data.len ? data.at : "", data.len);
        gate->body_bytes += data.len;
    }
    size_t end = gate->head_bytes + gate->body_bytes;
    memmove(input->bytes + end, input->bytes + gate->looked_at, input->size - gate->looked_at);
    input->size -= gate->looked_at - end;
    gate->looked_at = end;
    if (done) complete(gate, end);
}

static void take_body(struct h2o_gate *gate)
{
    if (gate->body == HTTP1_BODY_CHUNKED)
        take_chunks(gate);
    else if (gate->socket->input->size - gate->head_bytes >= gate->body_bytes)
        complete(gate, gate->head_bytes + gate->body_bytes);
}

void h2o_gate_expire(struct h2o_gate *gate, uint64_t now_ms, uint64_t limit_ms)
{
    if (!gate->socket || gate->continuing || now_ms - gate->since_ms < limit_ms) return;
    if (gate->state == H2O_GATE_BODY || (gate->state == H2O_GATE_HEAD && gate->socket->input->size > 0)) {
        refuse_with(gate, 408, "request-timeout", "the request did not come in time");
    } else if (gate->state == H2O_GATE_HEAD) {
        gate->h2o_read(gate->socket, "idle for too long");
        h2o_gate_hold(gate);
    }
}

static void advance(struct h2o_gate *gate)
{
    if (!gate->socket || gate->continuing) return;
    if (gate->pending.len && (gate->state == H2O_GATE_HEAD || gate->state == H2O_GATE_BODY)) {
        put_input(gate, gate->pending.at, gate->pending.len);
        strbuf_finish(&gate->pending);
        strbuf_init(&gate->pending, PENDING_BYTES_MAX);
    }
    if (gate->state == H2O_GATE_HEAD)
        take_head(gate);
    else if (gate->state == H2O_GATE_BODY)
        take_body(gate);
}
