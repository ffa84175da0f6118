#include "server/proxy/call_exchange.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/http1/http1.h"
#include "base/http1/http_problem.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "server/proxy/call_headers.h"
#include "server/proxy/request_id.h"
#include "tunnel/wire/handshake.h"

enum {
    TRAILERS_MAX = 16,
    // Longer than most agents need to refuse, and than the registry needs to find out that there is
    // none.
    ANONYMOUS_REFUSAL_MS = 250,
    CONTINUE_MS = 1000, // so long the service has the first word on a body that waits for it
};

// A question to authenticate() that outlives an exchange whose client has left.
struct call_authentication {
    struct call_proxy *proxy;
    struct call_exchange *exchange; // NULL: nobody waits
};

struct call_exchange {
    struct call_proxy *proxy;
    const struct call_front *front;
    void *front_arg;
    struct arena *arena;
    struct call_head head;
    struct call_route route;
    struct call_authentication *authentication; // while it is pending
    struct tunnel_call *call;                   // while it runs
    struct watched_credential grant;            // of the credential
    uint64_t since_us;
    char request_id[REQUEST_ID_BYTES];
    unsigned home; // the loop of the session that answers; the proxy's own until it is known

    // The request's body.
    bool received;                      // nothing of the request is to come
    bool call_blocked;                  // the tunnel has no room
    uint64_t pace_since_ms, pace_bytes; // the window in which the body's pace is measured, and what came in it
    bool unpaced;                       // it may be as slow as it likes
    uint64_t refuse_at_ms;              // when an anonymous request that reached no service is refused; 0: not
    uint64_t continue_at_ms;            // when a client that waits for 100 Continue gets ours; 0: it does not wait

    // The answer.
    int status;    // 0: not begun
    bool bodyless; // whatever its length says
    bool raw;      // switched protocols: bytes as they are
    bool over;     // whole, or given up
    bool last;     // no request shall follow: the client is refused for its form, or for being too many
    bool patient;
    bool client_blocked;
    uint64_t answer_left; // UINT64_MAX: unknown
    size_t unconsumed;    // bytes the client has still to take before the tunnel gets its credit back
    struct http_header trailers[TRAILERS_MAX];
    size_t trailer_count;
};

static uint64_t now_ms(const struct call_exchange *exchange)
{
    return uv_now(loop_uv(exchange->proxy->loop));
}

static void arm(struct call_exchange *exchange, uint64_t due_ms)
{
    if (exchange->front->arm) exchange->front->arm(exchange->front_arg, due_ms);
}

static void be_patient(struct call_exchange *exchange)
{
    if (exchange->front->be_patient) exchange->front->be_patient(exchange->front_arg);
}

// ---- the end ------------------------------------------------------------------------------------

static void note_answer(struct call_exchange *exchange)
{
    const struct call_proxy_options *options = &exchange->proxy->options;
    if (options->on_answered)
        options->on_answered(options->endpoint, exchange->status, clock_mono_us() - exchange->since_us);
    log_debug("calls", "answered", log_c("request_id", exchange->request_id), log_int("status", exchange->status),
              log_c("account", exchange->route.account_id), log_c("runtime", exchange->route.runtime),
              log_str("peer", exchange->head.peer));
}

static void finish(struct call_exchange *exchange)
{
    exchange->over = true;
    note_answer(exchange);
    exchange->front->on_end(exchange->front_arg, exchange->trailers, exchange->trailer_count);
}

// Given up in the middle of the answer.
static void cut(struct call_exchange *exchange, const char *reason)
{
    exchange->over = true;
    exchange->front->on_fail(exchange->front_arg, reason);
}

