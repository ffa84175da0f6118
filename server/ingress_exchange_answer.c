#include <stdio.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "server/ingress_answer.h"
#include "server/ingress_exchange_state.h"
#include "server/ingress_headers.h"
#include "server/ingress_problem.h"
#include "tunnel/wire/ws_handshake.h"

static void write_text(struct ingress_exchange *exchange, const struct strbuf *text)
{
    (void)tls_stream_write(exchange->connection->stream, text->at, text->len);
}

// ---- the end -------------------------------------------------------------------------------------------------

static void finish(struct ingress_exchange *exchange)
{
    if (exchange->over) return;
    exchange->over = true;
    ingress_count_answer(exchange->ingress, exchange->status);
    metric_observe(exchange->ingress->seconds, (double)(clock_mono_us() - exchange->since_us) / 1e6);
    log_debug("ingress", "answered", log_c("request_id", exchange->request_id), log_int("status", exchange->status),
              log_c("account", exchange->route.account_id), log_c("runtime", exchange->route.runtime),
              log_c("peer", exchange->connection->peer));
    ingress_connection_wake(exchange->connection);
}

// The whole answer to a request that is not carried (further).
void ingress_exchange_answer_problem(struct ingress_exchange *exchange, int status, const char *code,
                                     const char *detail)
{
    struct strbuf text;
    if (exchange->status != 0) {
        ingress_connection_cut(exchange->connection, code);
        return;
    }
    // What of the body has not come yet would be taken for the next request.
    if (!exchange->received) exchange->close = true;
    exchange->status = status;
    strbuf_init(&text, INGRESS_ANSWER_HEAD_BYTES_MAX);
    ingress_answer_write_problem(&text, exchange->head.method, status, code, str_c(detail), str_c(exchange->request_id),
                                 exchange->close);
    write_text(exchange, &text);
    strbuf_finish(&text);
    finish(exchange);
}

void ingress_exchange_refuse(struct ingress_connection *connection, int status, const char *code, const char *detail)
{
    struct strbuf text;
    char request_id[ID_UUID_BYTES];
    id_uuid7(request_id);
    ingress_count_answer(connection->ingress, status);
    log_debug("ingress", "refused", log_c("request_id", request_id), log_int("status", status),
              log_c("peer", connection->peer), log_c("detail", detail));
    strbuf_init(&text, INGRESS_ANSWER_HEAD_BYTES_MAX);
    ingress_answer_write_problem(&text, STR_EMPTY, status, code, str_c(detail), str_c(request_id), true);
    (void)tls_stream_write(connection->stream, text.at, text.len);
    strbuf_finish(&text);
    ingress_connection_linger(connection);
}

// ---- the answer ----------------------------------------------------------------------------------------------

static void on_info(void *arg, int status, const struct tunnel_header *headers, size_t count)
{
    struct ingress_exchange *exchange = arg;
    struct strbuf text;
    (void)headers;
    (void)count;
    // 100 was said by us; 103 is nothing but links, and a cluster sets none for our origin.
    if (exchange->status != 0 || exchange->head.minor == 0 || status == 100 || status == 101 || status == 103) return;
    strbuf_init(&text, 64);
    strbuf_addf(&text, "HTTP/1.1 %d %s\r\n\r\n", status, ingress_problem_reason(status));
    write_text(exchange, &text);
    strbuf_finish(&text);
}

