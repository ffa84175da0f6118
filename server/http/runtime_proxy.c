#include "server/http/runtime_proxy.h"

#include <stdio.h>
#include <string.h>

#include "api/access/auth.h"
#include "base/arena.h"
#include "base/http1/http1.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "server/chores/grants.h"
#include "server/ingress/ingress_headers.h"
#include "server/ingress/ingress_problem.h"
#include "server/ingress/ingress_route.h"
#include "tunnel/broker.h"

enum { ARENA_BYTES_MAX = 1024 * 1024, PENDING_BYTES_MAX = 8 * 1024 * 1024 };

// One call. It lives until both sides have let go: the door (answered or gone) and the tunnel (ended, failed or
// cancelled).
struct proxy_call {
    struct worker *worker;
    struct door_request *request; // NULL: answered or gone
    struct tunnel_call *call;     // NULL: not open, over or cancelled
    struct grant grant;           // of the credential
    struct arena *arena;
    struct ingress_route route;
    struct str body;                // the part not yet written
    struct strbuf pending, writing; // of the answer: waits for the door; is with the door
    bool authenticating, started, ready, ended;
};

static void release(struct proxy_call *proxy)
{
    if (proxy->request || proxy->call || proxy->authenticating) return;
    grants_remove(&proxy->grant);
    strbuf_finish(&proxy->pending);
    strbuf_finish(&proxy->writing);
    arena_destroy(proxy->arena);
    mem_free(proxy);
}

static void answer_problem(struct proxy_call *proxy, int status, const char *code, const char *detail)
{
    struct door_request *request = proxy->request;
    proxy->request = NULL;
    struct strbuf body;
    strbuf_init(&body, INGRESS_PROBLEM_BYTES_MAX);
    ingress_problem_write(&body, status, code, str_c(detail), door_request_id(request));
    char seconds[16];
    int len = snprintf(seconds, sizeof seconds, "%u", ingress_problem_retry_after(status));
    struct http_header headers[3] = {{STR("culvert-cause"), str_c(code)}};
    size_t count = 1;
    if (seconds[0] != '0') headers[count++] = (struct http_header){STR("retry-after"), str_of(seconds, (size_t)len)};
    if (status == 401)
        headers[count++] = (struct http_header){STR("www-authenticate"), STR("Bearer realm=\"culvert\"")};
    door_request_answer(request, status, "application/problem+json", headers, count, strbuf_str(&body));
    strbuf_finish(&body);
}

// The head has left: that the answer is not whole can be told by cutting it only.
static void abort_answer(struct proxy_call *proxy)
{
    struct door_request *request = proxy->request;
    proxy->request = NULL;
    door_request_abort(request);
}

static void on_client_gone(void *arg)
{
    struct proxy_call *proxy = arg;
    proxy->request = NULL;
    if (proxy->call) tunnel_call_cancel(proxy->call);
    proxy->call = NULL;
    release(proxy);
}

// ---- the answer: tunnel to door ------------------------------------------------------------------------------------

// What has come goes to the door in one piece; while that is with the door, more may come.
static void pump(struct proxy_call *proxy)
{
    if (!proxy->ready || !proxy->request) return;
    size_t taken = proxy->writing.len;
    strbuf_clear(&proxy->writing);
    if (taken && proxy->call) tunnel_call_consumed(proxy->call, taken);
    if (proxy->pending.len) {
        struct strbuf free_one = proxy->writing;
        proxy->writing = proxy->pending;
        proxy->pending = free_one;
        proxy->ready = false;
        door_request_write(proxy->request, strbuf_str(&proxy->writing));
    } else if (proxy->ended) {
        struct door_request *request = proxy->request;
        proxy->request = NULL;
        door_request_end(request);
        release(proxy);
    }
}

static void on_door_ready(void *arg)
{
    struct proxy_call *proxy = arg;
    proxy->ready = true;
    pump(proxy);
}

static void on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    struct proxy_call *proxy = arg;
    struct http_header kept[INGRESS_RESPONSE_HEADERS_MAX];
    size_t kept_count;
    uint64_t length;
    const struct ingress_origin origin = {
        .host = door_request_host(proxy->request), .prefix = proxy->route.prefix, .platform = true};
    if (!ingress_headers_response(headers, count, &origin, proxy->arena, kept, &kept_count, &length)) {
        tunnel_call_cancel(proxy->call);
        proxy->call = NULL;
        answer_problem(proxy, 502, "upstream-failed", "the service's answer has two lengths");
        release(proxy);
        return;
    }
    struct http_header out[INGRESS_RESPONSE_HEADERS_MAX];
    size_t out_count = 0;
    for (size_t i = 0; i < kept_count; i++) {
        if (str_eq(kept[i].name, STR("x-request-id"))) continue; // the door sets it
        out[out_count++] = (struct http_header){kept[i].name, kept[i].value};
    }
    proxy->started = true;
    door_request_start(proxy->request, status, length, out, out_count, on_door_ready, proxy);
}

static void on_data(void *arg, const uint8_t *at, size_t len)
{
    struct proxy_call *proxy = arg;
    // The stream's window bounds what can come before we give credit back, far below the buffer's maximum.
    if (strbuf_add(&proxy->pending, at, len)) {
        pump(proxy);
        return;
    }
    tunnel_call_cancel(proxy->call);
    proxy->call = NULL;
    abort_answer(proxy);
    release(proxy);
}

static void on_end(void *arg)
{
    struct proxy_call *proxy = arg;
    proxy->call = NULL;
    proxy->ended = true;
    if (proxy->request)
        pump(proxy);
    else
        release(proxy);
}

