#include "server/ingress/ingress_exchange.h"

#include "base/clock.h"
#include "base/mem.h"
#include "server/ingress/ingress_exchange_state.h"
#include "server/ingress/ingress_headers.h"

enum {
    ARENA_BYTES_MAX = 1024 * 1024,
    // Longer than most agents need to refuse, and than the registry needs to find out that there is none.
    ANONYMOUS_REFUSAL_MS = 250,
    CONTINUE_MS = 1000, // so long the service has the first word on a body that waits for it
};

// ---- the body's pace -----------------------------------------------------------------------------------------

void ingress_exchange_restart_pace(struct ingress_exchange *exchange)
{
    exchange->pace_since_ms = ingress_connection_now_ms(exchange->connection);
    exchange->pace_bytes = 0;
}

// Messages of gRPC come when there is something to say, and what is switched is nobody's body.
static bool may_be_slow(const struct ingress_request *request)
{
    if (request->protocol.len > 0) return true;
    for (size_t i = 0; i < request->header_count; i++)
        if (str_eq_nocase(request->headers[i].name, STR("content-type")))
            return str_starts_nocase(request->headers[i].value, STR("application/grpc"));
    return false;
}

static void begin_pace(struct ingress_exchange *exchange)
{
    const struct ingress_options *options = &exchange->ingress->options;
    exchange->unpaced = options->body_bytes_per_second_min == 0 || may_be_slow(&exchange->request);
    ingress_exchange_restart_pace(exchange);
    if (!exchange->unpaced)
        ingress_connection_arm(exchange->connection, exchange->pace_since_ms + options->body_rate_window_ms);
}

// Whoever sends a body in drops holds a connection, a stream of the tunnel and a place at the service. Counted is only
// the time in which nobody but the client is waited for. Returns when to look again, 0: not.
static uint64_t check_pace(struct ingress_exchange *exchange, uint64_t now_ms)
{
    const struct ingress_options *options = &exchange->ingress->options;
    if (exchange->unpaced || !exchange->call || exchange->received || exchange->over) return 0;
    if (!ingress_exchange_awaits_body(exchange)) ingress_exchange_restart_pace(exchange);
    uint64_t took_ms = now_ms - exchange->pace_since_ms;
    if (took_ms < options->body_rate_window_ms) return exchange->pace_since_ms + options->body_rate_window_ms;
    if (exchange->pace_bytes >= options->body_bytes_per_second_min * took_ms / 1000) {
        ingress_exchange_restart_pace(exchange);
        return now_ms + options->body_rate_window_ms;
    }
    exchange->last = true;
    if (exchange->status == 0) metric_add(metric_with(exchange->ingress->cuts, "body-too-slow"), 1);
    ingress_exchange_answer_problem(exchange, 408, "body-too-slow", "the request body arrives too slowly");
    return 0;
}

// ---- the request ---------------------------------------------------------------------------------------------

// user_id NULL: nobody (a webhook).
static void open_call(struct ingress_exchange *exchange, struct str account_id, const char *user_id,
                      const char *user_name)
{
    const struct ingress_request *from = &exchange->request;
    bool upgrade = from->protocol.len > 0;
    struct str peer = str_c(exchange->connection->peer);
    const struct ingress_caller caller = {.peer = peer,
                                          .host = from->host,
                                          .prefix = exchange->route.prefix,
                                          .request_id = str_c(exchange->request_id),
                                          .tls = exchange->ingress->tls != NULL,
                                          .is_trusted_proxy = ingress_proxies_have(&exchange->ingress->proxies, peer),
                                          .anonymous = user_id == NULL,
                                          .websocket = str_eq(from->protocol, STR("websocket")),
                                          .expect_continue = exchange->continue_at_ms != 0,
                                          .body = from->has_length};
    struct http_header *headers =
        arena_array(exchange->arena, from->header_count + INGRESS_REQUEST_ADDED_MAX, sizeof *headers);
    size_t count = ingress_headers_request(from->headers, from->header_count, &caller, exchange->arena, headers);
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
    exchange->call = tunnel_call_open(exchange->ingress->options.node, &request, &ingress_exchange_events, exchange);
    if (exchange->received) return;
    begin_pace(exchange);
    exchange->front->on_ready(exchange->front_arg); // the body that has come already
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
    case ERROR_LIMITED: ingress_exchange_answer_problem(exchange, 429, "limited", err->text); break;
    case ERROR_UNAVAILABLE:
    case ERROR_TIMEOUT:
    case ERROR_AGAIN:
        ingress_exchange_answer_problem(exchange, 503, "unavailable", "the credential cannot be checked at the moment");
        break;
    default: ingress_exchange_answer_problem(exchange, 500, "internal", "the credential could not be checked"); break;
    }
}