// The whole answer to a request that is not carried (further).
static void answer_problem(struct call_exchange *exchange, int status, const char *code, const char *detail)
{
    struct strbuf body;
    char retry_after[HTTP_PROBLEM_RETRY_BYTES];
    struct http_header headers[HTTP_PROBLEM_HEADERS_MAX + 1];
    const struct http_problem problem = {
        .status = status, .code = code, .detail = str_c(detail), .request_id = str_c(exchange->request_id)};
    if (exchange->status != 0) {
        cut(exchange, code);
        return;
    }
    exchange->status = status;
    exchange->continue_at_ms = 0;
    strbuf_init(&body, HTTP_PROBLEM_BYTES_MAX);
    http_problem_write(&problem, &body);
    size_t count = http_problem_headers(&problem, retry_after, headers);
    headers[count++] = (struct http_header){STR("culvert-cause"), str_c(code)};
    const struct call_answer_head head = {
        .status = status,
        .headers = headers,
        .header_count = count,
        .request_id = str_c(exchange->request_id),
        .length = body.len,
        // What of the body has not come yet would be taken for the next request.
        .last = !exchange->received || exchange->last,
    };
    bool has_body = !str_eq(exchange->head.method, STR("HEAD"));
    exchange->front->on_head(exchange->front_arg, &head);
    if (has_body && !exchange->over)
        (void)exchange->front->on_data(exchange->front_arg, (const uint8_t *)body.at, body.len);
    strbuf_finish(&body);
    if (!exchange->over) finish(exchange);
}

// ---- the body's pace ----------------------------------------------------------------------------

void call_exchange_restart_pace(struct call_exchange *exchange)
{
    exchange->pace_since_ms = now_ms(exchange);
    exchange->pace_bytes = 0;
}

// Messages of gRPC come when there is something to say, and what is switched is nobody's body.
static bool may_be_slow(const struct call_head *head)
{
    return head->protocol.len > 0 ||
           str_starts_nocase(call_head_find(head, STR("content-type")), STR("application/grpc"));
}

static void begin_pace(struct call_exchange *exchange)
{
    const struct call_proxy_options *options = &exchange->proxy->options;
    exchange->unpaced =
        options->body_bytes_per_second_min == 0 || !exchange->front->arm || may_be_slow(&exchange->head);
    call_exchange_restart_pace(exchange);
    if (!exchange->unpaced) arm(exchange, exchange->pace_since_ms + options->body_rate_window_ms);
}

// Whoever sends a body in drops holds a connection, a stream of the tunnel and a place at the
// service. Counted is only the time in which nobody but the client is waited for. Returns when to
// look again, 0: not.
static uint64_t check_pace(struct call_exchange *exchange, uint64_t now)
{
    const struct call_proxy_options *options = &exchange->proxy->options;
    if (exchange->unpaced || !exchange->call || exchange->received || exchange->over) return 0;
    if (!call_exchange_awaits_body(exchange)) call_exchange_restart_pace(exchange);
    uint64_t took_ms = now - exchange->pace_since_ms;
    if (took_ms < options->body_rate_window_ms) return exchange->pace_since_ms + options->body_rate_window_ms;
    if (exchange->pace_bytes >= options->body_bytes_per_second_min * took_ms / 1000) {
        call_exchange_restart_pace(exchange);
        return now + options->body_rate_window_ms;
    }
    exchange->last = true;
    if (exchange->status == 0) metric_add(metric_with(exchange->proxy->cuts, "body-too-slow"), 1);
    answer_problem(exchange, 408, "body-too-slow", "the request body arrives too slowly");
    return 0;
}

// The answer to a webhook that reached no service, whatever the cause: in a moment, so that neither
// it nor the time it takes shows whether the runtime exists, is connected, or has such a webhook.
static void refuse_anonymous(struct call_exchange *exchange)
{
    uint64_t taken_ms = (clock_mono_us() - exchange->since_us) / 1000;
    // Called later by the timer also where the time is over already: out of the broker's callbacks.
    uint64_t left_ms = taken_ms < ANONYMOUS_REFUSAL_MS ? ANONYMOUS_REFUSAL_MS - taken_ms : 1;
    exchange->continue_at_ms = 0;
    // Always, not only where the refusal came before the body: that, too, would show something.
    exchange->last = true;
    exchange->refuse_at_ms = now_ms(exchange) + left_ms;
    arm(exchange, exchange->refuse_at_ms);
}

// ---- the answer ---------------------------------------------------------------------------------

// Sends 100 Continue to a client that waits for one.
static void send_continue(struct call_exchange *exchange)
{
    if (exchange->continue_at_ms == 0 || exchange->over) return;
    exchange->continue_at_ms = 0;
    exchange->front->on_info(exchange->front_arg, 100);
}

