#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/http/h2o_listener_state.h"
#include "server/proxy/request_id.h"

enum { ANSWER_HEADERS_MAX = 10 };

// The generator is what h2o sees of a streamed answer; it comes first, so that the one is the
// other.
struct listener_request {
    h2o_generator_t generator;
    h2o_req_t *req;
    struct h2o_listener *listener;
    struct h2o_gate *gate; // of the connection, which outlives it
    uint64_t since_us;
    loop_fn on_gone, on_ready;
    void *on_gone_arg, *on_ready_arg;
    struct listener_watch *watch;
    bool started, over;
    bool sending; // a piece is under way: h2o takes the next one in its proceed callback only
    bool cut;     // to be ended there
    int status;
    char id[REQUEST_ID_BYTES];
    char peer[INET6_ADDRSTRLEN];
    char *held; // without TLS: the piece that is being sent, until the next one or the end
};

// uv_poll for the hang-up of a client whose answer is pending; on a copy of the descriptor, because
// h2o owns the original.
struct listener_watch {
    uv_poll_t poll;
    int fd;
    struct listener_request *request; // NULL once it is over
};

static void on_watch_closed(uv_handle_t *handle)
{
    struct listener_watch *watch = handle->data;
    close(watch->fd);
    mem_free(watch);
}

static void watch_stop(struct listener_request *request)
{
    struct listener_watch *watch = request->watch;
    if (!watch) return;
    request->watch = NULL;
    watch->request = NULL;
    uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
}

static void request_over(struct listener_request *request)
{
    if (request->over) return;
    request->over = true;
    watch_stop(request);
    struct h2o_listener *listener = request->listener;
    listener->requests--;
    metric_move(listener->in_flight, -1);
    char status[8];
    snprintf(status, sizeof status, "%d", request->status);
    metric_add(metric_with(listener->answers, listener->options.name, status), 1);
    metric_observe(listener->seconds, (double)(clock_mono_us() - request->since_us) / 1e6);
}

static void request_gone(struct listener_request *request)
{
    if (request->over) return;
    request->status = 499;
    request_over(request);
    if (request->on_gone) request->on_gone(request->on_gone_arg);
}

// h2o frees the request's pool: the connection ended.
static void on_request_disposed(void *at)
{
    struct listener_request *request = at;
    request_gone(request);
    mem_free(request->held);
}

// Ends a streamed answer in the middle. While a piece is under way h2o may not be called: the
// socket is shut, so that the piece ends soon, and the rest is done then. The request may be freed
// by this.
static void cut(struct listener_request *request)
{
    h2o_req_t *req = request->req;
    struct h2o_gate *gate = request->gate;
    req->http1_is_persistent = 0;
    if (!request->sending) {
        h2o_send(req, NULL, 0, H2O_SEND_STATE_ERROR);
        h2o_gate_hold(gate);
        return;
    }
    request->cut = true;
    shutdown(h2o_socket_get_fd(req->conn->callbacks->get_socket(req->conn)), SHUT_RDWR);
}

static void on_watch(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct listener_watch *watch = poll->data;
    struct listener_request *request = watch->request;
    if (!request) return;
    h2o_req_t *req = request->req;
    struct h2o_gate *gate = request->gate;
    request_gone(request);
    // h2o does not know yet: end its side, which closes the connection.
    if (request->started) {
        cut(request);
    } else {
        h2o_send_error_generic(req, 499, "Client Closed Request", "", H2O_SEND_ERROR_HTTP1_CLOSE_CONNECTION);
        h2o_gate_hold(gate);
    }
}

