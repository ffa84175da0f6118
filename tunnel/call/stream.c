#include "tunnel/call/stream.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "tunnel/call/cause.h"
#include "tunnel/call/stream_kept.h"
#include "tunnel/call/stream_request.h"

static void stream_account(struct tunnel_stream *stream, int64_t bytes)
{
    struct tunnel_session *session = stream->session;
    uint64_t less = bytes < 0 ? (uint64_t)-bytes : 0;
    assert(less <= stream->unconsumed && less <= session->buffered_bytes);
    assert(less <= session->tenant->buffered_bytes && less <= session->node->buffered_bytes);
    stream->unconsumed = (uint64_t)((int64_t)stream->unconsumed + bytes);
    session->buffered_bytes = (uint64_t)((int64_t)session->buffered_bytes + bytes);
    session->tenant->buffered_bytes = (uint64_t)((int64_t)session->tenant->buffered_bytes + bytes);
    session->node->buffered_bytes = (uint64_t)((int64_t)session->node->buffered_bytes + bytes);
    metric_move(session->node->broker->meter.buffered_bytes, bytes);
}

void tunnel_stream_set_request(struct tunnel_stream *stream, enum tunnel_stream_request_state request)
{
    assert(request == stream->request + 1); // they come in the order of the enum
    stream->request = request;
}

static void stream_set_response(struct tunnel_stream *stream, enum tunnel_stream_response_state response)
{
    // clang-format off
    static const unsigned allowed[] = {
        [TUNNEL_STREAM_RESPONSE_AWAITED] = 1u << TUNNEL_STREAM_RESPONSE_STARTED |
                                           1u << TUNNEL_STREAM_RESPONSE_UPGRADED |
                                           1u << TUNNEL_STREAM_RESPONSE_REFUSED,
        [TUNNEL_STREAM_RESPONSE_STARTED] = 1u << TUNNEL_STREAM_RESPONSE_COMPLETE,
        [TUNNEL_STREAM_RESPONSE_COMPLETE] = 0,
        [TUNNEL_STREAM_RESPONSE_UPGRADED] = 1u << TUNNEL_STREAM_RESPONSE_HALF_CLOSED,
        [TUNNEL_STREAM_RESPONSE_HALF_CLOSED] = 0,
        [TUNNEL_STREAM_RESPONSE_REFUSED] = 0,
    };
    // clang-format on
    assert(allowed[stream->response] & 1u << response);
    stream->response = response;
}

static bool stream_is_remote_ended(const struct tunnel_stream *stream)
{
    return stream->response == TUNNEL_STREAM_RESPONSE_COMPLETE ||
           stream->response == TUNNEL_STREAM_RESPONSE_HALF_CLOSED;
}

// Windows count by what they have above the first.
static void stream_account_window(struct tunnel_stream *stream, uint32_t before, uint32_t after)
{
    uint64_t granted = before > WIRE_WINDOW_BYTES ? before - WIRE_WINDOW_BYTES : 0;
    uint64_t grants = after > WIRE_WINDOW_BYTES ? after - WIRE_WINDOW_BYTES : 0;
    stream->session->window_bytes += grants - granted;
    stream->session->tenant->window_bytes += grants - granted;
    stream->session->node->window_bytes += grants - granted;
}

static void stream_count(struct tunnel_stream *stream, int by)
{
    if (stream->is_reports) return;
    struct tunnel_session *session = stream->session;
    assert(by > 0 || (session->stream_count > 0 && session->tenant->stream_count > 0));
    session->stream_count = (unsigned)((int)session->stream_count + by);
    session->tenant->stream_count = (unsigned)((int)session->tenant->stream_count + by);
    if (session->entry)
        atomic_store_explicit(&session->entry->streams_open, session->stream_count, memory_order_relaxed);
    metric_move(session->node->broker->meter.streams_open, by);
    if (by > 0) tunnel_session_wake(session); // its time-outs are looked at by ticks
}

// From here on nobody is told anything, and nothing counts against the budgets.
static void stream_detach(struct tunnel_stream *stream)
{
    struct tunnel_session *session = stream->session;
    assert(stream->events); // once
    stream->events = NULL;
    stream_account(stream, -(int64_t)stream->unconsumed);
    stream_account_window(stream, stream->window.bytes, 0);
    wire_window_init(&stream->window, 0);
    turn_remove(&session->node->turn, &stream->turn);
    tunnel_stream_stop_sending(stream);
    stream_kept_drop(stream);
    stream_count(stream, -1);
    tunnel_session_check_finish(session);
}