// Nothing comes through from here on, in either direction.
static void on_void(void *arg, bool is_unchecked)
{
    struct ingress_exchange *exchange = arg;
    if (exchange->over) return;
    if (exchange->call) tunnel_call_cancel(exchange->call);
    exchange->call = NULL;
    exchange->last = true;
    if (is_unchecked)
        ingress_exchange_answer_problem(exchange, 503, "unavailable", "the credential could not be checked again");
    else
        ingress_exchange_answer_problem(exchange, 401, "unauthenticated", "the credential has expired or was revoked");
}

static void on_authenticated(void *arg, const struct error *err, const struct ingress_principal *principal)
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
    } else if (!exchange->route.platform_host && !str_eq(principal->account_id, str_c(exchange->route.account_id))) {
        // As if nobody lived there: a foreign runtime must not be told from a missing one.
        ingress_exchange_answer_problem(exchange, 404, "not-found", "no runtime has this host name");
    } else if (!ingress_connection_take_account(exchange->connection, principal->account_id)) {
        metric_add(metric_with(ingress->refused, "account"), 1);
        exchange->last = true;
        ingress_exchange_answer_problem(exchange, 503, "too-many-connections",
                                        "the account has too many connections open");
    } else {
        if (ingress->options.grants)
            grants_add(ingress->options.grants, &exchange->grant, principal->token_id, on_void, exchange);
        open_call(exchange, arena_str(exchange->arena, principal->account_id),
                  arena_cstr(exchange->arena, principal->user_id), arena_cstr(exchange->arena, principal->user_name));
    }
}

static void authenticate(struct ingress_exchange *exchange)
{
    struct ingress *ingress = exchange->ingress;
    struct str token = ingress_headers_credential(exchange->request.headers, exchange->request.header_count);
    if (token.len == 0) {
        ingress_exchange_answer_problem(exchange, 401, "unauthenticated",
                                        "a credential is needed: Authorization or x-access-token");
        return;
    }
    struct ingress_authentication *authentication = mem_alloc(sizeof *authentication);
    *authentication = (struct ingress_authentication){.ingress = ingress, .exchange = exchange};
    exchange->authentication = authentication;
    ingress->authentications++;
    ingress->options.authenticate(ingress->options.ctx, loop_index(ingress->loop), token,
                                  str_c(exchange->connection->peer), on_authenticated, authentication);
}

static void pass_webhook(struct ingress_exchange *exchange)
{
    struct str account_id = str_c(exchange->route.account_id);
    if (!ingress_limiter_take(&exchange->ingress->limiter, account_id, str_c(exchange->route.runtime),
                              ingress_connection_now_ms(exchange->connection)))
        ingress_exchange_answer_problem(exchange, 429, "rate-limited", "too many webhooks for this runtime");
    else
        open_call(exchange, account_id, NULL, NULL);
}

// What an upgrade may ask for. False: refused.
static bool check_protocol(struct ingress_exchange *exchange)
{
    const struct ingress_request *request = &exchange->request;
    if (str_eq(request->protocol, STR("websocket"))) {
        struct str version = STR_EMPTY;
        for (size_t i = 0; i < request->header_count; i++)
            if (str_eq_nocase(request->headers[i].name, STR("sec-websocket-version")))
                version = request->headers[i].value;
        if (str_eq(version, STR("13"))) return true;
        ingress_exchange_answer_problem(exchange, 426, "websocket-version", "only WebSocket version 13 is spoken here");
    } else if (!str_eq(request->protocol, STR("connect-tcp"))) {
        ingress_exchange_answer_problem(exchange, 501, "not-implemented", "websocket and connect-tcp are offered here");
    } else if (ingress_route_is_tcp(exchange->route.path)) {
        return true;
    } else {
        ingress_exchange_answer_problem(exchange, 404, "no-route", "TCP connections go to /tcp/<name>");
    }
    return false;
}

