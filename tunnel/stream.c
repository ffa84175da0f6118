#include "tunnel/stream.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tunnel/cause.h"
#include "tunnel/stream_request.h"

enum { GROW_ROUND_US_MIN = 10000 }; // faster rounds than this grow on any path

static void stream_account(struct tunnel_stream *stream, int64_t bytes)
{
    struct tunnel_session *session = stream->session;
    stream->unconsumed = (uint64_t)((int64_t)stream->unconsumed + bytes);
    session->buffered_bytes = (uint64_t)((int64_t)session->buffered_bytes + bytes);
    session->node->buffered_bytes = (uint64_t)((int64_t)session->node->buffered_bytes + bytes);
    metric_move(session->node->broker->meter.buffered_bytes, bytes);
}

static void stream_count(struct tunnel_stream *stream, int by)
{
    if (stream->is_reports) return;
    struct tunnel_session *session = stream->session;
    session->stream_count = (unsigned)((int)session->stream_count + by);
    if (session->entry)
        atomic_store_explicit(&session->entry->streams_open, session->stream_count, memory_order_relaxed);
    metric_move(session->node->broker->meter.streams_open, by);
}

// From here on nobody is told anything, and nothing counts against the budgets.
static void stream_detach(struct tunnel_stream *stream)
{
    struct tunnel_session *session = stream->session;
    stream->events = NULL;
    stream_account(stream, -(int64_t)stream->unconsumed);
    uint64_t granted = stream->window - TUNNEL_STREAM_WINDOW_BYTES;
    session->window_bytes -= granted;
    session->node->window_bytes -= granted;
    stream->window = TUNNEL_STREAM_WINDOW_BYTES;
    turn_remove(&session->node->turn, &stream->turn);
    byte_queue_finish(&stream->queue);
    header_block_finish(&stream->trailers);
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

static void stream_meter(const struct tunnel_stream *stream, const char *code)
{
    if (!stream->is_reports) metric_add(metric_with(stream->session->node->broker->meter.streams, code), 1);
}

static void stream_reset(struct tunnel_stream *stream, uint32_t code)
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
    events->on_fail(stream->arg, cause, detail);
}

// ---- credit --------------------------------------------------------------------------------------------------

// Windows grow only in what the budget has left once every stream may fill its first window. The budget is what growth
// may use; calls are refused at twice of it, so that slow readers alone, who never get more than that first window,
// shut out nobody.
static bool stream_may_grow(const struct tunnel_stream *stream)
{
    const struct tunnel_session *session = stream->session;
    const struct tunnel_options *options = &session->node->broker->options;
    uint64_t more = stream->window + (uint64_t)session->stream_count * TUNNEL_STREAM_WINDOW_BYTES;
    return stream->window < TUNNEL_STREAM_WINDOW_BYTES_MAX && session->state != TUNNEL_SESSION_ENDED &&
           session->window_bytes + session->buffered_bytes + more <= options->buffered_bytes_max &&
           session->node->window_bytes + session->node->buffered_bytes + more <= options->node_buffered_bytes_max;
}

static void stream_round(struct tunnel_stream *stream, size_t len)
{
    stream->round_bytes += len;
    if (stream->round_bytes < stream->window) return;
    uint64_t now_us = clock_mono_us();
    uint64_t fast_us = 2 * stream->session->rtt_us;
    if (fast_us < GROW_ROUND_US_MIN) fast_us = GROW_ROUND_US_MIN;
    bool fast = now_us - stream->round_at_us <= fast_us;
    if (fast && !stream->lagged && !stream->remote_ended && stream_may_grow(stream)) {
        uint32_t more = stream->window;
        if (nghttp2_session_set_local_window_size(stream->session->h2, NGHTTP2_FLAG_NONE, stream->id,
                                                  (int32_t)(stream->window + more)) == 0) {
            stream->window += more;
            stream->session->window_bytes += more;
            stream->session->node->window_bytes += more;
        }
    }
    stream->round_bytes = 0;
    stream->round_at_us = now_us;
    stream->lagged = false;
}

void tunnel_stream_consumed(struct tunnel_stream *stream, size_t len)
{
    assert(stream->events && len <= stream->unconsumed);
    if (len == 0) return;
    stream_account(stream, -(int64_t)len);
    stream->consumer_at_ms = clock_mono_ms();
    if (!stream->remote_ended) nghttp2_session_consume_stream(stream->session->h2, stream->id, len);
    stream_round(stream, len);
    tunnel_session_wants_write(stream->session);
}

// ---- the request ---------------------------------------------------------------------------------------------