static void on_info(void *arg, int status)
{
    struct call_exchange *exchange = arg;
    if (exchange->status != 0 || exchange->over || status == 101 || status < 100 || status > 199) return;
    if (status == 100)
        send_continue(exchange);
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

// Success of an extended CONNECT (RFC 8441 section 5, RFC 9110 section 9.3.6) has no body: bytes
// follow.
static void switch_protocols(struct call_exchange *exchange)
{
    exchange->raw = exchange->patient = true;
    be_patient(exchange);
}

static bool has_no_body(const struct call_exchange *exchange, int status)
{
    return str_eq(exchange->head.method, STR("HEAD")) || status == 204 || status == 304;
}

// The ordinary success that a service answered in place of switching protocols; 0: it did nothing
// of the kind.
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
    struct call_exchange *exchange = arg;
    struct http_header kept[CALL_RESPONSE_HEADERS_MAX];
    size_t n = 0;
    uint64_t length = UINT64_MAX;
    const struct call_origin origin = {
        .host = exchange->head.host, .prefix = exchange->route.prefix, .platform = exchange->route.platform_host};
    if (exchange->status != 0 || exchange->over) return;
    // The allowance of webhooks is a loop's: who sends them stays where he is.
    if (!exchange->route.webhook) exchange->home = tunnel_call_node(exchange->call);
    if (status < 200 || status > 599 ||
        !call_headers_response(headers, count, &origin, exchange->arena, kept, &n, &length)) {
        answer_problem(exchange, 502, "upstream-failed", "the answer's head has no single meaning");
        return;
    }
    bool upgrade = exchange->head.protocol.len > 0;
    int declined = upgrade ? declined_status(status, headers, count) : 0;
    if (declined && str_eq(exchange->head.method, STR("CONNECT"))) {
        // Over HTTP/2 every 2xx would say that it is accepted; over HTTP/1.1 only 101 does (RFC
        // 9110 section 7.8).
        answer_problem(exchange, 502, "upstream-failed", "the service did not switch protocols");
        return;
    }
    if (declined) status = declined;
    exchange->status = status;
    exchange->continue_at_ms = 0;
    if (upgrade && !declined && status < 300) {
        switch_protocols(exchange);
        length = UINT64_MAX;
    } else {
        if (upgrade) call_exchange_feed_end(exchange, NULL, 0);
        exchange->patient = is_event_stream(kept, n);
        if (exchange->patient) be_patient(exchange);
        exchange->bodyless = has_no_body(exchange, status);
        exchange->answer_left = exchange->bodyless ? 0 : length;
    }
    const struct call_answer_head head = {.status = status,
                                          .headers = kept,
                                          .header_count = n,
                                          .request_id = str_c(exchange->request_id),
                                          .length = length};
    exchange->front->on_head(exchange->front_arg, &head);
    if (exchange->raw) exchange->front->on_room(exchange->front_arg); // what the client sent behind its head
}

static void on_data(void *arg, const uint8_t *at, size_t len)
{
    struct call_exchange *exchange = arg;
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
    if (!exchange->client_blocked) call_exchange_took(exchange, SIZE_MAX);
}

static void on_trailers(void *arg, const struct http_header *headers, size_t count)
{
    struct call_exchange *exchange = arg;
    struct http_header kept[TRAILERS_MAX];
    size_t n = call_headers_trailers(headers, count, kept, TRAILERS_MAX);
    for (size_t i = 0; i < n; i++) {
        exchange->trailers[i].name = arena_str(exchange->arena, kept[i].name);
        exchange->trailers[i].value = arena_str(exchange->arena, kept[i].value);
    }
    exchange->trailer_count = n;
}

static void on_half_end(void *arg)
{
    struct call_exchange *exchange = arg;
    if (!exchange->raw || exchange->over) return;
    exchange->answer_left = 0;
    exchange->front->on_half_end(exchange->front_arg);
}

static void on_end(void *arg)
{
    struct call_exchange *exchange = arg;
    exchange->call = NULL;
    if (exchange->over) return;
    if (exchange->status == 0 && exchange->route.webhook)
        refuse_anonymous(exchange);
    else if (exchange->status == 0)
        answer_problem(exchange, 502, "upstream-failed", "the call ended without an answer");
    else if (exchange->answer_left != UINT64_MAX && exchange->answer_left > 0)
        cut(exchange, "upstream-failed");
    else
        finish(exchange);
}

static void on_room(void *arg)
{
    struct call_exchange *exchange = arg;
    exchange->call_blocked = false;
    call_exchange_restart_pace(exchange);
    exchange->front->on_room(exchange->front_arg);
}