// False: refused.
static bool check_request(struct ingress_exchange *exchange)
{
    const struct ingress_request *request = &exchange->request;
    const struct ingress_options *options = &exchange->ingress->options;
    struct error err;
    if (request->refused != INGRESS_REFUSED_NOT) {
        bool large = request->refused == INGRESS_REFUSED_TOO_LARGE;
        ingress_exchange_answer_problem(exchange, large ? 431 : 400, large ? "head-too-large" : "bad-request",
                                        large ? "the request's header list is too large"
                                              : "the request's authority has no single meaning");
        return false;
    }
    bool plain_connect = str_eq(request->method, STR("CONNECT")) && request->protocol.len == 0;
    if (str_eq(request->method, STR("TRACE")) || plain_connect) {
        ingress_exchange_answer_problem(exchange, 405, "method-not-allowed", "TRACE and CONNECT are not carried");
        return false;
    }
    if (!http1_is_known_method(request->method)) {
        exchange->last = true;
        ingress_exchange_answer_problem(exchange, 501, "not-implemented", "the method is not one of HTTP");
        return false;
    }
    if (request->expect.len > 0 && !str_eq_nocase(request->expect, STR("100-continue"))) {
        ingress_exchange_answer_problem(exchange, 417, "expectation-failed", "only 100-continue can be expected here");
        return false;
    }
    enum error_code code = ingress_route_parse(request->host, request->target, str_c(options->tunnel_domain),
                                               str_c(options->platform_host), &exchange->route, &err);
    if (code != ERROR_NONE) {
        bool missing = code == ERROR_NOT_FOUND;
        exchange->last = !missing;
        ingress_exchange_answer_problem(exchange, missing ? 404 : 400, missing ? "not-found" : "bad-request", err.text);
        return false;
    }
    return request->protocol.len == 0 || check_protocol(exchange);
}

void ingress_exchange_start(struct ingress_exchange *exchange)
{
    if (!check_request(exchange)) return;
    if (exchange->request.expect.len > 0 && !exchange->received) {
        exchange->continue_at_ms = ingress_connection_now_ms(exchange->connection) + CONTINUE_MS;
        ingress_connection_arm(exchange->connection, exchange->continue_at_ms);
    }
    if (exchange->route.webhook && exchange->request.protocol.len == 0)
        pass_webhook(exchange);
    else
        authenticate(exchange);
}

// ---- life ----------------------------------------------------------------------------------------------------

struct arena *ingress_take_arena(struct ingress *ingress)
{
    if (ingress->spare_arena_count > 0) return ingress->spare_arenas[--ingress->spare_arena_count];
    return arena_create(ARENA_BYTES_MAX);
}

void ingress_give_arena(struct ingress *ingress, struct arena *arena)
{
    if (!arena) return;
    arena_reset(arena);
    if (ingress->spare_arena_count < INGRESS_SPARE_ARENAS)
        ingress->spare_arenas[ingress->spare_arena_count++] = arena;
    else
        arena_destroy(arena);
}

struct ingress_exchange *ingress_exchange_create(struct ingress_connection *connection,
                                                 const struct ingress_request *request,
                                                 const struct ingress_front *front, void *front_arg)
{
    struct arena *arena = ingress_take_arena(connection->ingress);
    struct ingress_exchange *exchange = arena_alloc(arena, sizeof *exchange);
    exchange->arena = arena;
    exchange->connection = connection;
    exchange->ingress = connection->ingress;
    exchange->home = loop_index(connection->ingress->loop);
    exchange->front = front;
    exchange->front_arg = front_arg;
    exchange->request = *request;
    exchange->received = request->complete;
    exchange->answer_left = UINT64_MAX;
    exchange->since_us = clock_mono_us();
    exchange->ingress->exchanges++;
    metric_move(exchange->ingress->in_flight, 1);
    struct str id = ingress_headers_request_id(request->headers, request->header_count);
    if (id.len)
        memcpy(exchange->request_id, id.at, id.len);
    else
        ingress_request_id_make(exchange->ingress->request_id_seed, exchange->request_id);
    return exchange;
}

void ingress_exchange_destroy(struct ingress_exchange *exchange)
{
    if (!exchange) return;
    struct ingress *ingress = exchange->ingress;
    if (exchange->authentication) exchange->authentication->exchange = NULL;
    grants_remove(&exchange->grant);
    if (exchange->call) tunnel_call_cancel(exchange->call);
    ingress->exchanges--;
    metric_move(ingress->in_flight, -1);
    ingress_give_arena(ingress, exchange->arena);
}

// ---- the body ------------------------------------------------------------------------------------------------