static void stream_on_turn(struct turn_item *item)
{
    struct tunnel_stream *stream = (struct tunnel_stream *)((char *)item - offsetof(struct tunnel_stream, turn));
    size_t taken = stream->taken;
    stream->taken = 0;
    if (stream->events && taken) stream->events->on_taken(stream->arg, taken);
}

static bool stream_send_trailers(struct tunnel_stream *stream)
{
    nghttp2_nv fields[TUNNEL_HEADERS_MAX];
    size_t count = stream_request_trailers(stream->trailers.at, stream->trailers.count, fields);
    return count && nghttp2_submit_trailer(stream->session->h2, stream->id, fields, count) == 0;
}

static ssize_t stream_read(nghttp2_session *h2, int32_t id, uint8_t *out, size_t cap, uint32_t *flags,
                           nghttp2_data_source *source, void *arg)
{
    (void)source;
    (void)arg;
    struct tunnel_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    if (!stream) return NGHTTP2_ERR_DEFERRED; // it went with its session, whose last words are being sent
    struct byte_queue *queue = &stream->queue;
    size_t len = queue->len < cap ? queue->len : cap;
    if (!stream->events || (len == 0 && !stream->queue_ended)) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (len) {
        memcpy(out, byte_queue_front(queue), len);
        byte_queue_drop(queue, len);
        stream->taken += len;
        stream->agent_at_ms = clock_mono_ms();
        // Outside of nghttp2: the consumer will want to write more.
        turn_add(&stream->session->node->turn, &stream->turn);
    }
    if (queue->len == 0 && stream->queue_ended) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (queue->len == 0 && stream->queue_ended && stream->trailers.count && stream_send_trailers(stream))
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return (ssize_t)len;
}

static void stream_resume(struct tunnel_stream *stream)
{
    if (!stream->deferred) return;
    stream->deferred = false;
    nghttp2_session_resume_data(stream->session->h2, stream->id);
    tunnel_session_wants_write(stream->session);
}

