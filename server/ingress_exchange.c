#include "server/ingress_exchange.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/parse.h"
#include "server/ingress_exchange_state.h"
#include "server/ingress_headers.h"

enum { ARENA_BYTES_MAX = 1024 * 1024 };

// ---- the request ---------------------------------------------------------------------------------------------

// user_id NULL: nobody (a webhook).
static void open_call(struct ingress_exchange *exchange, struct str account_id, const char *user_id,
                      const char *user_name)
{
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
    exchange->call = tunnel_call_open(exchange->ingress->options.node, &request, &ingress_exchange_events, exchange);
    if (head->expect_continue && !exchange->received)
        (void)tls_stream_write(exchange->connection->stream, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    ingress_connection_wake(exchange->connection); // the body that has come already
}

static void refuse_credential(struct ingress_exchange *exchange, const struct error *err)
{
    switch (err->code) {
    case ERROR_UNAUTHENTICATED:
    case ERROR_INVALID:
        ingress_exchange_answer_problem(exchange, 401, "unauthenticated",
                                        "the credential is missing, unknown, expired or revoked");
        break;
    case ERROR_FORBIDDEN:
        ingress_exchange_answer_problem(exchange, 403, "forbidden", "the credential has no right to this");
        break;
    case ERROR_UNAVAILABLE:
    case ERROR_TIMEOUT:
    case ERROR_AGAIN:
        ingress_exchange_answer_problem(exchange, 503, "unavailable", "the credential cannot be checked at the moment");
        break;
    default: ingress_exchange_answer_problem(exchange, 500, "internal", "the credential could not be checked"); break;
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
        ingress_exchange_answer_problem(exchange, 404, "not-found", "no runtime has this host name");
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
        ingress_exchange_answer_problem(exchange, 401, "unauthenticated",
                                        "a credential is needed: Authorization or x-access-token");
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
        ingress_exchange_answer_problem(exchange, 429, "rate-limited", "too many webhooks for this runtime");
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
        ingress_exchange_answer_problem(exchange, 426, "websocket-version", "only WebSocket version 13 is spoken here");
        return false;
    }
    if (!str_eq(head->method, STR("GET")) || head->body != HTTP1_BODY_NONE ||
        parse_base64(http1_find(head, STR("sec-websocket-key")), key, sizeof key, &key_len, NULL) != ERROR_NONE ||
        key_len != 16) {
        exchange->close = true;
        ingress_exchange_answer_problem(exchange, 400, "bad-request", "malformed WebSocket handshake");
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
        ingress_exchange_answer_problem(exchange, 405, "method-not-allowed", "TRACE is not carried");
        return;
    }
    if (head->minor == 1 && !head->expect_continue && http1_find(head, STR("expect")).len > 0) {
        ingress_exchange_answer_problem(exchange, 417, "expectation-failed", "only 100-continue can be expected here");
        return;
    }
    enum error_code code = ingress_route_parse(head->host, head->target, str_c(options->tunnel_domain),
                                               str_c(options->platform_host), &exchange->route, &err);
    if (code != ERROR_NONE) {
        bool missing = code == ERROR_NOT_FOUND;
        if (!missing) exchange->close = true;
        ingress_exchange_answer_problem(exchange, missing ? 404 : 400, missing ? "not-found" : "bad-request", err.text);
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

void ingress_exchange_end_request(struct ingress_exchange *exchange)
{
    if (exchange->received) return;
    exchange->received = true;
    if (exchange->call) tunnel_call_end(exchange->call);
}

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
            ingress_exchange_answer_problem(exchange, 400, "bad-request", err.text);
            return len;
        }
        total += used;
        pass(exchange, data);
        if (done) ingress_exchange_end_request(exchange);
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
    if (exchange->body_left == 0) ingress_exchange_end_request(exchange);
    return take;
}

void ingress_exchange_feed_end(struct ingress_exchange *exchange)
{
    if (exchange->raw) ingress_exchange_end_request(exchange);
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
