#include "agent/calls/proxy.h"

#include <stdio.h>

#include "agent/calls/answer.h"
#include "agent/calls/header_filter.h"
#include "agent/calls/upstream.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "tunnel/wire/handshake.h"

struct proxy_call {
    struct agent_stream *stream;
    struct upstream *upstream;         // one of the two, or neither once it failed
    struct upstream_http2_call *http2; // h2c
    size_t withheld;                   // bytes of the request body whose window was not given back
    bool websocket;                    // the service is asked to switch
    bool answered;                     // the head is out
};

// ---- either kind of service --------------------------------------------------------------------------------------

static void drop_upstream(struct proxy_call *call)
{
    upstream_destroy(call->upstream);
    upstream_http2_cancel(call->http2);
    call->upstream = NULL;
    call->http2 = NULL;
}

static bool write_upstream(struct proxy_call *call, const void *at, size_t len)
{
    if (call->http2) return upstream_http2_write(call->http2, at, len);
    return !call->upstream || upstream_write(call->upstream, at, len);
}

static void end_upstream(struct proxy_call *call, const struct http_header *trailers, size_t count)
{
    if (call->http2) upstream_http2_end(call->http2, trailers, count);
    if (call->upstream) upstream_end(call->upstream, trailers, count);
}

static void free_call(struct proxy_call *call)
{
    drop_upstream(call);
    mem_free(call);
}

// ---- from the service ------------------------------------------------------------------------------------------

static void on_info(void *arg, const struct http1_head *head)
{
    struct proxy_call *call = arg;
    struct http_header headers[HTTP1_HEADERS_MAX];
    size_t count = header_filter_answer(head->headers, head->header_count, false, headers);
    agent_stream_inform(call->stream, head->status, headers, count);
}

static void on_head(void *arg, const struct http1_head *head)
{
    struct proxy_call *call = arg;
    struct http_header headers[HTTP1_HEADERS_MAX];
    size_t count = header_filter_answer(head->headers, head->header_count, false, headers);
    int status = head->status;
    char said[12];
    call->answered = true;
    if (status == 101) {
        status = 200; // RFC 8441 section 5: 2xx to the extended CONNECT stands for 101
    } else if (call->websocket && status < 300) {
        snprintf(said, sizeof said, "%d", status);
        if (count == HTTP1_HEADERS_MAX) count--; // better one less of theirs
        headers[count++] = (struct http_header){STR(WIRE_HEADER_STATUS), str_c(said)};
        status = WIRE_STATUS_DECLINED;
    }
    agent_stream_respond(call->stream, status, headers, count, false);
}

static bool on_data(void *arg, const char *at, size_t len)
{
    struct proxy_call *call = arg;
    return agent_stream_write(call->stream, at, len);
}

static void on_end(void *arg, const struct http_header *trailers, size_t count)
{
    struct proxy_call *call = arg;
    struct http_header headers[HTTP1_HEADERS_MAX];
    size_t passed = header_filter_answer(trailers, count, true, headers);
    agent_stream_end(call->stream, headers, passed);
}

static void give_window(struct proxy_call *call)
{
    size_t bytes = call->withheld;
    call->withheld = 0;
    agent_stream_consumed(call->stream, bytes);
}

static void on_upstream_writable(void *arg)
{
    give_window(arg);
}

static void on_fail(void *arg, const struct error *err)
{
    struct proxy_call *call = arg;
    bool dial = err->code == ERROR_UNAVAILABLE;
    log_info("proxy", dial ? "dial_failed" : "upstream_failed", log_err(err),
             log_int("stream", agent_stream_id(call->stream)));
    drop_upstream(call);
    if (call->answered) {
        agent_stream_break(call->stream, AGENT_STREAM_INTERNAL_ERROR);
        return;
    }
    call->answered = true;
    agent_answer_cause(call->stream, 502, dial ? "dial-failed" : "upstream-failed", err->text);
    give_window(call);
}