static void stream_free(struct tunnel_stream *stream)
{
    if (stream->events) stream_detach(stream);
    *stream->link = stream->next;
    if (stream->next) stream->next->link = stream->link;
    mem_free(stream);
}

// The labels are of closed sets: neither callers nor agents can make up series.
static void stream_meter(const struct tunnel_stream *stream, const char *code)
{
    if (stream->is_reports) return;
    struct tunnel_node *node = stream->session->node;
    bool is_of_service =
        stream->response != TUNNEL_STREAM_RESPONSE_AWAITED && stream->response != TUNNEL_STREAM_RESPONSE_REFUSED;
    const char *route = is_of_service ? stream->route : "";
    metric_add(tunnel_meter_streams(&node->broker->meter, &node->meter_cache, route, code), 1);
}

void tunnel_stream_reset(struct tunnel_stream *stream, uint32_t code)
{
    nghttp2_submit_rst_stream(stream->session->h2, NGHTTP2_FLAG_NONE, stream->id, code);
    tunnel_session_wants_write(stream->session);
    metric_add(metric_with(stream->session->node->broker->meter.resets, nghttp2_http2_strerror(code), "platform"), 1);
}

static void stream_tell_fail(struct tunnel_stream *stream, enum tunnel_cause cause, const char *detail)
{
    const struct tunnel_stream_events *events = stream->events;
    stream_meter(stream, tunnel_cause_name(cause));
    stream_detach(stream);
    events->exchange->on_fail(stream->arg, cause, detail);
}

// The agent did nothing with it. What was sent of a body is not there to be sent again, so that such a call fails.
static void stream_tell_untouched(struct tunnel_stream *stream, enum tunnel_cause cause, const char *detail)
{
    const struct tunnel_stream_events *events = stream->events;
    struct relay_message *back = stream_kept_give_back(stream);
    if (!back) {
        stream_tell_fail(stream, cause, detail);
        return;
    }
    stream_detach(stream);
    events->on_back(stream->arg, back, cause, detail);
}

// ---- credit --------------------------------------------------------------------------------------------------

static uint64_t credit_left(uint64_t most, uint64_t used)
{
    return most > used ? most - used : 0;
}

static uint64_t tenant_bytes_max(const struct tunnel_options *options)
{
    return options->account_buffered_bytes_max ? options->account_buffered_bytes_max : UINT64_MAX;
}

// What a window may have. Growth gets only what the budgets have left once every stream may fill its first window; the
// budget is what growth may use, and calls are refused at twice of it, so that slow readers alone, who never get more
// than that first window, shut out nobody. Under pressure windows give back what they have above the least.
static uint64_t stream_window_max(const struct tunnel_stream *stream)
{
    const struct tunnel_session *session = stream->session;
    const struct tunnel_node *node = session->node;
    const struct tunnel_tenant *tenant = session->tenant;
    const struct tunnel_options *options = &node->broker->options;
    if (session->buffered_bytes >= 2 * options->buffered_bytes_max ||
        tenant->buffered_bytes >= tenant_bytes_max(options) || node->buffered_bytes >= options->node_buffered_bytes_max)
        return 0;
    uint64_t firsts = (uint64_t)session->stream_count * WIRE_WINDOW_BYTES;
    uint64_t here = credit_left(options->buffered_bytes_max, session->window_bytes + session->buffered_bytes + firsts);
    uint64_t all = credit_left(options->node_buffered_bytes_max, node->window_bytes + node->buffered_bytes + firsts);
    uint64_t theirs = (uint64_t)tenant->stream_count * WIRE_WINDOW_BYTES;
    uint64_t own = credit_left(tenant_bytes_max(options), tenant->window_bytes + tenant->buffered_bytes + theirs);
    if (own < all) all = own;
    return stream->window.bytes + (here < all ? here : all);
}

