#include <stdio.h>

#include "base/http1/http_problem.h"
#include "base/log/log.h"
#include "server/ingress/ingress_answer.h"
#include "server/ingress/ingress_http1_state.h"
#include "server/proxy/call_headers.h"
#include "tunnel/wire/ws_handshake.h"

enum {
    HEAD_BYTES_USUAL = 1000, // one allocation for nearly every head
    SWITCH_HEADERS_MAX = 8,
};

static void write_text(struct ingress_http1 *http1, const struct strbuf *text)
{
    if (http1->connection->cut_reason) return;
    if (text->overflow)
        ingress_connection_cut(http1->connection, "upstream-failed");
    else
        (void)tls_stream_write(http1->connection->stream, text->at, text->len);
}

static void write_head(struct ingress_http1 *http1, const struct ingress_answer *answer)
{
    struct strbuf text;
    struct ingress_answer whole = *answer;
    whole.hsts = str_c(http1->connection->ingress->hsts);
    strbuf_init(&text, INGRESS_ANSWER_HEAD_BYTES_MAX);
    (void)strbuf_reserve(&text, HEAD_BYTES_USUAL);
    ingress_answer_write(&whole, &text);
    write_text(http1, &text);
    strbuf_finish(&text);
}

void ingress_http1_refuse(struct ingress_http1 *http1, int status, const char *code, const char *detail)
{
    struct ingress_connection *connection = http1->connection;
    struct strbuf body;
    struct http_header headers[HTTP_PROBLEM_HEADERS_MAX + 1];
    char request_id[REQUEST_ID_BYTES], retry_after[HTTP_PROBLEM_RETRY_BYTES];
    request_id_make(connection->ingress->calls.request_id_seed, request_id);
    const struct http_problem problem = {
        .status = status, .code = code, .detail = str_c(detail), .request_id = str_c(request_id)};
    ingress_count_answer(connection->ingress, status);
    log_debug("ingress", "refused", log_c("request_id", request_id), log_int("status", status),
              log_c("peer", connection->peer), log_c("detail", detail));
    strbuf_init(&body, HTTP_PROBLEM_BYTES_MAX);
    http_problem_write(&problem, &body);
    size_t count = http_problem_headers(&problem, retry_after, headers);
    headers[count++] = (struct http_header){STR("culvert-cause"), str_c(code)};
    write_head(http1, &(struct ingress_answer){.status = status,
                                               .headers = headers,
                                               .header_count = count,
                                               .request_id = str_c(request_id),
                                               .body = HTTP1_BODY_LENGTH,
                                               .length = body.len,
                                               .close = true});
    write_text(http1, &body);
    strbuf_finish(&body);
    ingress_connection_linger(connection);
}

static void on_info(void *front, int status)
{
    struct ingress_http1 *http1 = front;
    struct strbuf text;
    if (http1->head.minor == 0) return; // RFC 9110 section 15.2
    // They have no credit: who takes nothing gets none, but the one that a client may wait for.
    if (status != 100 && tls_stream_queued(http1->connection->stream) >= TLS_STREAM_QUEUE_HIGH) return;
    strbuf_init(&text, 64);
    strbuf_addf(&text, "HTTP/1.1 %d %s\r\n\r\n", status, http_reason(status));
    write_text(http1, &text);
    strbuf_finish(&text);
}

// 101 for an extended CONNECT that was answered with success (RFC 8441 section 5).
static void switch_protocols(struct ingress_http1 *http1, const struct call_answer_head *head)
{
    char accept[WS_HANDSHAKE_ACCEPT_BYTES];
    bool websocket = str_eq_nocase(http1->head.upgrade, STR("websocket"));
    struct http_header kept[SWITCH_HEADERS_MAX];
    size_t n = 0;
    kept[n++] = (struct http_header){STR("connection"), STR("Upgrade")};
    kept[n++] = (struct http_header){STR("upgrade"), websocket ? STR("websocket") : STR("connect-tcp")};
    if (websocket) {
        ws_handshake_accept(http1_find(&http1->head, STR("sec-websocket-key")), accept);
        kept[n++] = (struct http_header){STR("sec-websocket-accept"), str_c(accept)};
    }
    for (size_t i = 0; websocket && i < head->header_count && n < SWITCH_HEADERS_MAX; i++)
        if (str_starts(head->headers[i].name, STR("sec-websocket-"))) kept[n++] = head->headers[i];
    http1->raw = http1->last = true;
    write_head(
        http1,
        &(struct ingress_answer){
            .status = 101, .headers = kept, .header_count = n, .request_id = head->request_id, .length = UINT64_MAX});
}