// 101 for an extended CONNECT that was answered with success (RFC 8441 section 5).
static void switch_protocols(struct ingress_exchange *exchange, const struct tunnel_header *headers, size_t count)
{
    char accept[WS_HANDSHAKE_ACCEPT_BYTES];
    struct tunnel_header kept[8];
    size_t n = 0;
    struct strbuf text;
    ws_handshake_accept(http1_find(&exchange->head, STR("sec-websocket-key")), accept);
    kept[n++] = (struct tunnel_header){STR("connection"), STR("Upgrade")};
    kept[n++] = (struct tunnel_header){STR("upgrade"), STR("websocket")};
    kept[n++] = (struct tunnel_header){STR("sec-websocket-accept"), str_c(accept)};
    for (size_t i = 0; i < count && n < sizeof kept / sizeof *kept; i++)
        if (str_starts(headers[i].name, STR("sec-websocket-"))) kept[n++] = headers[i];
    exchange->status = 101;
    exchange->raw = exchange->patient = exchange->close = true;
    tls_stream_be_patient(exchange->connection->stream);
    strbuf_init(&text, INGRESS_ANSWER_HEAD_BYTES_MAX);
    ingress_answer_write(&(struct ingress_answer){.status = 101,
                                                  .headers = kept,
                                                  .header_count = n,
                                                  .request_id = str_c(exchange->request_id),
                                                  .length = UINT64_MAX},
                         &text);
    write_text(exchange, &text);
    strbuf_finish(&text);
    // What the client sent behind its head waits in the connection.
    ingress_connection_wake(exchange->connection);
}

static bool is_event_stream(const struct tunnel_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(headers[i].name, STR("content-type")))
            return str_starts_nocase(headers[i].value, STR("text/event-stream"));
    return false;
}

static void on_head(void *arg, int status, const struct tunnel_header *headers, size_t count)
{
    struct ingress_exchange *exchange = arg;
    struct tunnel_header kept[INGRESS_RESPONSE_HEADERS_MAX];
    struct strbuf text;
    size_t n = 0;
    uint64_t length = UINT64_MAX;
    const struct ingress_origin origin = {
        .host = exchange->head.host, .prefix = exchange->route.prefix, .platform = exchange->route.platform_host};
    if (exchange->status != 0 || exchange->over) return;
    if (status < 200 || status > 599 ||
        !ingress_headers_response(headers, count, &origin, exchange->arena, kept, &n, &length)) {
        ingress_exchange_answer_problem(exchange, 502, "upstream-failed", "the answer's head has no single meaning");
        return;
    }
    if (exchange->websocket && status < 300) {
        switch_protocols(exchange, kept, n);
        return;
    }
    if (exchange->websocket) ingress_exchange_end_request(exchange);
    exchange->status = status;
    exchange->patient = is_event_stream(kept, n);
    if (exchange->patient) tls_stream_be_patient(exchange->connection->stream);
    exchange->answer_body = ingress_answer_body(exchange->head.method, exchange->head.minor, status, length);
    if (exchange->answer_body == HTTP1_BODY_UNTIL_CLOSE || exchange->head.minor == 0 || exchange->ingress->stopped)
        exchange->close = true;
    exchange->answer_left = exchange->answer_body == HTTP1_BODY_LENGTH ? length : 0;
    strbuf_init(&text, INGRESS_ANSWER_HEAD_BYTES_MAX);
    ingress_answer_write(&(struct ingress_answer){.status = status,
                                                  .headers = kept,
                                                  .header_count = n,
                                                  .request_id = str_c(exchange->request_id),
                                                  .body = exchange->answer_body,
                                                  .length = length,
                                                  .close = exchange->close},
                         &text);
    if (text.overflow)
        ingress_connection_cut(exchange->connection, "upstream-failed");
    else
        write_text(exchange, &text);
    strbuf_finish(&text);
}

static bool write_chunk(struct tls_stream *stream, const uint8_t *at, size_t len)
{
    char size[24];
    int n = snprintf(size, sizeof size, "%zx\r\n", len);
    (void)tls_stream_write(stream, size, (size_t)n);
    (void)tls_stream_write(stream, at, len);
    return tls_stream_write(stream, "\r\n", 2);
}