void tunnel_stream_consumed(struct tunnel_stream *stream, size_t len)
{
    assert(stream->events && len <= stream->unconsumed);
    if (len == 0) return;
    stream_account(stream, -(int64_t)len);
    uint64_t now_us = clock_mono_us();
    stream->consumer_at_ms = now_us / 1000;
    uint32_t before = stream->window.bytes;
    uint32_t credit =
        wire_window_consumed(&stream->window, len, now_us, stream->session->rtt.shortest_us, stream_window_max(stream));
    stream_account_window(stream, before, stream->window.bytes);
    if (!credit || stream_is_remote_ended(stream)) return;
    nghttp2_submit_window_update(stream->session->h2, NGHTTP2_FLAG_NONE, stream->id, (int32_t)credit);
    tunnel_session_wants_write(stream->session);
}

// ---- life ------------------------------------------------------------------------------------------------------

void tunnel_stream_cancel(struct tunnel_stream *stream)
{
    assert(stream->events);
    stream_meter(stream, tunnel_cause_name(TUNNEL_CAUSE_CANCELLED));
    tunnel_stream_reset(stream, NGHTTP2_CANCEL);
    stream_detach(stream);
}

// An account is refused at its share, also for first windows that would fill the node if its callers let them: so one
// account alone never has what all are refused at.
static bool stream_tenant_has_room(const struct tunnel_session *session)
{
    const struct tunnel_options *options = &session->node->broker->options;
    if (!options->account_buffered_bytes_max) return true;
    return session->tenant->buffered_bytes < options->account_buffered_bytes_max &&
           (uint64_t)session->tenant->stream_count * WIRE_WINDOW_BYTES < options->node_buffered_bytes_max;
}

static enum tunnel_cause stream_admit(struct tunnel_session *session, bool is_reports, struct error *err)
{
    const struct tunnel_options *options = &session->node->broker->options;
    if (session->state != TUNNEL_SESSION_OPEN || !nghttp2_session_check_request_allowed(session->h2)) {
        (void)error_set(err, ERROR_UNAVAILABLE, "the session no longer accepts calls");
        return TUNNEL_CAUSE_NO_TUNNEL;
    }
    if (is_reports) return TUNNEL_CAUSE_NONE;
    uint32_t theirs = nghttp2_session_get_remote_settings(session->h2, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    const char *what = NULL;
    if (session->stream_count >= options->streams_max || session->stream_count + 1 >= theirs)
        what = "the session has as many calls as it may";
    else if (session->buffered_bytes >= 2 * options->buffered_bytes_max)
        what = "the session buffers as much as it may";
    else if (session->node->buffered_bytes >= 2 * options->node_buffered_bytes_max)
        what = "this replica buffers as much as it may";
    else if (!stream_tenant_has_room(session))
        what = "the account has as much open here as it may";
    if (!what) return TUNNEL_CAUSE_NONE;
    if (!stream_tenant_has_room(session)) metric_add(session->node->broker->meter.account_denied, 1);
    metric_add(session->node->broker->meter.budget_denied, 1);
    (void)error_set(err, ERROR_UNAVAILABLE, "%s", what);
    return TUNNEL_CAUSE_OVERLOADED;
}

static struct tunnel_stream *stream_create(struct tunnel_session *session, const struct tunnel_request *request,
                                           bool is_reports, const struct tunnel_stream_events *events, void *arg)
{
    const struct tunnel_options *options = &session->node->broker->options;
    struct tunnel_stream *stream = mem_zalloc(sizeof(*stream));
    uint64_t now_us = clock_mono_us();
    stream->session = session;
    stream->events = events;
    stream->arg = arg;
    stream->is_reports = is_reports;
    stream->is_connect = stream->is_long = str_eq(request->method, STR("CONNECT"));
    if (request->end_stream) tunnel_stream_set_request(stream, TUNNEL_STREAM_REQUEST_ENDED);
    stream->route = stream_request_route(request);
    wire_window_init(&stream->window, now_us);
    stream->consumer_at_ms = stream->agent_at_ms = clock_mono_ms();
    stream->head_by_ms = request->head_timeout_ms ? request->head_timeout_ms : options->head_timeout_ms;
    tunnel_stream_begin_sending(stream, is_reports ? WIRE_URGENCY_CONTROL : stream_request_urgency(request), now_us);
    stream->next = session->streams;
    stream->link = &session->streams;
    if (stream->next) stream->next->link = &stream->next;
    session->streams = stream;
    stream_count(stream, 1);
    return stream;
}

struct tunnel_stream *tunnel_stream_open(struct tunnel_session *session, const struct tunnel_request *request,
                                         bool is_reports, const struct tunnel_stream_events *events, void *arg,
                                         enum tunnel_cause *out_cause, struct error *err)
{
    *out_cause = stream_admit(session, is_reports, err);
    if (*out_cause) return NULL;
    struct stream_request fields;
    if (stream_request_init(&fields, session, request, is_reports, err)) {
        *out_cause = TUNNEL_CAUSE_UPSTREAM_FAILED;
        return NULL;
    }
    struct tunnel_stream *stream = stream_create(session, request, is_reports, events, arg);
    nghttp2_data_provider body = {.source.ptr = stream, .read_callback = tunnel_stream_read};
    stream->id = nghttp2_submit_request(session->h2, NULL, fields.fields, fields.count,
                                        request->end_stream ? NULL : &body, stream);
    stream_request_finish(&fields);
    if (stream->id < 0) {
        (void)error_set(err, ERROR_UNAVAILABLE, "%s", nghttp2_strerror(stream->id));
        *out_cause = TUNNEL_CAUSE_NO_TUNNEL; // stream ids have run out, or GOAWAY has come
        stream_free(stream);
        return NULL;
    }
    tunnel_session_wants_write(session);
    return stream;
}

// ---- the response --------------------------------------------------------------------------------------------

static struct str stream_header(const struct http_header *headers, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(headers[i].name, name)) return headers[i].value;
    return STR_EMPTY;
}

