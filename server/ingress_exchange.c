#include "server/ingress_exchange.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "server/ingress_answer.h"
#include "server/ingress_headers.h"
#include "server/ingress_problem.h"
#include "server/ingress_route.h"
#include "tunnel/wire/ws_handshake.h"

enum { ARENA_BYTES_MAX = 1024 * 1024, TRAILERS_MAX = 16 };

// A question to authenticate() that outlives an exchange whose client has left.
struct ingress_authentication {
    struct ingress *ingress;
    struct ingress_exchange *exchange; // NULL: nobody waits
};

struct ingress_exchange {
    struct ingress_connection *connection;
    struct ingress *ingress;
    struct arena *arena;
    char *head_text;
    struct http1_head head;
    struct ingress_route route;
    struct ingress_authentication *authentication; // while it is pending
    struct tunnel_call *call;                      // while it runs
    uint64_t since_us;
    char request_id[65];

    // The request's body.
    bool websocket;
    bool received;     // nothing of the request is to come
    bool call_blocked; // the tunnel has no room
    uint64_t body_left;
    struct http1_chunked chunked;

    // The answer.
    int status; // 0: not begun
    enum http1_body answer_body;
    bool raw;  // switched protocols: bytes as they are
    bool over; // written whole
    bool close;
    bool patient;
    bool client_blocked;
    uint64_t answer_left;
    size_t unconsumed; // bytes the client has still to take before the tunnel gets its credit back
    struct tunnel_header trailers[TRAILERS_MAX];
    size_t trailer_count;
};

static void write_text(struct ingress_exchange *exchange, const struct strbuf *text)
{
    (void)tls_stream_write(exchange->connection->stream, text->at, text->len);
}

// ---- the end -------------------------------------------------------------------------------------------------

static void finish(struct ingress_exchange *exchange)
{
    char code[16];
    if (exchange->over) return;
    exchange->over = true;
    snprintf(code, sizeof code, "%d", exchange->status);
    metric_add(metric_with(exchange->ingress->answers, "ingress", code), 1);
    metric_observe(exchange->ingress->seconds, (double)(clock_mono_us() - exchange->since_us) / 1e6);
    log_debug("ingress", "answered", log_c("request_id", exchange->request_id), log_int("status", exchange->status),
              log_c("account", exchange->route.account_id), log_c("runtime", exchange->route.runtime),
              log_c("peer", exchange->connection->peer));
    ingress_connection_wake(exchange->connection);
}

// The whole answer to a request that is not carried (further).
static void refuse(struct ingress_exchange *exchange, int status, const char *code, const char *detail)
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
    char number[16];
    char request_id[ID_UUID_BYTES];
    id_uuid7(request_id);
    snprintf(number, sizeof number, "%d", status);
    metric_add(metric_with(connection->ingress->answers, "ingress", number), 1);
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
    if (exchange->head.minor == 0 || status == 100 || status == 101 || status == 103) return;
    strbuf_init(&text, 64);
    strbuf_addf(&text, "HTTP/1.1 %d %s\r\n\r\n", status, ingress_problem_reason(status));
    write_text(exchange, &text);
    strbuf_finish(&text);
}

static void end_request(struct ingress_exchange *exchange)
{
    if (exchange->received) return;
    exchange->received = true;
    if (exchange->call) tunnel_call_end(exchange->call);
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
        refuse(exchange, 502, "upstream-failed", "the answer's head has no single meaning");
        return;
    }
    if (exchange->websocket && status < 300) {
        switch_protocols(exchange, kept, n);
        return;
    }
    if (exchange->websocket) end_request(exchange);
    exchange->status = status;
    exchange->patient = is_event_stream(kept, n);
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
    struct tunnel_header kept[TRAILERS_MAX];
    size_t n = ingress_headers_trailers(headers, count, kept, TRAILERS_MAX);
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
        refuse(exchange, 502, "upstream-failed", "the call ended without an answer");
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
    refuse(exchange, tunnel_cause_status(cause), tunnel_cause_name(cause), detail ? detail : "");
}

