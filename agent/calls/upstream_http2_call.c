#include "agent/calls/upstream_http2_call.h"

#include <stdio.h>
#include <string.h>

#include "base/http2/http2_session.h"
#include "base/mem.h"
#include "base/parse.h"

enum { NV_MAX = HTTP1_HEADERS_MAX + 8, ARENA_BYTES_MAX = 256 * 1024 };

// ---- end -------------------------------------------------------------------------------------------------------

static void maybe_free(struct upstream_http2_call *call)
{
    struct http2_connection *c = call->connection;
    if (!call->destroyed || call->depth) return;
    if (!call->closed && !c->dead) nghttp2_session_set_stream_user_data(c->h2, call->id, NULL);
    if (call->prev) call->prev->next = call->next;
    if (!call->prev) c->calls = call->next;
    if (call->next) call->next->prev = call->prev;
    byte_queue_finish(&call->body);
    arena_destroy(call->arena);
    mem_free(call);
    http2_connection_call_gone(c);
}

void http2_call_fail(struct upstream_http2_call *call, const struct error *err)
{
    call->closed = true;
    call->depth++;
    if (!call->over) {
        call->over = true;
        call->events.on_fail(call->arg, err);
    }
    call->depth--;
    maybe_free(call);
}

void upstream_http2_cancel(struct upstream_http2_call *call)
{
    if (!call) return;
    struct http2_connection *c = call->connection;
    bool finished = call->closed || c->dead;
    call->over = true;
    call->destroyed = true;
    c->depth++; // it may be the last call, and the connection is still needed
    if (!finished) nghttp2_submit_rst_stream(c->h2, NGHTTP2_FLAG_NONE, call->id, NGHTTP2_CANCEL);
    maybe_free(call);
    c->depth--;
    http2_connection_send(c);
}

// ---- the answer --------------------------------------------------------------------------------------------------

static struct upstream_http2_call *call_of(nghttp2_session *h2, int32_t id)
{
    struct upstream_http2_call *call = nghttp2_session_get_stream_user_data(h2, id);
    return call && !call->over ? call : NULL;
}

static void clear_head(struct upstream_http2_call *call)
{
    call->head.status = 0;
    call->head.header_count = 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct upstream_http2_call *call = call_of(h2, frame->hd.stream_id);
    (void)flags;
    (void)arg;
    if (!call) return 0;
    struct str n = str_of((const char *)name, name_len), v = str_of((const char *)value, value_len);
    call->head_bytes += n.len + v.len + 32;
    if (call->head_bytes > HTTP2_HEAD_BYTES_MAX) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (str_eq(n, STR(":status"))) {
        uint64_t status; // nghttp2 has checked that it is three digits
        if (parse_u64(v, 100, 999, &status, NULL)) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        call->head.status = (int)status;
        return 0;
    }
    if (call->head.header_count == HTTP1_HEADERS_MAX) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    call->head.headers[call->head.header_count++] =
        (struct http_header){arena_str(call->arena, n), arena_str(call->arena, v)};
    return 0;
}

static void finish(struct upstream_http2_call *call)
{
    size_t trailers = call->head.header_count;
    call->over = true;
    call->events.on_end(call->arg, call->head.headers, trailers);
}

static void on_head(struct upstream_http2_call *call, bool end)
{
    if (call->answered) { // trailers
        if (end) finish(call);
        return;
    }
    if (call->head.status < 200) {
        call->events.on_info(call->arg, &call->head);
        clear_head(call);
        return;
    }
    call->answered = true;
    call->events.on_head(call->arg, &call->head);
    clear_head(call);
    if (end && !call->over) finish(call);
}

static int on_frame_recv(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct http2_connection *c = arg;
    bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_GOAWAY) c->going_away = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    struct upstream_http2_call *call = call_of(h2, frame->hd.stream_id);
    if (!call) return 0;
    call->depth++;
    if (frame->hd.type == NGHTTP2_HEADERS)
        on_head(call, end);
    else if (end)
        finish(call);
    call->depth--;
    maybe_free(call);
    return 0;
}

static int on_data_chunk(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    struct upstream_http2_call *call = call_of(h2, id);
    (void)flags;
    (void)arg;
    nghttp2_session_consume_connection(h2, len); // only streams wait for those who read them
    if (!call) {
        nghttp2_session_consume_stream(h2, id, len);
        return 0;
    }
    call->depth++;
    call->withheld += len;
    // What is under way comes although it paused: the newest word counts, no resume follows a yes.
    call->paused = !call->events.on_data(call->arg, (const char *)at, len);
    if (!call->paused && !call->over) {
        nghttp2_session_consume_stream(h2, id, call->withheld);
        call->withheld = 0;
    }
    call->depth--;
    maybe_free(call);
    return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    struct http2_connection *c = arg;
    struct upstream_http2_call *call = nghttp2_session_get_stream_user_data(h2, id);
    struct error err = {0};
    if (!call) return 0;
    nghttp2_session_set_stream_user_data(h2, id, NULL);
    error_set(&err, code == NGHTTP2_REFUSED_STREAM && !call->answered ? ERROR_UNAVAILABLE : ERROR_PROTOCOL,
              "%s:%u: the service reset the call (%s)", c->host, (unsigned)c->port, nghttp2_http2_strerror(code));
    http2_call_fail(call, &err);
    return 0;
}