static void on_data(void *arg, const uint8_t *at, size_t len)
{
    struct ingress_exchange *exchange = arg;
    struct tls_stream *stream = exchange->connection->stream;
    bool room = true;
    if (len == 0) return;
    if (exchange->status == 0 || exchange->over || exchange->connection->cut_reason) {
        tunnel_call_consumed(exchange->call, len); // an answer that was given up; the call ends with the turn
        return;
    }
    if (exchange->raw || exchange->answer_body == HTTP1_BODY_UNTIL_CLOSE) {
        room = tls_stream_write(stream, at, len);
    } else if (exchange->answer_body == HTTP1_BODY_CHUNKED) {
        room = write_chunk(stream, at, len);
    } else if (exchange->answer_body == HTTP1_BODY_LENGTH && len <= exchange->answer_left) {
        exchange->answer_left -= len;
        room = tls_stream_write(stream, at, len);
    } else {
        // More than was announced, or a body where none may be: the client must not see it.
        ingress_connection_cut(exchange->connection, "upstream-failed");
        return;
    }
    exchange->unconsumed += len;
    if (!room) exchange->client_blocked = true;
    if (exchange->client_blocked) return;
    len = exchange->unconsumed;
    exchange->unconsumed = 0;
    tunnel_call_consumed(exchange->call, len);
}

static void on_trailers(void *arg, const struct tunnel_header *headers, size_t count)
{
    struct ingress_exchange *exchange = arg;
    struct tunnel_header kept[INGRESS_TRAILERS_MAX];
    size_t n = ingress_headers_trailers(headers, count, kept, INGRESS_TRAILERS_MAX);
    for (size_t i = 0; i < n; i++) {
        exchange->trailers[i].name = arena_str(exchange->arena, kept[i].name);
        exchange->trailers[i].value = arena_str(exchange->arena, kept[i].value);
    }
    exchange->trailer_count = n;
}

static void write_last_chunk(struct ingress_exchange *exchange)
{
    struct strbuf text;
    strbuf_init(&text, INGRESS_ANSWER_HEAD_BYTES_MAX * 2);
    strbuf_add_c(&text, "0\r\n");
    for (size_t i = 0; i < exchange->trailer_count; i++)
        strbuf_addf(&text, "%.*s: %.*s\r\n", STR_ARG(exchange->trailers[i].name), STR_ARG(exchange->trailers[i].value));
    strbuf_add_c(&text, "\r\n");
    write_text(exchange, &text);
    strbuf_finish(&text);
}

static void on_end(void *arg)
{
    struct ingress_exchange *exchange = arg;
    exchange->call = NULL;
    if (exchange->over || exchange->connection->cut_reason) return;
    if (exchange->status == 0) {
        ingress_exchange_answer_problem(exchange, 502, "upstream-failed", "the call ended without an answer");
    } else if (exchange->answer_left > 0) {
        ingress_connection_cut(exchange->connection, "upstream-failed");
    } else {
        if (exchange->answer_body == HTTP1_BODY_CHUNKED && !exchange->raw) write_last_chunk(exchange);
        finish(exchange);
    }
}

static void on_writable(void *arg)
{
    struct ingress_exchange *exchange = arg;
    exchange->call_blocked = false;
    ingress_connection_wake(exchange->connection);
}

static void on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    struct ingress_exchange *exchange = arg;
    exchange->call = NULL;
    if (exchange->over || exchange->connection->cut_reason) return;
    ingress_exchange_answer_problem(exchange, tunnel_cause_status(cause), tunnel_cause_name(cause),
                                    detail ? detail : "");
}

void ingress_exchange_drained(struct ingress_exchange *exchange)
{
    size_t len = exchange->unconsumed;
    exchange->client_blocked = false;
    exchange->unconsumed = 0;
    if (exchange->call && len > 0) tunnel_call_consumed(exchange->call, len);
}

const struct tunnel_call_events ingress_exchange_events = {
    .on_info = on_info,
    .on_head = on_head,
    .on_data = on_data,
    .on_trailers = on_trailers,
    .on_end = on_end,
    .on_writable = on_writable,
    .on_fail = on_fail,
};