static void stream_take_info(struct tunnel_stream *stream, int status)
{
    if (++stream->infos <= TUNNEL_INFOS_MAX) {
        const struct exchange_events *to = stream->events->exchange;
        if (to->on_info) to->on_info(stream->arg, status);
        return;
    }
    tunnel_stream_reset(stream, NGHTTP2_PROTOCOL_ERROR);
    stream_tell_fail(stream, TUNNEL_CAUSE_UPSTREAM_FAILED, "too many informational answers");
}

void tunnel_stream_take_head(struct tunnel_stream *stream, int status, const struct http_header *headers, size_t count)
{
    if (!stream->events) return;
    stream_kept_drop(stream);
    if (stream->response != TUNNEL_STREAM_RESPONSE_AWAITED) {
        const struct exchange_events *to = stream->events->exchange;
        if (to->on_trailers) to->on_trailers(stream->arg, headers, count);
        return;
    }
    if (status < 200) {
        stream_take_info(stream, status);
        return;
    }
    stream->status = status;
    if (str_starts_nocase(stream_header(headers, count, STR("content-type")), STR("text/event-stream")))
        stream->is_long = true;
    enum tunnel_cause cause = TUNNEL_CAUSE_NONE;
    if (status >= 400) cause = tunnel_cause_parse(stream_header(headers, count, STR(WIRE_HEADER_CAUSE)));
    if (!cause) {
        bool is_upgrade = stream->is_connect && status < 300;
        stream_set_response(stream, is_upgrade ? TUNNEL_STREAM_RESPONSE_UPGRADED : TUNNEL_STREAM_RESPONSE_STARTED);
        stream->events->exchange->on_head(stream->arg, status, headers, count);
        return;
    }
    char detail[64];
    snprintf(detail, sizeof(detail), "the agent answered %d %s", status, tunnel_cause_name(cause));
    stream_set_response(stream, TUNNEL_STREAM_RESPONSE_REFUSED);
    tunnel_stream_reset(stream, NGHTTP2_CANCEL);
    stream_tell_fail(stream, cause, detail);
}

void tunnel_stream_take_data(struct tunnel_stream *stream, const uint8_t *at, size_t len)
{
    if (!stream->events) return; // the connection's window was credited; this stream's is of no use any more
    if (stream->unconsumed == 0) stream->consumer_at_ms = clock_mono_ms();
    wire_window_received(&stream->window, stream->events->is_elsewhere ? 0 : stream->unconsumed);
    stream_account(stream, (int64_t)len);
    stream->events->exchange->on_data(stream->arg, at, len);
}

void tunnel_stream_take_end(struct tunnel_stream *stream)
{
    if (!stream->events) return;
    switch (stream->response) {
    case TUNNEL_STREAM_RESPONSE_STARTED: stream_set_response(stream, TUNNEL_STREAM_RESPONSE_COMPLETE); return;
    case TUNNEL_STREAM_RESPONSE_UPGRADED:
        stream_set_response(stream, TUNNEL_STREAM_RESPONSE_HALF_CLOSED);
        if (stream->events->exchange->on_half_end) stream->events->exchange->on_half_end(stream->arg);
        return;
    default: return; // without a head nothing has been answered: the stream's close fails the call
    }
}