void tunnel_stream_write(struct tunnel_stream *stream, const void *at, size_t len)
{
    assert(stream->events && !stream->queue_ended);
    if (stream->queue.len == 0) stream->agent_at_ms = clock_mono_ms();
    if (!byte_queue_add(&stream->queue, at, len)) {
        // A consumer that ignores "full" for 8 MiB is broken; its call is, too. Not told from inside its own write.
        stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    stream_resume(stream);
}

void tunnel_stream_end(struct tunnel_stream *stream, const struct tunnel_header *trailers, size_t count)
{
    assert(stream->events);
    if (stream->queue_ended) return;
    stream->queue_ended = true;
    if (count) stream->trailers = header_block_copy(trailers, count);
    stream_resume(stream);
}

void tunnel_stream_cancel(struct tunnel_stream *stream)
{
    assert(stream->events);
    stream_meter(stream, tunnel_cause_name(TUNNEL_CAUSE_CANCELLED));
    stream_reset(stream, NGHTTP2_CANCEL);
    stream_detach(stream);
}

static enum tunnel_cause stream_admit(struct tunnel_session *session, bool is_reports, struct error *err)
{
    const struct tunnel_options *options = &session->node->broker->options;
    if (session->state != TUNNEL_SESSION_OPEN || !nghttp2_session_check_request_allowed(session->h2)) {
        (void)error_set(err, ERROR_UNAVAILABLE, "the session takes no calls any more");
        return TUNNEL_CAUSE_NO_TUNNEL;
    }
    if (is_reports) return TUNNEL_CAUSE_NONE;
    uint32_t theirs = nghttp2_session_get_remote_settings(session->h2, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    const char *what = NULL;
    if (session->stream_count >= options->streams_max || session->stream_count + 1 >= theirs)
        what = "the session has as many calls as it may";
    else if (session->buffered_bytes >= 2 * options->buffered_bytes_max)
        what = "the session buffers as much as it may";
    else if (session->node->buffered_bytes >= options->node_buffered_bytes_max)
        what = "this replica buffers as much as it may";
    if (!what) return TUNNEL_CAUSE_NONE;
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
    stream->is_long = str_eq(request->method, STR("CONNECT"));
    stream->queue_ended = request->end_stream;
    stream->window = TUNNEL_STREAM_WINDOW_BYTES;
    stream->opened_at_us = stream->round_at_us = now_us;
    stream->consumer_at_ms = stream->agent_at_ms = clock_mono_ms();
    stream->head_by_ms = request->head_timeout_ms ? request->head_timeout_ms : options->head_timeout_ms;
    stream->turn.run = stream_on_turn;
    byte_queue_init(&stream->queue, TUNNEL_STREAM_QUEUE_BYTES_MAX);
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
    nghttp2_data_provider body = {.source.ptr = stream, .read_callback = stream_read};
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

static struct str stream_header(const struct tunnel_header *headers, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(headers[i].name, name)) return headers[i].value;
    return STR_EMPTY;
}

void tunnel_stream_take_head(struct tunnel_stream *stream, int status, const struct tunnel_header *headers,
                             size_t count)
{
    if (!stream->events) return;
    if (stream->head_done) {
        stream->events->on_trailers(stream->arg, headers, count);
        return;
    }
    if (status < 200) {
        stream->events->on_info(stream->arg, status, headers, count);
        return;
    }
    stream->head_done = true;
    stream->status = status;
    if (str_starts_nocase(stream_header(headers, count, STR("content-type")), STR("text/event-stream")))
        stream->is_long = true;
    if (!stream->is_reports)
        metric_observe(stream->session->node->broker->meter.ttfb,
                       (double)(clock_mono_us() - stream->opened_at_us) / 1e6);
    enum tunnel_cause cause = TUNNEL_CAUSE_NONE;
    if (status >= 400) cause = tunnel_cause_parse(stream_header(headers, count, STR(WIRE_HEADER_CAUSE)));
    if (!cause) {
        stream->events->on_head(stream->arg, status, headers, count);
        return;
    }
    char detail[64];
    snprintf(detail, sizeof(detail), "the agent answered %d %s", status, tunnel_cause_name(cause));
    stream_reset(stream, NGHTTP2_CANCEL);
    stream_tell_fail(stream, cause, detail);
}

void tunnel_stream_take_data(struct tunnel_stream *stream, const uint8_t *at, size_t len)
{
    if (!stream->events) return; // the connection's window was credited; this stream's is of no use any more
    if (stream->unconsumed == 0) stream->consumer_at_ms = clock_mono_ms();
    if (stream->unconsumed > stream->window / 2) stream->lagged = true;
    stream_account(stream, (int64_t)len);
    stream->events->on_data(stream->arg, at, len);
}

void tunnel_stream_take_end(struct tunnel_stream *stream)
{
    stream->remote_ended = true;
}

static enum tunnel_cause stream_close_cause(uint32_t code)
{
    return code == NGHTTP2_REFUSED_STREAM ? TUNNEL_CAUSE_OVERLOADED : TUNNEL_CAUSE_UPSTREAM_FAILED;
}

void tunnel_stream_take_close(struct tunnel_stream *stream, uint32_t code)
{
    if (stream->events && stream->remote_ended) {
        const struct tunnel_stream_events *events = stream->events;
        char status[16];
        snprintf(status, sizeof(status), "%d", stream->status);
        stream_meter(stream, status);
        stream_detach(stream);
        events->on_end(stream->arg);
    } else if (stream->events) {
        char detail[96];
        snprintf(detail, sizeof(detail), "the agent reset the stream: %s", nghttp2_http2_strerror(code));
        metric_add(metric_with(stream->session->node->broker->meter.resets, nghttp2_http2_strerror(code), "agent"), 1);
        stream_tell_fail(stream, stream_close_cause(code), detail);
    }
    stream_free(stream);
}

void tunnel_stream_lose(struct tunnel_stream *stream)
{
    if (stream->id > 0) nghttp2_session_set_stream_user_data(stream->session->h2, stream->id, NULL);
    if (stream->events) stream_tell_fail(stream, TUNNEL_CAUSE_TUNNEL_LOST, "the session ended under the call");
    stream_free(stream);
}

void tunnel_stream_tick(struct tunnel_stream *stream, uint64_t now_ms)
{
    if (!stream->events || stream->is_reports) return;
    struct tunnel_meter *meter = &stream->session->node->broker->meter;
    enum tunnel_cause cause = TUNNEL_CAUSE_NONE;
    const char *detail = NULL;
    // An upload may take its time: the head is due so long after the last byte that left.
    if (!stream->head_done && now_ms >= stream->agent_at_ms + stream->head_by_ms) {
        cause = TUNNEL_CAUSE_HEAD_TIMEOUT;
        detail = "no response head in time";
    } else if (!stream->is_long && stream->unconsumed && now_ms >= stream->consumer_at_ms + TUNNEL_STALL_MS) {
        cause = TUNNEL_CAUSE_STALLED;
        detail = "the caller takes no data";
        metric_add(meter->stalled_platform, 1);
    } else if (!stream->is_long && stream->queue.len && now_ms >= stream->agent_at_ms + TUNNEL_STALL_MS) {
        cause = TUNNEL_CAUSE_STALLED;
        detail = "the service takes no data";
        metric_add(meter->stalled_agent, 1);
    }
    if (!cause) return;
    stream_reset(stream, NGHTTP2_CANCEL);
    stream_tell_fail(stream, cause, detail);
}
