#include "server/http/api_listener.h"

#include "api/api.h"
#include "base/mem.h"
#include "server/http/runtime_proxy.h"
#include "server/ui/ui_site.h"

struct api_listener {
    struct api *api;
    const struct ui_files *ui;
    struct h2o_listener *listener;
    struct runtime_proxy *proxy;
    loop_fn on_closed;
    void *on_closed_arg;
};

// A request whose answer the API still owes; it outlives the listener's request when the client
// leaves.
struct owed {
    struct listener_request *request; // NULL: the client left
};

static void on_gone(void *arg)
{
    ((struct owed *)arg)->request = NULL;
}

// A response that goes on.
struct listener_stream {
    struct api_stream stream;
    struct listener_request *request;
};

static void on_stream_gone(void *arg)
{
    struct listener_stream *stream = arg;
    stream->stream.on_gone(stream->stream.arg);
    mem_free(stream);
}

static void on_stream_ready(void *arg)
{
    struct listener_stream *stream = arg;
    stream->stream.on_ready(stream->stream.arg);
}

static void stream_write(struct api_stream *stream, struct str piece)
{
    listener_request_write(((struct listener_stream *)stream)->request, piece);
}

static void stream_end(struct api_stream *stream, bool is_cut)
{
    struct listener_stream *listener_stream = (struct listener_stream *)stream;
    listener_request_on_gone(listener_stream->request, NULL, NULL, false);
    if (is_cut)
        listener_request_abort(listener_stream->request);
    else
        listener_request_end(listener_stream->request);
    mem_free(listener_stream);
}

static void start_stream(struct listener_request *request, const struct api_http_response *response)
{
    struct http_header headers[API_RESPONSE_HEADERS_MAX + 3];
    size_t count = 0;
    for (; count < response->header_count; count++)
        headers[count] = response->headers[count];
    headers[count++] = (struct http_header){STR("content-type"), str_c(response->content_type)};
    headers[count++] = (struct http_header){STR("x-content-type-options"), STR("nosniff")};
    headers[count++] = (struct http_header){STR("cache-control"), STR("no-store")};
    struct listener_stream *stream = mem_zalloc(sizeof *stream);
    stream->stream.write = stream_write;
    stream->stream.end = stream_end;
    stream->request = request;
    response->on_stream(response->stream_arg, &stream->stream);
    listener_request_on_gone(request, on_stream_gone, stream, true);
    listener_request_start(request, response->status, UINT64_MAX, headers, count, on_stream_ready, stream);
}

static void on_responded(void *arg, const struct api_http_response *response)
{
    struct owed *owed = arg;
    if (response->on_stream) {
        if (owed->request)
            start_stream(owed->request, response);
        else
            response->on_stream(response->stream_arg, NULL);
    } else if (owed->request) {
        if (response->problem)
            listener_request_problem(owed->request, response->problem, response->headers, response->header_count);
        else
            listener_request_answer(owed->request, response->status, response->content_type, response->headers,
                                    response->header_count, response->body);
    }
    mem_free(owed);
}

static void answer_plain(struct listener_request *request, struct str path)
{
    if (str_eq(path, STR("/")))
        listener_request_answer(request, 200, "text/plain; charset=utf-8", NULL, 0,
                                STR("Culvert " CULVERT_VERSION "\nGraphQL: POST /2.0/api/graphql\n"));
    else
        listener_request_problem(
            request,
            &(struct http_problem){.status = 404, .code = "not_found", .detail = STR("no resource at this path")}, NULL,
            0);
}

static void on_request(void *ctx, struct listener_request *request)
{
    struct api_listener *listener = ctx;
    struct str target = ui_site_local_path(listener->ui, listener_request_target(request)), query = target, path;
    str_cut(&query, '?', &path);
    if (str_starts(path, STR("/runtimes/"))) {
        runtime_proxy_take(listener->proxy, request, target);
        return;
    }
    if (ui_site_take(listener->ui, request, path)) return;
    if (!api_has_path(path)) {
        answer_plain(request, path);
        return;
    }
    struct owed *owed = mem_alloc(sizeof *owed);
    owed->request = request;
    listener_request_on_gone(request, on_gone, owed, false);
    struct api_http_request http = {
        .method = listener_request_method(request),
        .path = path,
        .query = query,
        .authorization = listener_request_header(request, STR("authorization")),
        .x_access_token = listener_request_header(request, STR("x-access-token")),
        .content_type = listener_request_header(request, STR("content-type")),
        .content_encoding = listener_request_header(request, STR("content-encoding")),
        .cookie = listener_request_header(request, STR("cookie")),
        .csrf_token = listener_request_header(request, STR("x-csrf-token")),
        .sec_fetch_site = listener_request_header(request, STR("sec-fetch-site")),
        .last_event_id = listener_request_header(request, STR("last-event-id")),
        .user_agent = listener_request_header(request, STR("user-agent")),
        .if_none_match = listener_request_header(request, STR("if-none-match")),
        .idempotency_key = listener_request_header(request, STR("idempotency-key")),
        .mcp_protocol_version = listener_request_header(request, STR("mcp-protocol-version")),
        .accept = listener_request_header(request, STR("accept")),
        .accept_encoding = listener_request_header(request, STR("accept-encoding")),
        .request_id = listener_request_id(request),
        .remote = listener_request_peer(request),
        .body = listener_request_body(request),
    };
    api_handle(listener->api, &http, on_responded, owed);
}

struct api_listener *api_listener_create(struct loop *loop, const struct api_listener_options *options,
                                         struct error *err)
{
    struct api_listener *listener = mem_zalloc(sizeof *listener);
    struct h2o_listener_options http = options->http;
    http.on_request = on_request;
    http.ctx = listener;
    listener->api = options->api;
    listener->ui = options->ui;
    listener->proxy = runtime_proxy_create(loop, &options->calls, options->accounts, err);
    if (listener->proxy) listener->listener = h2o_listener_create(loop, &http, err);
    if (listener->listener) return listener;
    runtime_proxy_destroy(listener->proxy);
    mem_free(listener);
    return NULL;
}

void api_listener_set_tls(struct api_listener *listener, SSL_CTX *tls)
{
    h2o_listener_set_tls(listener->listener, tls);
}

void api_listener_wind_down(struct api_listener *listener)
{
    h2o_listener_wind_down(listener->listener);
}

void api_listener_stop_accepting(struct api_listener *listener)
{
    h2o_listener_stop_accepting(listener->listener);
}

bool api_listener_is_idle(const struct api_listener *listener)
{
    return h2o_listener_is_idle(listener->listener);
}

static void on_listener_closed(void *arg)
{
    struct api_listener *listener = arg;
    runtime_proxy_close(listener->proxy, listener->on_closed, listener->on_closed_arg);
}

void api_listener_close(struct api_listener *listener, loop_fn on_closed, void *arg)
{
    listener->on_closed = on_closed;
    listener->on_closed_arg = arg;
    h2o_listener_close(listener->listener, on_listener_closed, listener);
}

void api_listener_destroy(struct api_listener *listener)
{
    if (!listener) return;
    h2o_listener_destroy(listener->listener);
    runtime_proxy_destroy(listener->proxy);
    mem_free(listener);
}
