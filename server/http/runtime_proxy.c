#include "server/http/runtime_proxy.h"

#include <assert.h>
#include <stdio.h>

#include "base/http1/http1.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "server/proxy/call_exchange.h"
#include "server/proxy/call_headers.h"

enum {
    PENDING_BYTES_MAX = 8 * 1024 * 1024, // far over a call's window, which bounds what is here
    PIECE_BYTES = 64 * 1024,             // of a request's body
    TRAILERS_MAX = 32,                   // of a request
    CONTENT_LENGTH_BYTES = 24,
};

struct runtime_proxy {
    struct loop *loop;
    struct call_proxy calls;
    struct connection_limiter *accounts;
    size_t requests; // that are not freed
    loop_fn on_closed;
    void *on_closed_arg;
};

// How far an answer is.
//
//     WAITING --head--> SENDING <--> READY --all sent--> LEFT
//        |                 |           |                  ^
//        +-----------------+-----------+---- client gone, cut
enum request_state {
    REQUEST_WAITING, // for the answer's head
    REQUEST_SENDING, // head or a piece is with the connection
    REQUEST_READY,   // the connection takes a piece
    REQUEST_LEFT,    // answered or gone; freed in a later turn
};

struct proxied_request {
    struct runtime_proxy *proxy;
    struct listener_request *request; // dead once it has left
    struct call_exchange *exchange;
    enum request_state state;
    struct http_header *headers;
    struct str body;                     // of the request, not yet fed
    struct strbuf pending, writing;      // of the answer: wait for the connection; are with it
    size_t pending_bytes, writing_bytes; // of the service's in those
    bool chunked;                        // the answer is framed here
    bool ended, broken;                // nothing follows what is pending; and the client must see that it is not whole
    char length[CONTENT_LENGTH_BYTES]; // text of Content-Length
};

static void enter(struct proxied_request *proxied, enum request_state state)
{
    assert(proxied->state != REQUEST_LEFT);
    assert(state != REQUEST_WAITING && (state != REQUEST_READY || proxied->state == REQUEST_SENDING));
    proxied->state = state;
}

// ---- its end ------------------------------------------------------------------------------------

static void check_closed(struct runtime_proxy *proxy)
{
    if (!proxy->on_closed || proxy->requests > 0 || proxy->calls.authentications > 0) return;
    loop_fn on_closed = proxy->on_closed;
    proxy->on_closed = NULL;
    loop_post(proxy->loop, on_closed, proxy->on_closed_arg);
}

static void free_request(void *arg)
{
    struct proxied_request *proxied = arg;
    struct runtime_proxy *proxy = proxied->proxy;
    call_exchange_destroy(proxied->exchange);
    strbuf_finish(&proxied->pending);
    strbuf_finish(&proxied->writing);
    mem_free(proxied->headers);
    mem_free(proxied);
    proxy->requests--;
    check_closed(proxy);
}

// The request is not ours any more, nor are the texts that the exchange has views of. An exchange
// may not be destroyed inside its own callbacks.
static struct listener_request *leave(struct proxied_request *proxied)
{
    struct listener_request *request = proxied->request;
    enter(proxied, REQUEST_LEFT);
    proxied->request = NULL;
    call_exchange_abandon(proxied->exchange);
    loop_post(proxied->proxy->loop, free_request, proxied);
    return request;
}

static void on_client_gone(void *arg)
{
    struct proxied_request *proxied = arg;
    if (proxied->state != REQUEST_LEFT) (void)leave(proxied);
}

// ---- the answer ---------------------------------------------------------------------------------

// What has come goes in one piece; while that is with the connection, more may come.
static void pump(struct proxied_request *proxied)
{
    if (proxied->state != REQUEST_READY) return;
    if (proxied->pending.len > 0) {
        struct strbuf free_one = proxied->writing;
        strbuf_clear(&free_one);
        proxied->writing = proxied->pending;
        proxied->writing_bytes = proxied->pending_bytes;
        proxied->pending = free_one;
        proxied->pending_bytes = 0;
        enter(proxied, REQUEST_SENDING);
        listener_request_write(proxied->request, strbuf_str(&proxied->writing));
    } else if (proxied->ended) {
        bool broken = proxied->broken;
        struct listener_request *request = leave(proxied);
        if (broken)
            listener_request_abort(request);
        else
            listener_request_end(request);
    }
}