void ingress_exchange_drained(struct ingress_exchange *exchange)
{
    size_t len = exchange->unconsumed;
    exchange->client_blocked = false;
    exchange->unconsumed = 0;
    if (exchange->call && len > 0) tunnel_call_consumed(exchange->call, len);
}

// ---- the request ---------------------------------------------------------------------------------------------

// user_id NULL: nobody (a webhook).
static void open_call(struct ingress_exchange *exchange, struct str account_id, const char *user_id,
                      const char *user_name)
{
    static const struct tunnel_call_events events = {.on_info = on_info,
                                                     .on_head = on_head,
                                                     .on_data = on_data,
                                                     .on_trailers = on_trailers,
                                                     .on_end = on_end,
                                                     .on_writable = on_writable,
                                                     .on_fail = on_fail};
    const struct http1_head *head = &exchange->head;
    const struct ingress_caller caller = {.peer = str_c(exchange->connection->peer),
                                          .host = head->host,
                                          .prefix = exchange->route.prefix,
                                          .request_id = str_c(exchange->request_id),
                                          .tls = exchange->ingress->tls != NULL,
                                          .anonymous = user_id == NULL,
                                          .websocket = exchange->websocket,
                                          .body = head->body == HTTP1_BODY_LENGTH};
    struct tunnel_header *headers =
        arena_array(exchange->arena, head->header_count + INGRESS_REQUEST_ADDED_MAX, sizeof *headers);
    size_t count = ingress_headers_request(head->headers, head->header_count, &caller, exchange->arena, headers);
    const struct tunnel_request request = {
        .account_id = account_id,
        .runtime = str_c(exchange->route.runtime),
        .method = exchange->websocket ? STR("CONNECT") : head->method,
        .path = exchange->route.path,
        .protocol = exchange->websocket ? STR("websocket") : STR_EMPTY,
        .headers = headers,
        .header_count = count,
        .end_stream = exchange->received,
        .user_id = user_id,
        .user_name = user_name,
    };
    exchange->call = tunnel_call_open(exchange->ingress->options.node, &request, &events, exchange);
    if (head->expect_continue && !exchange->received)
        (void)tls_stream_write(exchange->connection->stream, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    ingress_connection_wake(exchange->connection); // the body that has come already
}

static void refuse_credential(struct ingress_exchange *exchange, const struct error *err)
{
    switch (err->code) {
    case ERROR_UNAUTHENTICATED:
    case ERROR_INVALID:
        refuse(exchange, 401, "unauthenticated", "the credential is missing, unknown, expired or revoked");
        break;
    case ERROR_FORBIDDEN: refuse(exchange, 403, "forbidden", "the credential has no right to this"); break;
    case ERROR_UNAVAILABLE:
    case ERROR_TIMEOUT:
    case ERROR_AGAIN: refuse(exchange, 503, "unavailable", "the credential cannot be checked at the moment"); break;
    default: refuse(exchange, 500, "internal", "the credential could not be checked"); break;
    }
}

static void on_authenticated(void *arg, const struct error *err, struct str account_id, struct str user_id,
                             struct str user_name)
{
    struct ingress_authentication *authentication = arg;
    struct ingress_exchange *exchange = authentication->exchange;
    struct ingress *ingress = authentication->ingress;
    mem_free(authentication);
    ingress->authentications--;
    if (!exchange) {
        ingress_check_closed(ingress);
        return;
    }
    exchange->authentication = NULL;
    if (err) {
        refuse_credential(exchange, err);
    } else if (!exchange->route.platform_host && !str_eq(account_id, str_c(exchange->route.account_id))) {
        // As if nobody lived there: a foreign runtime must not be told from a missing one.
        refuse(exchange, 404, "not-found", "no runtime has this host name");
    } else {
        open_call(exchange, arena_str(exchange->arena, account_id), arena_cstr(exchange->arena, user_id),
                  arena_cstr(exchange->arena, user_name));
    }
}

static void authenticate(struct ingress_exchange *exchange)
{
    struct ingress *ingress = exchange->ingress;
    struct str token = ingress_headers_credential(exchange->head.headers, exchange->head.header_count);
    if (token.len == 0) {
        refuse(exchange, 401, "unauthenticated", "a credential is needed: Authorization or x-access-token");
        return;
    }
    struct ingress_authentication *authentication = mem_alloc(sizeof *authentication);
    *authentication = (struct ingress_authentication){.ingress = ingress, .exchange = exchange};
    exchange->authentication = authentication;
    ingress->authentications++;
    ingress->options.authenticate(ingress->options.ctx, loop_index(ingress->loop), token, on_authenticated,
                                  authentication);
}

static void pass_webhook(struct ingress_exchange *exchange)
{
    struct str account_id = str_c(exchange->route.account_id);
    if (!ingress_limiter_take(&exchange->ingress->limiter, account_id, str_c(exchange->route.runtime),
                              uv_now(loop_uv(exchange->ingress->loop))))
        refuse(exchange, 429, "rate-limited", "too many webhooks for this runtime");
    else
        open_call(exchange, account_id, NULL, NULL);
}

// RFC 6455 section 4.2.1. False: refused.
static bool check_websocket(struct ingress_exchange *exchange)
{
    const struct http1_head *head = &exchange->head;
    uint8_t key[24];
    size_t key_len = 0;
    if (!str_eq_nocase(head->upgrade, STR("websocket"))) return true; // other protocols are not offered: plain HTTP
    if (!str_eq(http1_find(head, STR("sec-websocket-version")), STR("13"))) {
        refuse(exchange, 426, "websocket-version", "only WebSocket version 13 is spoken here");
        return false;
    }
    if (!str_eq(head->method, STR("GET")) || head->body != HTTP1_BODY_NONE ||
        parse_base64(http1_find(head, STR("sec-websocket-key")), key, sizeof key, &key_len, NULL) != ERROR_NONE ||
        key_len != 16) {
        exchange->close = true;
        refuse(exchange, 400, "bad-request", "malformed WebSocket handshake");
        return false;
    }
    exchange->websocket = true;
    exchange->received = false;
    return true;
}

static void start(struct ingress_exchange *exchange)
{
    const struct http1_head *head = &exchange->head;
    struct ingress_options *options = &exchange->ingress->options;
    struct error err;
    if (str_eq(head->method, STR("TRACE"))) {
        refuse(exchange, 405, "method-not-allowed", "TRACE is not carried");
        return;
    }
    if (head->minor == 1 && !head->expect_continue && http1_find(head, STR("expect")).len > 0) {
        refuse(exchange, 417, "expectation-failed", "only 100-continue can be expected here");
        return;
    }
    enum error_code code = ingress_route_parse(head->host, head->target, str_c(options->tunnel_domain),
                                               str_c(options->platform_host), &exchange->route, &err);
    if (code != ERROR_NONE) {
        bool missing = code == ERROR_NOT_FOUND;
        if (!missing) exchange->close = true;
        refuse(exchange, missing ? 404 : 400, missing ? "not-found" : "bad-request", err.text);
        return;
    }
    if (!check_websocket(exchange)) return;
    if (exchange->route.webhook)
        pass_webhook(exchange);
    else
        authenticate(exchange);
}

struct ingress_exchange *ingress_exchange_create(struct ingress_connection *connection, char *head_text,
                                                 const struct http1_head *head)
{
    struct ingress_exchange *exchange = mem_zalloc(sizeof *exchange);
    exchange->connection = connection;
    exchange->ingress = connection->ingress;
    exchange->arena = arena_create(ARENA_BYTES_MAX);
    exchange->head_text = head_text;
    exchange->head = *head;
    exchange->since_us = clock_mono_us();
    exchange->close = !head->keep_alive || head->minor == 0 || connection->ingress->stopped;
    exchange->body_left = head->content_length;
    exchange->received =
        head->body == HTTP1_BODY_NONE || (head->body == HTTP1_BODY_LENGTH && head->content_length == 0);
    http1_chunked_init(&exchange->chunked);
    exchange->ingress->exchanges++;
    metric_move(exchange->ingress->in_flight, 1);
    struct str id = ingress_headers_request_id(head->headers, head->header_count);
    if (id.len)
        memcpy(exchange->request_id, id.at, id.len);
    else
        id_uuid7(exchange->request_id);
    start(exchange);
    return exchange;
}

void ingress_exchange_destroy(struct ingress_exchange *exchange)
{
    if (!exchange) return;
    if (exchange->authentication) exchange->authentication->exchange = NULL;
    if (exchange->call) tunnel_call_cancel(exchange->call);
    exchange->ingress->exchanges--;
    metric_move(exchange->ingress->in_flight, -1);
    arena_destroy(exchange->arena);
    mem_free(exchange->head_text);
    mem_free(exchange);
}

// ---- the body ------------------------------------------------------------------------------------------------

static void pass(struct ingress_exchange *exchange, struct str data)
{
    if (data.len > 0 && !tunnel_call_write(exchange->call, data.at, data.len)) exchange->call_blocked = true;
}

static size_t feed_chunked(struct ingress_exchange *exchange, const char *at, size_t len)
{
    size_t total = 0;
    while (total < len && !exchange->received && !exchange->call_blocked) {
        size_t used = 0;
        struct str data;
        bool done = false;
        struct error err;
        if (http1_chunked_feed(&exchange->chunked, at + total, len - total, &used, &data, &done, &err) != ERROR_NONE) {
            refuse(exchange, 400, "bad-request", err.text);
            return len;
        }
        total += used;
        pass(exchange, data);
        if (done) end_request(exchange);
    }
    return total;
}

size_t ingress_exchange_feed(struct ingress_exchange *exchange, const char *at, size_t len)
{
    if (exchange->received || exchange->over || !exchange->call || exchange->call_blocked) return 0;
    if (exchange->websocket) {
        if (!exchange->raw) return 0; // not before both sides have switched
        pass(exchange, str_of(at, len));
        return len;
    }
    if (exchange->head.body == HTTP1_BODY_CHUNKED) return feed_chunked(exchange, at, len);
    size_t take = exchange->body_left < len ? (size_t)exchange->body_left : len;
    exchange->body_left -= take;
    pass(exchange, str_of(at, take));
    if (exchange->body_left == 0) end_request(exchange);
    return take;
}

void ingress_exchange_feed_end(struct ingress_exchange *exchange)
{
    if (exchange->raw) end_request(exchange);
}

bool ingress_exchange_is_raw(const struct ingress_exchange *exchange)
{
    return exchange->raw;
}

void ingress_exchange_last(struct ingress_exchange *exchange)
{
    exchange->close = true;
}

bool ingress_exchange_is_over(const struct ingress_exchange *exchange)
{
    return exchange->over;
}

bool ingress_exchange_keeps_alive(const struct ingress_exchange *exchange)
{
    return !exchange->close && exchange->received;
}

bool ingress_exchange_awaits_body(const struct ingress_exchange *exchange)
{
    bool able = exchange->call && !exchange->call_blocked && !exchange->received && !exchange->raw;
    bool answered = exchange->answer_body == HTTP1_BODY_LENGTH && exchange->answer_left == 0;
    return able && !exchange->websocket && (exchange->status == 0 || answered);
}

bool ingress_exchange_is_patient(const struct ingress_exchange *exchange)
{
    return exchange->patient;
}