// RFC 9113 section 8.7: the agent did nothing with it. nghttp2 says so, too, of HEADERS that it did not send because of
// a GOAWAY, and of streams above the last one that a GOAWAY names.
static void stream_tell_refused(struct tunnel_stream *stream, const char *detail)
{
    bool leaving = !nghttp2_session_check_request_allowed(stream->session->h2);
    stream_tell_untouched(stream, leaving ? TUNNEL_CAUSE_NO_TUNNEL : TUNNEL_CAUSE_OVERLOADED, detail);
}

void tunnel_stream_take_close(struct tunnel_stream *stream, uint32_t code)
{
    // An answer that was whole stays so, whatever becomes of the request. Of an upgraded connection the other half may
    // have broken after that end.
    bool whole = stream->response == TUNNEL_STREAM_RESPONSE_COMPLETE ||
                 (stream->response == TUNNEL_STREAM_RESPONSE_HALF_CLOSED && code == NGHTTP2_NO_ERROR);
    if (stream->events && whole) {
        const struct tunnel_stream_events *events = stream->events;
        char status[16];
        snprintf(status, sizeof(status), "%d", stream->status);
        stream_meter(stream, status);
        stream_detach(stream);
        events->exchange->on_end(stream->arg);
    } else if (stream->events) {
        char detail[96];
        snprintf(detail, sizeof(detail), "the agent reset the stream: %s", nghttp2_http2_strerror(code));
        metric_add(metric_with(stream->session->node->broker->meter.resets, nghttp2_http2_strerror(code), "agent"), 1);
        if (code == NGHTTP2_REFUSED_STREAM && stream->response == TUNNEL_STREAM_RESPONSE_AWAITED)
            stream_tell_refused(stream, detail);
        else
            stream_tell_fail(stream, TUNNEL_CAUSE_UPSTREAM_FAILED, detail);
    }
    stream_free(stream);
}

void tunnel_stream_lose(struct tunnel_stream *stream)
{
    if (stream->id > 0) {
        // Its HEADERS, if they wait, are dropped, and the agent stops at once: nothing is done after a revocation.
        nghttp2_submit_rst_stream(stream->session->h2, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
        nghttp2_session_set_stream_user_data(stream->session->h2, stream->id, NULL);
    }
    if (stream->events && stream->head_left)
        stream_tell_fail(stream, TUNNEL_CAUSE_TUNNEL_LOST, "the session ended under the call");
    else if (stream->events)
        stream_tell_untouched(stream, TUNNEL_CAUSE_NO_TUNNEL, "the session ended before the call had left");
    stream_free(stream);
}

void tunnel_stream_tick(struct tunnel_stream *stream, uint64_t now_ms)
{
    if (!stream->events || stream->is_reports) return;
    struct tunnel_meter *meter = &stream->session->node->broker->meter;
    enum tunnel_cause cause = TUNNEL_CAUSE_NONE;
    const char *detail = NULL;
    bool both_ended = stream_is_remote_ended(stream) && stream->request != TUNNEL_STREAM_REQUEST_OPEN;
    // An upload may take its time: the head is due so long after the last byte that left.
    if (stream->response == TUNNEL_STREAM_RESPONSE_AWAITED && now_ms >= stream->agent_at_ms + stream->head_by_ms) {
        cause = TUNNEL_CAUSE_HEAD_TIMEOUT;
        detail = "no response head in time";
    } else if (!stream->is_long && stream->unconsumed && now_ms >= stream->consumer_at_ms + TUNNEL_STALL_MS) {
        cause = TUNNEL_CAUSE_STALLED;
        detail = "the caller does not read data";
        metric_add(meter->stalled_platform, 1);
    } else if ((!stream->is_long || both_ended) && stream->queue.len &&
               now_ms >= stream->agent_at_ms + TUNNEL_STALL_MS) {
        cause = TUNNEL_CAUSE_STALLED;
        detail = "the service does not read data";
        metric_add(meter->stalled_agent, 1);
    }
    if (!cause) return;
    tunnel_stream_reset(stream, NGHTTP2_CANCEL);
    stream_tell_fail(stream, cause, detail);
}