static void on_connection_ready(void *arg)
{
    struct proxied_request *proxied = arg;
    size_t taken = proxied->writing_bytes;
    if (proxied->state == REQUEST_LEFT) return;
    enter(proxied, REQUEST_READY);
    proxied->writing_bytes = 0;
    if (taken > 0) call_exchange_took(proxied->exchange, taken);
    pump(proxied);
}

// libh2o sends no 1xx: 100 Continue has been sent before the body was read, others are left out.
static void on_info(void *front, int status)
{
    (void)front;
    (void)status;
}

static bool has_chunks(const struct proxied_request *proxied, const struct call_answer_head *head)
{
    bool bodyless =
        head->status == 204 || head->status == 304 || str_eq(listener_request_method(proxied->request), STR("HEAD"));
    return head->length == UINT64_MAX && !bodyless && listener_request_is_http11(proxied->request);
}

static void on_head(void *front, const struct call_answer_head *head)
{
    struct proxied_request *proxied = front;
    if (proxied->state == REQUEST_LEFT) return;
    struct http_header headers[CALL_RESPONSE_HEADERS_MAX + 1];
    size_t count = 0;
    assert(head->header_count <= CALL_RESPONSE_HEADERS_MAX);
    while (count < head->header_count) {
        headers[count] = head->headers[count];
        count++;
    }
    proxied->chunked = has_chunks(proxied, head);
    // libh2o would frame it likewise, but knows no trailers.
    if (proxied->chunked) headers[count++] = (struct http_header){STR("transfer-encoding"), STR("chunked")};
    if (head->last) listener_request_be_last(proxied->request);
    enter(proxied, REQUEST_SENDING);
    listener_request_start(proxied->request, head->status, head->length, headers, count, on_connection_ready, proxied);
}

static bool on_data(void *front, const uint8_t *at, size_t len)
{
    struct proxied_request *proxied = front;
    if (proxied->state == REQUEST_LEFT) return false;
    struct strbuf *out = &proxied->pending;
    if (proxied->chunked) strbuf_addf(out, "%zx\r\n", len);
    strbuf_add(out, at, len);
    if (proxied->chunked) strbuf_add(out, "\r\n", 2);
    proxied->pending_bytes += len;
    if (out->overflow)
        listener_request_abort(leave(proxied));
    else
        pump(proxied);
    return false; // on_connection_ready() says when it is taken
}

static void on_half_end(void *front)
{
    (void)front; // of upgraded connections, which are not carried here
}

static void add_last_chunk(struct proxied_request *proxied, const struct http_header *trailers, size_t count)
{
    struct strbuf *out = &proxied->pending;
    strbuf_add_c(out, "0\r\n");
    for (size_t i = 0; i < count; i++)
        strbuf_addf(out, "%.*s: %.*s\r\n", STR_ARG(trailers[i].name), STR_ARG(trailers[i].value));
    strbuf_add_c(out, "\r\n");
}

static void on_end(void *front, const struct http_header *trailers, size_t count)
{
    struct proxied_request *proxied = front;
    if (proxied->state == REQUEST_LEFT) return;
    proxied->ended = true;
    bool takes = call_headers_take_trailers(proxied->headers, listener_request_header_count(proxied->request));
    if (proxied->chunked) add_last_chunk(proxied, trailers, takes ? count : 0);
    pump(proxied);
}

static void on_fail(void *front, const char *reason)
{
    struct proxied_request *proxied = front;
    (void)reason;
    if (proxied->state == REQUEST_LEFT) return;
    // What came of it goes; the missing rest, or the missing last chunk, tells.
    proxied->ended = proxied->broken = true;
    pump(proxied);
}

// ---- the request --------------------------------------------------------------------------------