static void on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    struct call_exchange *exchange = arg;
    exchange->call = NULL;
    if (exchange->over) return;
    if (exchange->status == 0 && exchange->route.webhook)
        refuse_anonymous(exchange);
    else
        answer_problem(exchange, tunnel_cause_status(cause), tunnel_cause_name(cause), detail ? detail : "");
}

void call_exchange_took(struct call_exchange *exchange, size_t len)
{
    if (len >= exchange->unconsumed) {
        len = exchange->unconsumed;
        exchange->client_blocked = false;
    }
    exchange->unconsumed -= len;
    if (exchange->call && len > 0) tunnel_call_consumed(exchange->call, len);
}

static const struct exchange_events call_events = {
    .on_info = on_info,
    .on_head = on_head,
    .on_data = on_data,
    .on_trailers = on_trailers,
    .on_half_end = on_half_end,
    .on_end = on_end,
    .on_room = on_room,
    .on_fail = on_fail,
};

// ---- the request --------------------------------------------------------------------------------

// user_id NULL: nobody (a webhook).
static void open_call(struct call_exchange *exchange, struct str account_id, const char *user_id, const char *user_name)
{
    const struct call_head *from = &exchange->head;
    bool upgrade = from->protocol.len > 0;
    const struct call_caller caller = {.peer = from->peer,
                                       .host = from->host,
                                       .prefix = exchange->route.prefix,
                                       .request_id = str_c(exchange->request_id),
                                       .tls = from->tls,
                                       .is_trusted_proxy = trusted_proxies_have(&exchange->proxy->trusted, from->peer),
                                       .anonymous = user_id == NULL,
                                       .websocket = str_eq(from->protocol, STR("websocket")),
                                       .expect_continue = exchange->continue_at_ms != 0,
                                       .body = from->has_length};
    struct http_header *headers =
        arena_array(exchange->arena, from->header_count + CALL_REQUEST_ADDED_MAX, sizeof *headers);
    size_t count = call_headers_request(from->headers, from->header_count, &caller, exchange->arena, headers);
    const struct tunnel_request request = {
        .account_id = account_id,
        .runtime = str_c(exchange->route.runtime),
        .method = upgrade ? STR("CONNECT") : from->method,
        .path = exchange->route.path,
        .protocol = from->protocol,
        .headers = headers,
        .header_count = count,
        .end_stream = exchange->received,
        .user_id = user_id,
        .user_name = user_name,
    };
    exchange->call = tunnel_call_open(exchange->proxy->options.node, &request, &call_events, exchange);
    if (exchange->received) return;
    begin_pace(exchange);
    exchange->front->on_room(exchange->front_arg); // the body that has come already
}

static void refuse_credential(struct call_exchange *exchange, const struct error *err)
{
    switch (err->code) {
    case ERROR_UNAUTHENTICATED:
    case ERROR_INVALID:
        answer_problem(exchange, 401, "unauthenticated", "the credential is missing, unknown, expired or revoked");
        break;
    case ERROR_FORBIDDEN: answer_problem(exchange, 403, "forbidden", err->text); break;
    case ERROR_LIMITED: answer_problem(exchange, 429, "limited", err->text); break;
    case ERROR_UNAVAILABLE:
    case ERROR_TIMEOUT:
    case ERROR_AGAIN:
        answer_problem(exchange, 503, "unavailable", "the credential cannot be checked at the moment");
        break;
    default: answer_problem(exchange, 500, "internal", "the credential could not be checked"); break;
    }
}

// Nothing comes through from here on, in either direction.
static void on_void(void *arg, bool is_unchecked)
{
    struct call_exchange *exchange = arg;
    if (exchange->over) return;
    if (exchange->call) tunnel_call_cancel(exchange->call);
    exchange->call = NULL;
    exchange->last = true;
    if (is_unchecked)
        answer_problem(exchange, 503, "unavailable", "the credential could not be checked again");
    else
        answer_problem(exchange, 401, "unauthenticated", "the credential has expired or was revoked");
}