bool ingress_exchange_wants(const struct ingress_exchange *exchange)
{
    bool open = exchange->call && !exchange->received && !exchange->over && !exchange->call_blocked;
    // An upgraded connection begins when both sides have switched.
    return open && (exchange->request.protocol.len == 0 || exchange->raw);
}

void ingress_exchange_feed(struct ingress_exchange *exchange, const char *at, size_t len)
{
    exchange->continue_at_ms = 0;
    exchange->pace_bytes += len;
    if (len > 0 && !tunnel_call_write(exchange->call, at, len)) exchange->call_blocked = true;
}

void ingress_exchange_feed_end(struct ingress_exchange *exchange, const struct http_header *trailers, size_t count)
{
    struct http_header kept[INGRESS_TRAILERS_MAX];
    if (exchange->received) return;
    exchange->received = true;
    exchange->continue_at_ms = 0;
    if (!exchange->call) return;
    size_t n = ingress_headers_request_trailers(trailers, count, exchange->arena, kept, INGRESS_TRAILERS_MAX);
    if (n > 0)
        tunnel_call_trailers(exchange->call, kept, n);
    else
        tunnel_call_end(exchange->call);
}

void ingress_exchange_feed_broken(struct ingress_exchange *exchange, const char *detail)
{
    exchange->last = true;
    if (!exchange->over) ingress_exchange_answer_problem(exchange, 400, "bad-request", detail);
}

static uint64_t check_continue(struct ingress_exchange *exchange, uint64_t now_ms)
{
    if (exchange->continue_at_ms == 0 || now_ms < exchange->continue_at_ms) return exchange->continue_at_ms;
    if (exchange->call)
        ingress_exchange_continue(exchange);
    else
        exchange->continue_at_ms = now_ms + CONTINUE_MS; // nobody knows yet whether the body is wanted
    return exchange->continue_at_ms;
}

static uint64_t check_refusal(struct ingress_exchange *exchange, uint64_t now_ms)
{
    if (exchange->refuse_at_ms == 0 || now_ms < exchange->refuse_at_ms) return exchange->refuse_at_ms;
    exchange->refuse_at_ms = 0;
    if (!exchange->over)
        ingress_exchange_answer_problem(exchange, 503, "unavailable", "no webhook can be delivered here now");
    return 0;
}

void ingress_exchange_refuse_anonymous(struct ingress_exchange *exchange)
{
    uint64_t taken_ms = (clock_mono_us() - exchange->since_us) / 1000;
    // Called later by the timer also where the time is over already: out of the broker's callbacks.
    uint64_t left_ms = taken_ms < ANONYMOUS_REFUSAL_MS ? ANONYMOUS_REFUSAL_MS - taken_ms : 1;
    exchange->continue_at_ms = 0;
    // Always, not only where the refusal came before the body: that, too, would show something.
    exchange->last = true;
    exchange->refuse_at_ms = ingress_connection_now_ms(exchange->connection) + left_ms;
    ingress_connection_arm(exchange->connection, exchange->refuse_at_ms);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a == 0 || (b && b < a) ? b : a;
}

uint64_t ingress_exchange_on_time(struct ingress_exchange *exchange, uint64_t now_ms)
{
    uint64_t refusal = check_refusal(exchange, now_ms);
    if (exchange->over) return 0;
    uint64_t again = check_continue(exchange, now_ms), due = check_pace(exchange, now_ms);
    return sooner(refusal, sooner(again, due));
}

// ---- what the front asks -------------------------------------------------------------------------------------

unsigned ingress_exchange_home(const struct ingress_exchange *exchange)
{
    return exchange->home;
}

bool ingress_exchange_is_raw(const struct ingress_exchange *exchange)
{
    return exchange->raw;
}

bool ingress_exchange_is_over(const struct ingress_exchange *exchange)
{
    return exchange->over;
}

bool ingress_exchange_has_begun(const struct ingress_exchange *exchange)
{
    return exchange->status != 0;
}

bool ingress_exchange_is_received(const struct ingress_exchange *exchange)
{
    return exchange->received;
}

bool ingress_exchange_awaits_body(const struct ingress_exchange *exchange)
{
    bool answered = exchange->status != 0 && exchange->answer_left == 0;
    return ingress_exchange_wants(exchange) && (exchange->status == 0 || answered);
}

bool ingress_exchange_is_patient(const struct ingress_exchange *exchange)
{
    return exchange->patient && !exchange->over && exchange->answer_left > 0;
}