// There is room for its body.
static void on_room(void *front)
{
    struct proxied_request *proxied = front;
    struct call_exchange *exchange = proxied->exchange;
    if (proxied->state == REQUEST_LEFT) return;
    while (proxied->body.len > 0 && call_exchange_wants(exchange)) {
        struct str piece = str_first(proxied->body, PIECE_BYTES);
        proxied->body = str_from(proxied->body, piece.len);
        call_exchange_feed(exchange, piece.at, piece.len);
    }
    if (proxied->body.len > 0 || call_exchange_is_received(exchange)) return;
    struct http_header trailers[TRAILERS_MAX];
    size_t count = http1_parse_trailers(listener_request_trailers(proxied->request), trailers, TRAILERS_MAX);
    call_exchange_feed_end(exchange, trailers, count);
}

static bool take_account(void *front, struct str account_id)
{
    const struct proxied_request *proxied = front;
    return listener_request_take_account(proxied->request, proxied->proxy->accounts, account_id);
}

static const struct call_front runtime_proxy_front = {
    .on_info = on_info,
    .on_head = on_head,
    .on_data = on_data,
    .on_half_end = on_half_end,
    .on_end = on_end,
    .on_fail = on_fail,
    .on_room = on_room,
    .take_account = take_account,
};

// libh2o keeps Content-Length to itself.
static size_t copy_headers(struct proxied_request *proxied, bool has_length)
{
    const struct listener_request *request = proxied->request;
    size_t count = listener_request_header_count(request);
    proxied->headers = mem_array(count + 1, sizeof *proxied->headers);
    for (size_t i = 0; i < count; i++)
        proxied->headers[i] = listener_request_header_at(request, i);
    if (!has_length) return count;
    int len = snprintf(proxied->length, sizeof proxied->length, "%zu", proxied->body.len);
    proxied->headers[count++] = (struct http_header){STR("content-length"), str_of(proxied->length, (size_t)len)};
    return count;
}

void runtime_proxy_take(struct runtime_proxy *proxy, struct listener_request *request, struct str target)
{
    struct proxied_request *proxied = mem_zalloc(sizeof *proxied);
    proxied->proxy = proxy;
    proxied->request = request;
    proxied->body = listener_request_body(request);
    strbuf_init(&proxied->pending, PENDING_BYTES_MAX);
    strbuf_init(&proxied->writing, PENDING_BYTES_MAX);
    bool has_trailers = listener_request_trailers(request).len > 0;
    bool has_length = listener_request_has_body(request) && !has_trailers;
    size_t header_count = copy_headers(proxied, has_length);
    const struct call_head head = {
        .method = listener_request_method(request),
        .target = target,
        .host = listener_request_host(request),
        .peer = listener_request_peer(request),
        .request_id = listener_request_id(request),
        .headers = proxied->headers,
        .header_count = header_count,
        .complete = proxied->body.len == 0 && !has_trailers,
        .has_length = has_length,
        .on_platform = true,
        .tls = true,
    };
    proxy->requests++;
    listener_request_on_gone(request, on_client_gone, proxied, true);
    proxied->exchange = call_exchange_create(&proxy->calls, &head, &runtime_proxy_front, proxied);
    call_exchange_start(proxied->exchange);
}

// ---- life ---------------------------------------------------------------------------------------

static void on_late_authentication(void *endpoint)
{
    check_closed(endpoint);
}

struct runtime_proxy *runtime_proxy_create(struct loop *loop, const struct call_proxy_options *options,
                                           struct connection_limiter *accounts, struct error *err)
{
    struct runtime_proxy *proxy = mem_zalloc(sizeof *proxy);
    struct call_proxy_options calls = *options;
    calls.on_late_authentication = on_late_authentication;
    calls.endpoint = proxy;
    proxy->loop = loop;
    proxy->accounts = accounts;
    if (call_proxy_init(&proxy->calls, loop, &calls, err) == ERROR_NONE) return proxy;
    mem_free(proxy);
    return NULL;
}

void runtime_proxy_close(struct runtime_proxy *proxy, loop_fn on_closed, void *arg)
{
    proxy->on_closed = on_closed;
    proxy->on_closed_arg = arg;
    check_closed(proxy);
}

void runtime_proxy_destroy(struct runtime_proxy *proxy)
{
    if (!proxy) return;
    call_proxy_finish(&proxy->calls);
    mem_free(proxy);
}
