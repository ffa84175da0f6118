// A stream's way out: its request bytes wait here until the session's scheduler picks it (tunnel/wire/scheduler.h says
// how that goes together with nghttp2), then go straight from the queue into the WebSocket's message.
#include <assert.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tunnel/call/stream.h"
#include "tunnel/call/stream_kept.h"
#include "tunnel/call/stream_request.h"

static bool send_has_something(const struct tunnel_stream *stream)
{
    return stream->events && (stream->request == TUNNEL_STREAM_REQUEST_ENDED ||
                              (stream->request == TUNNEL_STREAM_REQUEST_OPEN && stream->queue.len));
}

static void send_wake(struct tunnel_stream *stream)
{
    if (!send_has_something(stream)) return;
    wire_scheduler_ready(&stream->session->scheduler, &stream->sending, clock_mono_us());
    tunnel_session_wants_write(stream->session);
}

// Tells the consumer outside of nghttp2 what has left: it will want to write more.
static void send_on_turn(struct turn_item *item)
{
    struct tunnel_stream *stream = (struct tunnel_stream *)((char *)item - offsetof(struct tunnel_stream, turn));
    size_t taken = stream->taken;
    stream->taken = 0;
    if (!stream->events || !taken) return;
    const struct exchange_events *to = stream->events->exchange;
    if (to->on_taken) to->on_taken(stream->arg, taken);
}

void tunnel_stream_begin_sending(struct tunnel_stream *stream, enum wire_urgency urgency, uint64_t now_us)
{
    stream->turn.run = send_on_turn;
    byte_queue_init(&stream->queue, TUNNEL_STREAM_QUEUE_BYTES_MAX);
    wire_scheduler_item_init(&stream->sending, urgency, now_us);
}

void tunnel_stream_stop_sending(struct tunnel_stream *stream)
{
    turn_remove(&stream->session->node->turn, &stream->turn);
    wire_scheduler_remove(&stream->session->scheduler, &stream->sending);
    if (stream->session->granted == stream) stream->session->granted = NULL;
    stream->allowance = 0;
    byte_queue_finish(&stream->queue);
    header_block_finish(&stream->trailers);
}

static bool send_trailers(struct tunnel_stream *stream)
{
    nghttp2_nv fields[TUNNEL_HEADERS_MAX];
    size_t count = stream_request_trailers(stream->trailers.at, stream->trailers.count, fields);
    return count && nghttp2_submit_trailer(stream->session->h2, stream->id, fields, count) == 0;
}

ssize_t tunnel_stream_read(nghttp2_session *h2, int32_t id, uint8_t *out, size_t cap, uint32_t *flags,
                           nghttp2_data_source *source, void *arg)
{
    (void)out;
    (void)source;
    (void)arg;
    struct tunnel_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    if (!stream) return NGHTTP2_ERR_DEFERRED; // it went with its session, whose last words are being sent
    if (!stream->allowance) {
        // Its HEADERS have left, or credit came: it may be picked from now on.
        if (send_has_something(stream))
            wire_scheduler_ready(&stream->session->scheduler, &stream->sending, clock_mono_us());
        return NGHTTP2_ERR_DEFERRED;
    }
    size_t len = stream->queue.len < cap ? stream->queue.len : cap;
    if (len > stream->allowance) len = stream->allowance;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (len == stream->queue.len && stream->request == TUNNEL_STREAM_REQUEST_ENDED) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->trailers.count && send_trailers(stream)) *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        tunnel_stream_set_request(stream, TUNNEL_STREAM_REQUEST_SENT);
    }
    // nghttp2 drops an empty frame without the end of the stream, so that nobody comes to take it out.
    if (len == 0) tunnel_stream_take_out(stream, NULL, 0);
    return (ssize_t)len;
}

void tunnel_stream_take_out(struct tunnel_stream *stream, uint8_t *out, size_t len)
{
    if (!stream->allowance) return; // the empty last frame was accounted for when it was promised
    struct tunnel_session *session = stream->session;
    uint64_t now_us = clock_mono_us();
    assert(len <= stream->queue.len); // as tunnel_stream_read() promised
    stream->allowance = 0;
    session->granted = NULL;
    wire_scheduler_sent(&session->scheduler, &stream->sending, len, now_us);
    if (len) {
        stream_kept_drop(stream);
        memcpy(out, byte_queue_front(&stream->queue), len);
        byte_queue_drop(&stream->queue, len);
        stream->taken += len;
        stream->agent_at_ms = now_us / 1000;
        turn_add(&session->node->turn, &stream->turn);
    }
    if (!send_has_something(stream)) wire_scheduler_idle(&session->scheduler, &stream->sending, now_us);
}

static void send_begin(struct tunnel_stream *stream)
{
    assert(stream->events && stream->request == TUNNEL_STREAM_REQUEST_OPEN);
    if (stream->queue.len == 0) stream->agent_at_ms = clock_mono_ms();
}

void tunnel_stream_write(struct tunnel_stream *stream, const void *at, size_t len)
{
    send_begin(stream);
    if (!byte_queue_add(&stream->queue, at, len)) {
        // A consumer that ignores "full" for 8 MiB is broken; its call is, too. Not told from inside its own write.
        tunnel_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    send_wake(stream);
}

void tunnel_stream_write_queue(struct tunnel_stream *stream, struct byte_queue *queue)
{
    if (stream->queue.len || queue->bytes_max != stream->queue.bytes_max) {
        tunnel_stream_write(stream, byte_queue_front(queue), queue->len);
        byte_queue_finish(queue);
        return;
    }
    send_begin(stream);
    struct byte_queue empty = stream->queue;
    stream->queue = *queue;
    *queue = empty;
    send_wake(stream);
}

void tunnel_stream_end(struct tunnel_stream *stream, const struct http_header *trailers, size_t count)
{
    assert(stream->events);
    if (stream->request != TUNNEL_STREAM_REQUEST_OPEN) return;
    tunnel_stream_set_request(stream, TUNNEL_STREAM_REQUEST_ENDED);
    if (count) stream->trailers = header_block_copy(trailers, count);
    send_wake(stream);
}
