#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "server/ingress/ingress_exchange_state.h"
#include "server/ingress/ingress_headers.h"
#include "server/ingress/ingress_problem.h"
#include "tunnel/wire/handshake.h"

// ---- the end -------------------------------------------------------------------------------------------------

static void count(struct ingress_exchange *exchange)
{
    ingress_count_answer(exchange->ingress, exchange->status);
    metric_observe(exchange->ingress->seconds, (double)(clock_mono_us() - exchange->since_us) / 1e6);
    log_debug("ingress", "answered", log_c("request_id", exchange->request_id), log_int("status", exchange->status),
              log_c("account", exchange->route.account_id), log_c("runtime", exchange->route.runtime),
              log_c("peer", exchange->connection->peer));
}

static void finish(struct ingress_exchange *exchange)
{
    exchange->over = true;
    count(exchange);
    exchange->front->on_end(exchange->front_arg, exchange->trailers, exchange->trailer_count);
}

// Given up in the middle of the answer.
static void cut(struct ingress_exchange *exchange, const char *reason)
{
    exchange->over = true;
    exchange->front->on_cut(exchange->front_arg, reason);
}

void ingress_exchange_answer_problem(struct ingress_exchange *exchange, int status, const char *code,
                                     const char *detail)
{
    struct strbuf body;
    char retry_after[16];
    struct http_header headers[INGRESS_PROBLEM_HEADERS_MAX];
    if (exchange->status != 0) {
        cut(exchange, code);
        return;
    }
    exchange->status = status;
    exchange->continue_at_ms = 0;
    strbuf_init(&body, INGRESS_PROBLEM_BYTES_MAX);
    ingress_problem_write(&body, status, code, str_c(detail), str_c(exchange->request_id));
    const struct ingress_answer_head head = {
        .status = status,
        .headers = headers,
        .header_count = ingress_problem_headers(status, code, retry_after, headers),
        .request_id = str_c(exchange->request_id),
        .length = body.len,
        // What of the body has not come yet would be taken for the next request.
        .last = !exchange->received || exchange->last,
    };
    exchange->front->on_head(exchange->front_arg, &head);
    if (!str_eq(exchange->request.method, STR("HEAD")))
        (void)exchange->front->on_data(exchange->front_arg, (const uint8_t *)body.at, body.len);
    strbuf_finish(&body);
    finish(exchange);
}

// ---- the answer ----------------------------------------------------------------------------------------------

void ingress_exchange_continue(struct ingress_exchange *exchange)
{
    if (exchange->continue_at_ms == 0 || exchange->over) return;
    exchange->continue_at_ms = 0;
    exchange->front->on_info(exchange->front_arg, 100);
}

static void on_info(void *arg, int status)
{
    struct ingress_exchange *exchange = arg;
    if (exchange->status != 0 || exchange->over || status == 101 || status < 100 || status > 199) return;
    if (status == 100)
        ingress_exchange_continue(exchange);
    else
        exchange->front->on_info(exchange->front_arg, status);
}

static bool is_event_stream(const struct http_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(headers[i].name, STR("content-type")))
            return str_starts_nocase(headers[i].value, STR("text/event-stream"));
    return false;
}

// Success of an extended CONNECT (RFC 8441 section 5, RFC 9110 section 9.3.6) has no body: bytes follow.
static void switch_protocols(struct ingress_exchange *exchange)
{
    exchange->raw = exchange->patient = true;
    ingress_connection_be_patient(exchange->connection);
}

static bool has_no_body(const struct ingress_exchange *exchange, int status)
{
    return str_eq(exchange->request.method, STR("HEAD")) || status == 204 || status == 304;
}

// The ordinary success that a service answered in place of switching protocols; 0: it did nothing of the kind.
static int declined_status(int status, const struct http_header *headers, size_t count)
{
    for (size_t i = 0; status == WIRE_STATUS_DECLINED && i < count; i++) {
        struct str said = headers[i].value;
        if (!str_eq(headers[i].name, STR(WIRE_HEADER_STATUS))) continue;
        bool is_success = said.len == 3 && said.at[0] == '2' && said.at[1] >= '0' && said.at[1] <= '9' &&
                          said.at[2] >= '0' && said.at[2] <= '9';
        return is_success ? 200 + 10 * (said.at[1] - '0') + (said.at[2] - '0') : 0;
    }
    return 0;
}