static void on_head(void *front, const struct call_answer_head *head)
{
    struct ingress_http1 *http1 = front;
    if (call_exchange_is_raw(http1->exchange)) {
        switch_protocols(http1, head);
        return;
    }
    http1->answer_body = ingress_answer_body(http1->head.method, http1->head.minor, head->status, head->length);
    if (head->last || http1->answer_body == HTTP1_BODY_UNTIL_CLOSE || http1->connection->ingress->winding_down)
        http1->last = true;
    write_head(http1, &(struct ingress_answer){.status = head->status,
                                               .headers = head->headers,
                                               .header_count = head->header_count,
                                               .request_id = head->request_id,
                                               .body = http1->answer_body,
                                               .length = head->length,
                                               .close = http1->last});
}

static bool write_chunk(struct tls_stream *stream, const uint8_t *at, size_t len)
{
    char line[24];
    size_t used = sizeof line;
    line[--used] = '\n';
    line[--used] = '\r';
    for (size_t left = len; left > 0; left >>= 4)
        line[--used] = "0123456789abcdef"[left & 15];
    (void)tls_stream_write(stream, line + used, sizeof line - used);
    (void)tls_stream_write(stream, at, len);
    return tls_stream_write(stream, "\r\n", 2);
}

static bool on_data(void *front, const uint8_t *at, size_t len)
{
    struct ingress_http1 *http1 = front;
    struct tls_stream *stream = http1->connection->stream;
    if (http1->connection->cut_reason || len == 0) return true;
    bool room = http1->answer_body == HTTP1_BODY_CHUNKED && !http1->raw ? write_chunk(stream, at, len)
                                                                        : tls_stream_write(stream, at, len);
    if (!room) http1->client_blocked = true;
    return !http1->client_blocked;
}

static void write_last_chunk(struct ingress_http1 *http1, const struct http_header *trailers, size_t count)
{
    struct strbuf text;
    strbuf_init(&text, INGRESS_ANSWER_HEAD_BYTES_MAX * 2);
    strbuf_add_c(&text, "0\r\n");
    for (size_t i = 0; i < count; i++) {
        strbuf_add_str(&text, trailers[i].name);
        strbuf_add_c(&text, ": ");
        strbuf_add_str(&text, trailers[i].value);
        strbuf_add_c(&text, "\r\n");
    }
    strbuf_add_c(&text, "\r\n");
    write_text(http1, &text);
    strbuf_finish(&text);
}

static void on_half_end(void *front)
{
    struct ingress_http1 *http1 = front;
    ingress_connection_forget_progress(http1->connection); // its patience was for what the service may say
    tls_stream_shutdown(http1->connection->stream); // close_notify and FIN behind what is queued; we go on reading
}

static void on_end(void *front, const struct http_header *trailers, size_t count)
{
    struct ingress_http1 *http1 = front;
    // RFC 9110 section 6.5.1: trailers are for those who said that they take them; others may not look for them.
    if (http1->answer_body == HTTP1_BODY_CHUNKED && !http1->raw)
        write_last_chunk(http1, trailers,
                         call_headers_take_trailers(http1->head.headers, http1->head.header_count) ? count : 0);
    ingress_connection_wake(http1->connection);
}

static void on_fail(void *front, const char *reason)
{
    struct ingress_http1 *http1 = front;
    struct ingress *ingress = http1->connection->ingress;
    bool framed = http1->answer_body == HTTP1_BODY_LENGTH || http1->answer_body == HTTP1_BODY_CHUNKED;
    if (http1->raw || !framed) { // only a broken connection tells that this was not the end
        ingress_connection_cut(http1->connection, reason);
        return;
    }
    // What came of it goes; the missing rest, or the missing last chunk, tells.
    metric_add(metric_with(ingress->cuts, reason), 1);
    http1->last = true;
    ingress_connection_wake(http1->connection);
}

static void on_room(void *front)
{
    struct ingress_http1 *http1 = front;
    ingress_connection_wake(http1->connection);
}

static bool take_account(void *front, struct str account_id)
{
    struct ingress_http1 *http1 = front;
    return ingress_connection_take_account(http1->connection, account_id);
}

static void be_patient(void *front)
{
    struct ingress_http1 *http1 = front;
    ingress_connection_be_patient(http1->connection);
}

static void arm(void *front, uint64_t due_ms)
{
    struct ingress_http1 *http1 = front;
    ingress_connection_arm(http1->connection, due_ms);
}

const struct call_front ingress_http1_front = {
    .on_info = on_info,
    .on_head = on_head,
    .on_data = on_data,
    .on_half_end = on_half_end,
    .on_end = on_end,
    .on_fail = on_fail,
    .on_room = on_room,
    .take_account = take_account,
    .be_patient = be_patient,
    .arm = arm,
};