static void on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    struct proxy_call *proxy = arg;
    proxy->call = NULL;
    if (proxy->request && proxy->started) {
        abort_answer(proxy);
    } else if (proxy->request) {
        answer_problem(proxy, tunnel_cause_status(cause), tunnel_cause_name(cause), detail ? detail : "");
    }
    release(proxy);
}

// ---- the request: door to tunnel -----------------------------------------------------------------------------------

static void write_body(void *arg)
{
    enum { PIECE = 64 * 1024 };
    struct proxy_call *proxy = arg;
    while (proxy->body.len) {
        struct str piece = str_first(proxy->body, PIECE);
        proxy->body = str_from(proxy->body, piece.len);
        if (!tunnel_call_write(proxy->call, piece.at, piece.len) && proxy->body.len) return;
    }
    tunnel_call_end(proxy->call);
}

static const struct tunnel_call_events events = {
    .on_head = on_head,
    .on_data = on_data,
    .on_end = on_end,
    .on_writable = write_body,
    .on_fail = on_fail,
};

static size_t request_headers(struct proxy_call *proxy, struct http_header **out)
{
    struct door_request *request = proxy->request;
    size_t count = door_request_header_count(request);
    struct http_header *headers = arena_array(proxy->arena, count, sizeof *headers);
    for (size_t i = 0; i < count; i++) {
        struct http_header header = door_request_header_at(request, i);
        headers[i] = (struct http_header){header.name, header.value};
    }
    const struct ingress_caller caller = {
        .peer = door_request_peer(request),
        .host = door_request_host(request),
        .prefix = proxy->route.prefix,
        .request_id = door_request_id(request),
        .tls = true,
    };
    *out = arena_array(proxy->arena, count + INGRESS_REQUEST_ADDED_MAX + 1, sizeof **out);
    size_t kept = ingress_headers_request(headers, count, &caller, proxy->arena, *out);
    if (proxy->body.len) {
        const char *length = arena_printf(proxy->arena, "%zu", proxy->body.len);
        (*out)[kept++] = (struct http_header){STR("content-length"), str_c(length)};
    }
    return kept;
}

static void on_void(void *arg, bool is_unchecked)
{
    struct proxy_call *proxy = arg;
    if (proxy->call) tunnel_call_cancel(proxy->call);
    proxy->call = NULL;
    if (proxy->request && proxy->started)
        abort_answer(proxy);
    else if (proxy->request && is_unchecked)
        answer_problem(proxy, 503, "unavailable", "the credential could not be checked again");
    else if (proxy->request)
        answer_problem(proxy, 401, "unauthenticated", "the credential has expired or was revoked");
    release(proxy);
}

static void on_authenticated(void *arg, const struct error *err, const struct api_principal *principal)
{
    struct proxy_call *proxy = arg;
    proxy->authenticating = false;
    if (!proxy->request) {
        release(proxy);
        return;
    }
    if (err || principal->kind != PRINCIPAL_USER) {
        if (err && err->code == ERROR_LIMITED) {
            answer_problem(proxy, 429, "limited", err->text);
            release(proxy);
            return;
        }
        bool away = err && err->code != ERROR_UNAUTHENTICATED;
        int status = away ? 503 : err ? 401 : 403;
        answer_problem(proxy, status,
                       away  ? "unavailable"
                       : err ? "unauthenticated"
                             : "forbidden",
                       away  ? "credentials cannot be checked right now"
                       : err ? "a valid API key is needed"
                             : "calls into a cluster require a user; a runtime token is not accepted");
        release(proxy);
        return;
    }
    struct http_header *headers;
    proxy->body = door_request_body(proxy->request);
    size_t count = request_headers(proxy, &headers);
    struct tunnel_request request = {
        .account_id = str_c(principal->account_id),
        .runtime = str_c(proxy->route.runtime),
        .method = door_request_method(proxy->request),
        .path = proxy->route.path,
        .headers = headers,
        .header_count = count,
        .end_stream = proxy->body.len == 0,
        .user_id = principal->user_id,
        .user_name = principal->user_name,
    };
    grants_add(proxy->worker->grants, &proxy->grant, str_c(principal->token_id), on_void, proxy);
    proxy->call = tunnel_call_open(proxy->worker->node, &request, &events, proxy);
    if (proxy->body.len) write_body(proxy);
}

void runtime_proxy_take(struct worker *worker, struct door_request *request)
{
    struct proxy_call *proxy = mem_zalloc(sizeof *proxy);
    proxy->worker = worker;
    proxy->request = request;
    proxy->arena = arena_create(ARENA_BYTES_MAX);
    strbuf_init(&proxy->pending, PENDING_BYTES_MAX);
    strbuf_init(&proxy->writing, PENDING_BYTES_MAX);
    struct error err;
    struct str target = arena_str(proxy->arena, door_request_target(request));
    enum error_code code = ingress_route_parse_proxy(target, &proxy->route, &err);
    if (code != ERROR_NONE) {
        answer_problem(proxy, code == ERROR_NOT_FOUND ? 404 : 400, error_code_name(code), err.text);
        release(proxy);
        return;
    }
    proxy->authenticating = true;
    door_request_on_gone(request, on_client_gone, proxy, true);
    api_auth_check(worker->auth, door_request_header(request, STR("authorization")),
                   door_request_header(request, STR("x-access-token")), door_request_peer(request), on_authenticated,
                   proxy);
}