// ---- from the tunnel -------------------------------------------------------------------------------------------

static void on_stream_data(void *arg, struct agent_stream *stream, const uint8_t *at, size_t len)
{
    struct proxy_call *call = arg;
    (void)stream;
    call->withheld += len;
    if (write_upstream(call, at, len)) give_window(call);
}

static void on_stream_end(void *arg, struct agent_stream *stream)
{
    struct proxy_call *call = arg;
    const struct http_header *trailers;
    struct http_header passed[HTTP1_HEADERS_MAX];
    size_t count = agent_stream_request_trailers(stream, &trailers);
    count = header_filter_request_trailers(trailers, count, passed);
    end_upstream(call, passed, count);
}

static void on_stream_writable(void *arg, struct agent_stream *stream)
{
    struct proxy_call *call = arg;
    (void)stream;
    if (call->upstream) upstream_resume(call->upstream);
    if (call->http2) upstream_http2_resume(call->http2);
}

static void on_stream_close(void *arg, struct agent_stream *stream, uint32_t code)
{
    (void)stream;
    (void)code;
    free_call(arg); // what the service is still doing for it is aborted
}

// ---- start -----------------------------------------------------------------------------------------------------

static bool choose_mode(const struct agent_stream_request *request, const struct agent_route *route,
                        enum upstream_mode *out)
{
    *out = str_eq(request->protocol, STR("websocket"))     ? UPSTREAM_WEBSOCKET
           : str_eq(request->protocol, STR("connect-tcp")) ? UPSTREAM_RAW
                                                           : UPSTREAM_HTTP;
    // Raw bytes to an HTTP service would go round the header rules.
    if (route->protocol == AGENT_ROUTE_H2C && *out != UPSTREAM_HTTP) return false; // RFC 8441 is not asked of services
    return (route->protocol == AGENT_ROUTE_TCP) == (*out == UPSTREAM_RAW);
}

void agent_proxy_start(struct upstream_pool *pool, struct upstream_http2 *http2, struct agent_stream *stream,
                       const struct agent_route *route)
{
    static const struct agent_stream_events stream_events = {
        .on_data = on_stream_data,
        .on_end = on_stream_end,
        .on_room = on_stream_writable,
        .on_close = on_stream_close,
    };
    static const struct upstream_events events = {
        .on_info = on_info,
        .on_head = on_head,
        .on_data = on_data,
        .on_end = on_end,
        .on_room = on_upstream_writable,
        .on_fail = on_fail,
    };
    const struct agent_stream_request *request = agent_stream_request(stream);
    struct http_header headers[HTTP1_HEADERS_MAX];
    struct upstream_request upstream_request = {
        .host = route->host,
        .port = route->port,
        .tls = route->protocol == AGENT_ROUTE_HTTPS,
        .method = request->method,
        .path = route->path,
        .headers = headers,
        .header_count = header_filter_request(request->headers, request->header_count, route->anonymous, headers),
        .has_body = !request->end_stream,
        .content_length = request->content_length,
    };
    struct proxy_call *call = mem_zalloc(sizeof(*call));
    call->stream = stream;
    agent_stream_attach(stream, &stream_events, call);
    if (!choose_mode(request, route, &upstream_request.mode)) {
        call->answered = true;
        agent_answer_cause(stream, 403, "not-allowed", "this service is not open to this protocol");
        return;
    }
    call->websocket = upstream_request.mode == UPSTREAM_WEBSOCKET;
    struct error err = {0};
    if (route->protocol == AGENT_ROUTE_H2C)
        call->http2 = upstream_http2_start(http2, &upstream_request, &events, call, &err);
    else
        call->upstream = upstream_start(pool, &upstream_request, &events, call, &err);
    if (call->upstream || call->http2) return;
    call->answered = true;
    bool full = err.code == ERROR_UNAVAILABLE;
    agent_answer_cause(stream, full ? 503 : 400, full ? "overloaded" : "no-route", err.text);
}