static void watch_start(struct listener_request *request)
{
    h2o_socket_t *socket = request->req->conn->callbacks->get_socket(request->req->conn);
    int fd = fcntl(h2o_socket_get_fd(socket), F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return; // without it the hang-up is noticed at the next write
    struct listener_watch *watch = mem_zalloc(sizeof *watch);
    watch->fd = fd;
    watch->request = request;
    watch->poll.data = watch;
    if (uv_poll_init(loop_uv(request->listener->loop), &watch->poll, fd) != 0) {
        close(fd);
        mem_free(watch);
        return;
    }
    request->watch = watch;
    uv_poll_start(&watch->poll, UV_DISCONNECT, on_watch);
}

static struct str iov_str(h2o_iovec_t iov)
{
    return str_of(iov.base, iov.len);
}

struct str listener_request_method(const struct listener_request *request)
{
    return iov_str(request->req->input.method);
}

struct str listener_request_target(const struct listener_request *request)
{
    return iov_str(request->req->input.path);
}

struct str listener_request_host(const struct listener_request *request)
{
    return iov_str(request->req->input.authority);
}

struct str listener_request_body(const struct listener_request *request)
{
    return request->req->entity.base ? iov_str(request->req->entity) : STR_EMPTY;
}

struct str listener_request_header(const struct listener_request *request, struct str name)
{
    struct str found = STR_EMPTY;
    size_t times = 0;
    for (size_t i = 0; i < request->req->headers.size; i++) {
        if (!str_eq_nocase(iov_str(*request->req->headers.entries[i].name), name)) continue;
        found = iov_str(request->req->headers.entries[i].value);
        times++;
    }
    return times == 1 ? found : STR_EMPTY;
}

bool listener_request_has_body(const struct listener_request *request)
{
    return request->gate->has_body;
}

struct str listener_request_trailers(const struct listener_request *request)
{
    return strbuf_str(&request->gate->trailers);
}

bool listener_request_is_http11(const struct listener_request *request)
{
    return request->req->version >= 0x101;
}

bool listener_request_take_account(struct listener_request *request, struct connection_limiter *accounts,
                                   struct str account_id)
{
    struct listener_connection *connection = request->gate->ctx;
    if (!accounts || (connection->accounts && str_eq(account_id, str_c(connection->account)))) return true;
    if (account_id.len >= sizeof connection->account || !connection_limiter_enter(accounts, account_id)) return false;
    if (connection->accounts) connection_limiter_leave(connection->accounts, str_c(connection->account));
    connection->accounts = accounts;
    snprintf(connection->account, sizeof connection->account, "%.*s", STR_ARG(account_id));
    return true;
}

void listener_request_be_last(struct listener_request *request)
{
    request->req->http1_is_persistent = 0;
}

size_t listener_request_header_count(const struct listener_request *request)
{
    return request->req->headers.size;
}

struct http_header listener_request_header_at(const struct listener_request *request, size_t i)
{
    const h2o_header_t *header = &request->req->headers.entries[i];
    return (struct http_header){iov_str(*header->name), iov_str(header->value)};
}

struct str listener_request_peer(const struct listener_request *request)
{
    return str_c(request->peer);
}

struct str listener_request_id(const struct listener_request *request)
{
    return str_c(request->id);
}

void listener_request_on_gone(struct listener_request *request, loop_fn on_gone, void *arg, bool watch)
{
    request->on_gone = on_gone;
    request->on_gone_arg = arg;
    if (watch && on_gone && !request->watch) watch_start(request);
}

// h2o keeps views of header texts: they are copied into the request's pool.
static void add_header(h2o_req_t *req, struct str name, struct str value)
{
    h2o_iovec_t n = h2o_strdup(&req->pool, name.at, name.len);
    h2o_iovec_t v = h2o_strdup(&req->pool, value.at ? value.at : "", value.len);
    h2o_add_header_by_str(&req->pool, &req->res.headers, n.base, n.len, 1, NULL, v.base, v.len);
}

static void set_head(struct listener_request *request, int status, const struct http_header *headers, size_t count)
{
    h2o_req_t *req = request->req;
    request->status = status;
    req->res.status = status;
    req->res.reason = http_reason(status);
    for (size_t i = 0; i < count; i++)
        add_header(req, headers[i].name, headers[i].value);
    add_header(req, STR("x-request-id"), str_c(request->id));
    if (request->listener->options.tls && request->listener->options.hsts_max_age_ms) {
        char value[32];
        int len = snprintf(value, sizeof value, "max-age=%llu",
                           (unsigned long long)(request->listener->options.hsts_max_age_ms / 1000));
        add_header(req, STR("strict-transport-security"), str_of(value, (size_t)len));
    }
    if (request->listener->stopped || request->listener->winding_down) req->http1_is_persistent = 0;
}

static void answer(struct listener_request *request, int status, const struct http_header *headers, size_t count,
                   struct str body)
{
    h2o_req_t *req = request->req;
    struct h2o_gate *gate = request->gate;
    set_head(request, status, headers, count);
    request_over(request);
    req->res.content_length = body.len;
    // Copies the body into the pool, so that the caller's memory is free at once.
    h2o_send_inline(req, body.at ? body.at : "", body.len);
    h2o_gate_hold(gate);
}

void listener_request_answer(struct listener_request *request, int status, const char *content_type,
                             const struct http_header *headers, size_t header_count, struct str body)
{
    struct http_header all[ANSWER_HEADERS_MAX];
    size_t count = 0;
    if (request->over) return;
    assert(header_count <= ANSWER_HEADERS_MAX - 3);
    while (count < header_count) {
        all[count] = headers[count];
        count++;
    }
    if (content_type) all[count++] = (struct http_header){STR("content-type"), str_c(content_type)};
    all[count++] = (struct http_header){STR("x-content-type-options"), STR("nosniff")};
    all[count++] = (struct http_header){STR("cache-control"), STR("no-store")};
    answer(request, status, all, count, body);
}

void listener_request_answer_bare(struct listener_request *request, int status, const struct http_header *headers,
                                  size_t header_count, struct str body)
{
    if (!request->over) answer(request, status, headers, header_count, body);
}

void listener_request_problem(struct listener_request *request, const struct http_problem *problem,
                              const struct http_header *more, size_t more_count)
{
    struct http_header headers[HTTP_PROBLEM_HEADERS_MAX + ANSWER_HEADERS_MAX];
    char retry_after[HTTP_PROBLEM_RETRY_BYTES];
    struct strbuf body;
    struct http_problem whole = *problem;
    if (request->over) return;
    assert(more_count <= ANSWER_HEADERS_MAX);
    whole.request_id = str_c(request->id);
    strbuf_init(&body, HTTP_PROBLEM_BYTES_MAX);
    http_problem_write(&whole, &body);
    size_t count = http_problem_headers(&whole, retry_after, headers);
    for (size_t i = 0; i < more_count; i++)
        headers[count++] = more[i];
    answer(request, whole.status, headers, count, strbuf_str(&body));
    strbuf_finish(&body);
}

static void on_proceed(h2o_generator_t *generator, h2o_req_t *req)
{
    struct listener_request *request = (struct listener_request *)generator;
    request->sending = false;
    if (request->cut)
        h2o_send(req, NULL, 0, H2O_SEND_STATE_ERROR);
    else if (!request->over && request->on_ready)
        request->on_ready(request->on_ready_arg);
}

static void on_stop(h2o_generator_t *generator, h2o_req_t *req)
{
    (void)req;
    request_gone((struct listener_request *)generator);
}

void listener_request_start(struct listener_request *request, int status, uint64_t content_length,
                            const struct http_header *headers, size_t header_count, loop_fn on_ready, void *arg)
{
    if (request->over) return;
    set_head(request, status, headers, header_count);
    request->req->res.content_length = content_length == UINT64_MAX ? SIZE_MAX : (size_t)content_length;
    request->on_ready = on_ready;
    request->on_ready_arg = arg;
    request->started = request->sending = true;
    request->generator = (h2o_generator_t){.proceed = on_proceed, .stop = on_stop};
    struct h2o_gate *gate = request->gate;
    h2o_start_response(request->req, &request->generator);
    h2o_send(request->req, NULL, 0, H2O_SEND_STATE_IN_PROGRESS); // the head leaves at once
    h2o_gate_hold(gate);
}

void listener_request_write(struct listener_request *request, struct str piece)
{
    if (request->over) return;
    assert(piece.len && !request->sending);
    request->sending = true;
    struct h2o_gate *gate = request->gate;
    if (!request->listener->accept.ssl_ctx) {
        mem_free(request->held);
        request->held = mem_strndup(piece.at, piece.len);
        piece.at = request->held;
    }
    h2o_iovec_t iov = h2o_iovec_init(piece.at, piece.len);
    h2o_send(request->req, &iov, 1, H2O_SEND_STATE_IN_PROGRESS);
    h2o_gate_hold(gate);
}

void listener_request_end(struct listener_request *request)
{
    if (request->over) return;
    assert(!request->sending);
    struct h2o_gate *gate = request->gate;
    request_over(request);
    h2o_send(request->req, NULL, 0, H2O_SEND_STATE_FINAL);
    h2o_gate_hold(gate);
}

void listener_request_abort(struct listener_request *request)
{
    if (request->over) return;
    request_over(request);
    cut(request);
}

static void note_peer(struct listener_request *request)
{
    struct sockaddr_storage address;
    socklen_t len = request->req->conn->callbacks->get_peername(request->req->conn, (struct sockaddr *)&address);
    if (len == 0) return;
    uv_ip_name((struct sockaddr *)&address, request->peer, sizeof request->peer);
}

static bool is_past_gate(struct listener_request *request)
{
    return !h2o_gate_take_ticket(request->gate);
}

// The gate's refusal, in the place of the request that was refused.
static void answer_refusal(struct listener_request *request, int status, const char *code, const char *reason)
{
    const struct http_problem problem = {.status = status, .code = code, .detail = str_c(reason)};
    const struct http_header cause = {STR("culvert-cause"), str_c(code)};
    request->req->http1_is_persistent = 0;
    listener_request_problem(request, &problem, &cause, 1);
}

int h2o_request_on_handler(h2o_handler_t *handler, h2o_req_t *req)
{
    struct h2o_listener *listener = ((struct listener_handler *)handler)->listener;
    struct listener_request *request = h2o_mem_alloc_shared(&req->pool, sizeof *request, on_request_disposed);
    memset(request, 0, sizeof *request);
    request->req = req;
    request->listener = listener;
    request->gate = h2o_gate_of(req);
    request->since_us = clock_mono_us();
    note_peer(request);
    struct str id = listener_request_header(request, STR("x-request-id"));
    if (request->gate->refusal) id = str_c(request->gate->request_id);
    if (request_id_is_sound(id))
        snprintf(request->id, sizeof request->id, "%.*s", STR_ARG(id));
    else
        id_uuid7(request->id);
    listener->requests++;
    metric_move(listener->in_flight, 1);
    if (is_past_gate(request)) {
        answer_refusal(request, 400, "bad-request", "data after the request");
    } else if (request->gate->refusal) {
        answer_refusal(request, request->gate->refusal, request->gate->code, request->gate->reason.text);
    } else {
        // h2o looks at the last Connection line only, and for one word only.
        req->http1_is_persistent = request->gate->keep_alive && !listener->stopped;
        listener->options.on_request(listener->options.ctx, request);
    }
    return 0;
}