static void on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    struct ingress_exchange *exchange = arg;
    struct http_header kept[INGRESS_RESPONSE_HEADERS_MAX];
    size_t n = 0;
    uint64_t length = UINT64_MAX;
    const struct ingress_origin origin = {
        .host = exchange->request.host, .prefix = exchange->route.prefix, .platform = exchange->route.platform_host};
    if (exchange->status != 0 || exchange->over) return;
    // The allowance of webhooks is a loop's: who sends them stays where he is.
    if (!exchange->route.webhook) exchange->home = tunnel_call_node(exchange->call);
    if (status < 200 || status > 599 ||
        !ingress_headers_response(headers, count, &origin, exchange->arena, kept, &n, &length)) {
        ingress_exchange_answer_problem(exchange, 502, "upstream-failed", "the answer's head has no single meaning");
        return;
    }
    bool upgrade = exchange->request.protocol.len > 0;
    int declined = upgrade ? declined_status(status, headers, count) : 0;
    if (declined && str_eq(exchange->request.method, STR("CONNECT"))) {
        // Over HTTP/2 every 2xx would say that it is accepted; over HTTP/1.1 only 101 does (RFC 9110 section 7.8).
        ingress_exchange_answer_problem(exchange, 502, "upstream-failed", "the service did not switch protocols");
        return;
    }
    if (declined) status = declined;
    exchange->status = status;
    exchange->continue_at_ms = 0;
    if (upgrade && !declined && status < 300) {
        switch_protocols(exchange);
        length = UINT64_MAX;
    } else {
        if (upgrade) ingress_exchange_feed_end(exchange, NULL, 0);
        exchange->patient = is_event_stream(kept, n);
        if (exchange->patient) ingress_connection_be_patient(exchange->connection);
        exchange->bodyless = has_no_body(exchange, status);
        exchange->answer_left = exchange->bodyless ? 0 : length;
    }
    const struct ingress_answer_head head = {.status = status,
                                             .headers = kept,
                                             .header_count = n,
                                             .request_id = str_c(exchange->request_id),
                                             .length = length};
    exchange->front->on_head(exchange->front_arg, &head);
    if (exchange->raw) exchange->front->on_ready(exchange->front_arg); // what the client sent behind its head
}

static void on_data(void *arg, const uint8_t *at, size_t len)
{
    struct ingress_exchange *exchange = arg;
    if (len == 0) return;
    if (exchange->status == 0 || exchange->over) {
        tunnel_call_consumed(exchange->call, len); // an answer that was given up; the call ends with the turn
        return;
    }
    if (exchange->answer_left != UINT64_MAX) {
        if (len > exchange->answer_left) {
            // More than was announced, or a body where none may be: the client must not see it.
            cut(exchange, "upstream-failed");
            return;
        }
        exchange->answer_left -= len;
    }
    exchange->unconsumed += len;
    if (!exchange->front->on_data(exchange->front_arg, at, len)) exchange->client_blocked = true;
    if (!exchange->client_blocked) ingress_exchange_took(exchange, SIZE_MAX);
}

static void on_trailers(void *arg, const struct http_header *headers, size_t count)
{
    struct ingress_exchange *exchange = arg;
    struct http_header kept[INGRESS_TRAILERS_MAX];
    size_t n = ingress_headers_trailers(headers, count, kept, INGRESS_TRAILERS_MAX);
    for (size_t i = 0; i < n; i++) {
        exchange->trailers[i].name = arena_str(exchange->arena, kept[i].name);
        exchange->trailers[i].value = arena_str(exchange->arena, kept[i].value);
    }
    exchange->trailer_count = n;
}

static void on_remote_end(void *arg)
{
    struct ingress_exchange *exchange = arg;
    if (!exchange->raw || exchange->over) return;
    exchange->answer_left = 0;
    exchange->front->on_half_end(exchange->front_arg);
}

static void on_end(void *arg)
{
    struct ingress_exchange *exchange = arg;
    exchange->call = NULL;
    if (exchange->over) return;
    if (exchange->status == 0 && exchange->route.webhook)
        ingress_exchange_refuse_anonymous(exchange);
    else if (exchange->status == 0)
        ingress_exchange_answer_problem(exchange, 502, "upstream-failed", "the call ended without an answer");
    else if (exchange->answer_left != UINT64_MAX && exchange->answer_left > 0)
        cut(exchange, "upstream-failed");
    else
        finish(exchange);
}

static void on_writable(void *arg)
{
    struct ingress_exchange *exchange = arg;
    exchange->call_blocked = false;
    ingress_exchange_restart_pace(exchange);
    exchange->front->on_ready(exchange->front_arg);
}

static void on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    struct ingress_exchange *exchange = arg;
    exchange->call = NULL;
    if (exchange->over) return;
    if (exchange->status == 0 && exchange->route.webhook)
        ingress_exchange_refuse_anonymous(exchange);
    else
        ingress_exchange_answer_problem(exchange, tunnel_cause_status(cause), tunnel_cause_name(cause),
                                        detail ? detail : "");
}

void ingress_exchange_took(struct ingress_exchange *exchange, size_t len)
{
    if (len >= exchange->unconsumed) {
        len = exchange->unconsumed;
        exchange->client_blocked = false;
    }
    exchange->unconsumed -= len;
    if (exchange->call && len > 0) tunnel_call_consumed(exchange->call, len);
}

const struct tunnel_call_events ingress_exchange_events = {
    .on_info = on_info,
    .on_head = on_head,
    .on_data = on_data,
    .on_trailers = on_trailers,
    .on_remote_end = on_remote_end,
    .on_end = on_end,
    .on_writable = on_writable,
    .on_fail = on_fail,
};