static void on_authenticated(void *arg, const struct error *err, const struct call_principal *principal)
{
    struct call_authentication *authentication = arg;
    struct call_exchange *exchange = authentication->exchange;
    struct call_proxy *proxy = authentication->proxy;
    mem_free(authentication);
    proxy->authentications--;
    if (!exchange) {
        if (proxy->options.on_late_authentication) proxy->options.on_late_authentication(proxy->options.endpoint);
        return;
    }
    exchange->authentication = NULL;
    if (err) {
        refuse_credential(exchange, err);
    } else if (!exchange->route.platform_host && !str_eq(principal->account_id, str_c(exchange->route.account_id))) {
        // As if nobody lived there: a foreign runtime must not be told from a missing one.
        answer_problem(exchange, 404, "not-found", "no runtime has this host name");
    } else if (!exchange->front->take_account(exchange->front_arg, principal->account_id)) {
        metric_add(metric_with(proxy->refused, "account"), 1);
        exchange->last = true;
        answer_problem(exchange, 503, "too-many-connections", "the account has too many connections open");
    } else {
        if (proxy->options.credential_watch)
            credential_watch_add_rights(proxy->options.credential_watch, &exchange->grant, principal->token_id,
                                        principal->rights, on_void, exchange);
        open_call(exchange, arena_str(exchange->arena, principal->account_id),
                  arena_cstr(exchange->arena, principal->user_id), arena_cstr(exchange->arena, principal->user_name));
    }
}

static void authenticate(struct call_exchange *exchange)
{
    struct call_proxy *proxy = exchange->proxy;
    struct call_credential credential = {0};
    call_headers_take_credential(exchange->head.headers, exchange->head.header_count, exchange->head.on_platform,
                                 &credential);
    credential.runtime = str_c(exchange->route.runtime);
    if (credential.token.len == 0 && credential.cookie.len == 0) {
        answer_problem(exchange, 401, "unauthenticated", "a credential is needed: Authorization or x-access-token");
        return;
    }
    struct call_authentication *authentication = mem_alloc(sizeof *authentication);
    *authentication = (struct call_authentication){.proxy = proxy, .exchange = exchange};
    exchange->authentication = authentication;
    proxy->authentications++;
    proxy->options.authenticate(proxy->options.ctx, loop_index(proxy->loop), &credential, exchange->head.peer,
                                on_authenticated, authentication);
}

static void pass_webhook(struct call_exchange *exchange)
{
    struct str account_id = str_c(exchange->route.account_id);
    char name[sizeof exchange->route.account_id + sizeof exchange->route.runtime];
    snprintf(name, sizeof name, "%s/%s", exchange->route.account_id, exchange->route.runtime);
    if (rate_limiter_take(exchange->proxy->webhooks, str_c(name), now_ms(exchange)))
        answer_problem(exchange, 429, "rate-limited", "too many webhooks for this runtime");
    else
        open_call(exchange, account_id, NULL, NULL);
}

void call_exchange_start(struct call_exchange *exchange)
{
    const struct call_proxy_options *options = &exchange->proxy->options;
    struct call_refusal refusal;
    struct error err;
    if (!call_head_admit(&exchange->head, str_c(options->tunnel_domain), str_c(options->platform_host),
                         &exchange->route, &refusal, &err)) {
        exchange->last = refusal.last;
        answer_problem(exchange, refusal.status, refusal.code, refusal.detail);
        return;
    }
    if (exchange->head.expect.len > 0 && !exchange->received) {
        exchange->continue_at_ms = now_ms(exchange) + CONTINUE_MS;
        arm(exchange, exchange->continue_at_ms);
    }
    if (exchange->route.webhook && exchange->head.protocol.len == 0)
        pass_webhook(exchange);
    else
        authenticate(exchange);
}

// ---- life ---------------------------------------------------------------------------------------

struct call_exchange *call_exchange_create(struct call_proxy *proxy, const struct call_head *head,
                                           const struct call_front *front, void *front_arg)
{
    struct arena *arena = call_proxy_take_arena(proxy);
    struct call_exchange *exchange = arena_alloc(arena, sizeof *exchange);
    exchange->arena = arena;
    exchange->proxy = proxy;
    exchange->home = loop_index(proxy->loop);
    exchange->front = front;
    exchange->front_arg = front_arg;
    exchange->head = *head;
    exchange->received = head->complete;
    exchange->answer_left = UINT64_MAX;
    exchange->since_us = clock_mono_us();
    proxy->exchanges++;
    if (proxy->options.in_flight) metric_move(proxy->options.in_flight, 1);
    struct str id = head->request_id;
    if (id.len == 0) id = call_headers_request_id(head->headers, head->header_count);
    assert(id.len < sizeof exchange->request_id);
    if (id.len)
        memcpy(exchange->request_id, id.at, id.len);
    else
        request_id_make(proxy->request_id_seed, exchange->request_id);
    return exchange;
}