// ---- the request -------------------------------------------------------------------------------------------------

static ssize_t read_body(nghttp2_session *h2, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
                         nghttp2_data_source *source, void *arg)
{
    struct upstream_http2_call *call = source->ptr;
    (void)arg;
    if (!nghttp2_session_get_stream_user_data(h2, id)) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // the call is gone
    size_t queued = byte_queue_len(&call->body), n = queued < len ? queued : len;
    if (!queued && !call->body_ended) {
        call->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n) memcpy(buf, byte_queue_front(&call->body), n);
    byte_queue_drop(&call->body, n);
    if (call->body_ended && n == queued) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (call->trailer_count) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            nghttp2_submit_trailer(h2, id, call->trailers, call->trailer_count);
        }
    }
    if (call->full && byte_queue_len(&call->body) <= HTTP2_BODY_QUEUE_BYTES / 2) {
        call->full = false;
        call->events.on_room(call->arg);
    }
    return (ssize_t)n;
}

void http2_call_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}

static enum error_code submit(struct upstream_http2_call *call, const struct upstream_request *request,
                              struct error *err)
{
    nghttp2_nv nv[NV_MAX];
    char authority[300], length[24];
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_body};
    size_t n = 0;
    snprintf(authority, sizeof(authority), str_has_byte(request->host, ':') ? "[%.*s]:%u" : "%.*s:%u",
             STR_ARG(request->host), (unsigned)request->port);
    nv[n++] = http2_field(STR(":method"), request->method);
    nv[n++] = http2_field(STR(":scheme"), STR("http"));
    nv[n++] = http2_field(STR(":authority"), str_c(authority));
    nv[n++] = http2_field(STR(":path"), request->path);
    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *h = &request->headers[i];
        if (!http1_is_token(h->name) || !http1_is_field_value(h->value))
            return error_set(err, ERROR_INVALID, "a header cannot be written");
        nv[n++] = http2_field(h->name, h->value);
    }
    nv[n++] = http2_field(STR("te"), STR("trailers")); // RFC 9113 section 8.2.2; gRPC servers ask for it
    if (request->has_body && request->content_length >= 0) {
        int digits = snprintf(length, sizeof(length), "%lld", (long long)request->content_length);
        nv[n++] = http2_field(STR("content-length"), str_of(length, (size_t)digits));
    }
    call->id = nghttp2_submit_request(call->connection->h2, NULL, nv, n, request->has_body ? &body : NULL, call);
    return call->id > 0 ? ERROR_NONE : error_set(err, ERROR_INVALID, "%s", nghttp2_strerror(call->id));
}

struct upstream_http2_call *upstream_http2_start(struct upstream_http2 *http2, const struct upstream_request *request,
                                                 const struct upstream_events *events, void *arg, struct error *err)
{
    struct http2_connection *c = upstream_http2_choose(http2, request->host, request->port);
    if (!c) {
        error_set(err, ERROR_UNAVAILABLE, "%.*s:%u: too many calls", STR_ARG(request->host), (unsigned)request->port);
        return NULL;
    }
    struct upstream_http2_call *call = mem_zalloc(sizeof(*call));
    call->connection = c;
    call->events = *events;
    call->arg = arg;
    call->arena = arena_create(ARENA_BYTES_MAX);
    call->body_ended = !request->has_body;
    call->next = c->calls;
    if (call->next) call->next->prev = call;
    c->calls = call;
    c->call_count++;
    c->depth++;
    if (submit(call, request, err)) {
        call->closed = call->destroyed = true;
        maybe_free(call);
        call = NULL;
    }
    c->depth--;
    http2_connection_send(c);
    return call;
}

// ---- for the caller ------------------------------------------------------------------------------------------------

static void wake(struct upstream_http2_call *call)
{
    if (call->deferred) nghttp2_session_resume_data(call->connection->h2, call->id);
    call->deferred = false;
    http2_connection_send(call->connection);
}

bool upstream_http2_write(struct upstream_http2_call *call, const void *at, size_t len)
{
    if (call->closed || call->connection->dead || call->body_ended) return true; // of no interest any more
    byte_queue_add(&call->body, at, len);
    call->depth++;
    wake(call);
    call->full = !call->closed && byte_queue_len(&call->body) >= HTTP2_BODY_QUEUE_BYTES;
    bool room = !call->full;
    call->depth--;
    maybe_free(call);
    return room;
}

void upstream_http2_end(struct upstream_http2_call *call, const struct http_header *trailers, size_t count)
{
    if (call->closed || call->connection->dead || call->body_ended) return;
    call->body_ended = true;
    if (count) call->trailers = arena_array(call->arena, count, sizeof(*call->trailers));
    for (size_t i = 0; i < count; i++)
        call->trailers[call->trailer_count++] =
            http2_field(arena_str(call->arena, trailers[i].name), arena_str(call->arena, trailers[i].value));
    call->depth++;
    wake(call);
    call->depth--;
    maybe_free(call);
}

void upstream_http2_resume(struct upstream_http2_call *call)
{
    call->paused = false;
    if (call->closed || call->connection->dead || !call->withheld) return;
    nghttp2_session_consume_stream(call->connection->h2, call->id, call->withheld);
    call->withheld = 0;
    call->depth++;
    http2_connection_send(call->connection);
    call->depth--;
    maybe_free(call);
}