void call_exchange_abandon(struct call_exchange *exchange)
{
    exchange->over = true;
    if (exchange->authentication) exchange->authentication->exchange = NULL;
    exchange->authentication = NULL;
    credential_watch_remove(&exchange->grant);
}

void call_exchange_destroy(struct call_exchange *exchange)
{
    if (!exchange) return;
    struct call_proxy *proxy = exchange->proxy;
    if (exchange->authentication) exchange->authentication->exchange = NULL;
    credential_watch_remove(&exchange->grant);
    if (exchange->call) tunnel_call_cancel(exchange->call);
    proxy->exchanges--;
    if (proxy->options.in_flight) metric_move(proxy->options.in_flight, -1);
    call_proxy_give_arena(proxy, exchange->arena);
}

// ---- the body -----------------------------------------------------------------------------------

bool call_exchange_wants(const struct call_exchange *exchange)
{
    bool open = exchange->call && !exchange->received && !exchange->over && !exchange->call_blocked;
    // An upgraded connection begins when both sides have switched.
    return open && (exchange->head.protocol.len == 0 || exchange->raw);
}

void call_exchange_feed(struct call_exchange *exchange, const char *at, size_t len)
{
    exchange->continue_at_ms = 0;
    exchange->pace_bytes += len;
    if (len > 0 && !tunnel_call_write(exchange->call, at, len)) exchange->call_blocked = true;
}

void call_exchange_feed_end(struct call_exchange *exchange, const struct http_header *trailers, size_t count)
{
    struct http_header kept[TRAILERS_MAX];
    if (exchange->received) return;
    exchange->received = true;
    exchange->continue_at_ms = 0;
    if (!exchange->call) return;
    size_t n = call_headers_request_trailers(trailers, count, exchange->arena, kept, TRAILERS_MAX);
    if (n > 0)
        tunnel_call_trailers(exchange->call, kept, n);
    else
        tunnel_call_end(exchange->call);
}

void call_exchange_feed_broken(struct call_exchange *exchange, const char *detail)
{
    exchange->last = true;
    if (!exchange->over) answer_problem(exchange, 400, "bad-request", detail);
}

static uint64_t check_continue(struct call_exchange *exchange, uint64_t now)
{
    if (exchange->continue_at_ms == 0 || now < exchange->continue_at_ms) return exchange->continue_at_ms;
    if (exchange->call)
        send_continue(exchange);
    else
        exchange->continue_at_ms = now + CONTINUE_MS; // nobody knows yet whether the body is wanted
    return exchange->continue_at_ms;
}

static uint64_t check_refusal(struct call_exchange *exchange, uint64_t now)
{
    if (exchange->refuse_at_ms == 0 || now < exchange->refuse_at_ms) return exchange->refuse_at_ms;
    exchange->refuse_at_ms = 0;
    if (!exchange->over) answer_problem(exchange, 503, "unavailable", "no webhook can be delivered here now");
    return 0;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a == 0 || (b && b < a) ? b : a;
}

uint64_t call_exchange_on_time(struct call_exchange *exchange, uint64_t now)
{
    uint64_t refusal = check_refusal(exchange, now);
    if (exchange->over) return 0;
    uint64_t again = check_continue(exchange, now), due = check_pace(exchange, now);
    return sooner(refusal, sooner(again, due));
}

// ---- what the front asks ------------------------------------------------------------------------

unsigned call_exchange_home(const struct call_exchange *exchange)
{
    return exchange->home;
}

bool call_exchange_is_raw(const struct call_exchange *exchange)
{
    return exchange->raw;
}

bool call_exchange_is_over(const struct call_exchange *exchange)
{
    return exchange->over;
}

bool call_exchange_has_begun(const struct call_exchange *exchange)
{
    return exchange->status != 0;
}

bool call_exchange_is_received(const struct call_exchange *exchange)
{
    return exchange->received;
}

bool call_exchange_awaits_body(const struct call_exchange *exchange)
{
    bool answered = exchange->status != 0 && exchange->answer_left == 0;
    return call_exchange_wants(exchange) && (exchange->status == 0 || answered);
}

bool call_exchange_is_patient(const struct call_exchange *exchange)
{
    return exchange->patient && !exchange->over && exchange->answer_left > 0;
}
