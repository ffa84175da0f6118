#include "server/peer/peer_stream.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/http2/http2_session.h"
#include "base/mem.h"
#include "server/peer/peer_pipe_state.h"

enum { STATUS_BYTES = 8 };

// ---- life ----------------------------------------------------------------------------------------------------------

static void on_stream_turn(struct turn_item *item)
{
    struct peer_stream *stream = (struct peer_stream *)((char *)item - offsetof(struct peer_stream, turn));
    size_t taken = stream->taken;
    stream->taken = 0;
    if (stream->events && taken && stream->events->on_taken) stream->events->on_taken(stream->arg, taken);
}

struct peer_stream *peer_stream_create(struct peer_pipe *pipe, int32_t id)
{
    struct peer_stream *stream = mem_zalloc(sizeof *stream);
    stream->pipe = pipe;
    stream->id = id;
    stream->window = PEER_WINDOW_BYTES;
    stream->turn.run = on_stream_turn;
    byte_queue_init(&stream->queue, PEER_QUEUE_BYTES_MAX);
    stream->next = pipe->streams;
    stream->link = &pipe->streams;
    if (stream->next) stream->next->link = &stream->next;
    pipe->streams = stream;
    pipe->stream_count++;
    return stream;
}

static void stream_free(struct peer_stream *stream)
{
    struct peer_pipe *pipe = stream->pipe;
    *stream->link = stream->next;
    if (stream->next) stream->next->link = stream->link;
    assert(pipe->stream_count > 0 && pipe->growth_bytes >= stream->window - PEER_WINDOW_BYTES);
    pipe->stream_count--;
    pipe->growth_bytes -= stream->window - PEER_WINDOW_BYTES;
    turn_remove(&pipe->pool->tls.turn, &stream->turn);
    byte_queue_finish(&stream->queue);
    header_block_finish(&stream->trailers);
    mem_free(stream);
}

void peer_stream_close(struct peer_stream *stream, uint32_t code, bool processed)
{
    const struct peer_stream_events *events = stream->events;
    bool whole = stream->remote_ended && stream->local_ended;
    // The peer has answered in full and wants no more of the request (RFC 9113 section 8.1).
    if (!stream->pipe->is_listener && stream->remote_ended && code == NGHTTP2_NO_ERROR) whole = true;
    stream->events = NULL;
    if (events) events->on_close(stream->arg, code, whole, processed);
    stream_free(stream);
}

// ---- what leaves ---------------------------------------------------------------------------------------------------

static nghttp2_nv *make_fields(const struct http_header *fields, size_t count, int status, char text[STATUS_BYTES],
                               size_t *out)
{
    nghttp2_nv *all = mem_array(count + 1, sizeof *all);
    size_t used = 0;
    if (status) {
        snprintf(text, STATUS_BYTES, "%d", status);
        all[used++] = http2_field(STR(":status"), str_c(text));
    }
    for (size_t i = 0; i < count; i++)
        all[used++] = http2_field(fields[i].name, fields[i].value);
    *out = used;
    return all;
}

static void submit_trailers(struct peer_stream *stream)
{
    char text[STATUS_BYTES];
    size_t count;
    nghttp2_nv *all = make_fields(stream->trailers.at, stream->trailers.count, 0, text, &count);
    nghttp2_submit_trailer(stream->pipe->h2, stream->id, all, count);
    mem_free(all);
}

static ssize_t read_body(nghttp2_session *h2, int32_t id, uint8_t *out, size_t cap, uint32_t *flags,
                         nghttp2_data_source *source, void *arg)
{
    (void)arg;
    struct peer_stream *stream = source->ptr;
    size_t len = stream->queue.len < cap ? stream->queue.len : cap;
    bool is_over = !stream->events && !stream->breaking;
    if (stream->breaking && len == 0) (void)nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, id, stream->break_code);
    if (is_over || (len == 0 && !stream->ended)) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (len) {
        memcpy(out, byte_queue_front(&stream->queue), len);
        byte_queue_drop(&stream->queue, len);
        stream->taken += len;
        turn_add(&stream->pipe->pool->tls.turn, &stream->turn);
    }
    if (stream->queue.len == 0 && stream->ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->trailers.count) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            submit_trailers(stream);
        }
    }
    return (ssize_t)len;
}

struct peer_stream *peer_stream_open(struct peer_pipe *pipe, const struct http_header *fields, size_t count, bool ended,
                                     const struct peer_stream_events *events, void *arg)
{
    if (!peer_pipe_takes_calls(pipe)) return NULL;
    struct peer_stream *stream = peer_stream_create(pipe, 0);
    stream->events = events;
    stream->arg = arg;
    stream->ended = ended;
    nghttp2_data_provider body = {.source.ptr = stream, .read_callback = read_body};
    char text[STATUS_BYTES];
    size_t used;
    nghttp2_nv *all = make_fields(fields, count, 0, text, &used);
    stream->id = nghttp2_submit_request(pipe->h2, NULL, all, used, ended ? NULL : &body, stream);
    mem_free(all);
    if (stream->id < 0) {
        stream_free(stream);
        pipe->retired = true; // stream ids have run out
        return NULL;
    }
    peer_pipe_wake(pipe);
    return stream;
}

void peer_stream_bind(struct peer_stream *stream, const struct peer_stream_events *events, void *arg)
{
    assert(events);
    stream->events = events;
    stream->arg = arg;
}

void peer_stream_info(struct peer_stream *stream, int status)
{
    char text[STATUS_BYTES];
    size_t used;
    nghttp2_nv *all = make_fields(NULL, 0, status, text, &used);
    nghttp2_submit_headers(stream->pipe->h2, NGHTTP2_FLAG_NONE, stream->id, NULL, all, used, NULL);
    mem_free(all);
    peer_pipe_wake(stream->pipe);
}

void peer_stream_head(struct peer_stream *stream, int status, const struct http_header *fields, size_t count,
                      bool ended)
{
    char text[STATUS_BYTES];
    size_t used;
    nghttp2_data_provider body = {.source.ptr = stream, .read_callback = read_body};
    nghttp2_nv *all = make_fields(fields, count, status, text, &used);
    stream->ended = ended;
    nghttp2_submit_response(stream->pipe->h2, stream->id, all, used, ended ? NULL : &body);
    mem_free(all);
    peer_pipe_wake(stream->pipe);
}

void peer_stream_keep_halves(struct peer_stream *stream)
{
    stream->has_halves = true;
}

static void resume(struct peer_stream *stream)
{
    if (!stream->deferred) return;
    stream->deferred = false;
    nghttp2_session_resume_data(stream->pipe->h2, stream->id);
    peer_pipe_wake(stream->pipe);
}

void peer_stream_write(struct peer_stream *stream, const void *at, size_t len)
{
    assert(stream->events && !stream->ended);
    // Whoever writes so far beyond "full" is broken, and so is his call.
    if (!byte_queue_add(&stream->queue, at, len))
        nghttp2_submit_rst_stream(stream->pipe->h2, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_INTERNAL_ERROR);
    resume(stream);
}

void peer_stream_end(struct peer_stream *stream, const struct http_header *trailers, size_t count)
{
    assert(stream->events);
    if (stream->ended) return;
    stream->ended = true;
    if (count) stream->trailers = header_block_copy(trailers, count);
    resume(stream);
}

void peer_stream_take_data(struct peer_stream *stream, const uint8_t *at, size_t len)
{
    if (!stream->events) return;
    if (stream->unconsumed > stream->window / 2) stream->lagged = true;
    stream->unconsumed += len;
    stream->events->on_data(stream->arg, at, len);
}

// The window grows for a consumer that never held back more than half of it while a whole one went through.
static void grow(struct peer_stream *stream, size_t len)
{
    struct peer_pipe *pipe = stream->pipe;
    stream->round_bytes += len;
    if (stream->round_bytes < stream->window) return;
    bool may = !stream->lagged && !stream->remote_ended && stream->window < PEER_WINDOW_BYTES_MAX &&
               pipe->growth_bytes + stream->window <= PEER_GROWTH_BYTES_MAX;
    if (may && nghttp2_session_set_local_window_size(pipe->h2, NGHTTP2_FLAG_NONE, stream->id,
                                                     (int32_t)(2 * stream->window)) == 0) {
        pipe->growth_bytes += stream->window;
        stream->window *= 2;
    }
    stream->round_bytes = 0;
    stream->lagged = false;
}

void peer_stream_consumed(struct peer_stream *stream, size_t len)
{
    assert(stream->events && len <= stream->unconsumed);
    if (len == 0) return;
    stream->unconsumed -= len;
    if (!stream->remote_ended) nghttp2_session_consume_stream(stream->pipe->h2, stream->id, len);
    grow(stream, len);
    peer_pipe_wake(stream->pipe);
}

void peer_stream_break(struct peer_stream *stream, uint32_t code)
{
    stream->events = NULL;
    if (stream->local_ended) { // only the other half is left
        peer_stream_reset(stream, code);
        return;
    }
    stream->breaking = true;
    stream->break_code = code;
    stream->ended = false; // an end that waits behind bytes would tell that all is well
    resume(stream);
}

void peer_stream_reset(struct peer_stream *stream, uint32_t code)
{
    stream->events = NULL;
    byte_queue_finish(&stream->queue);
    nghttp2_submit_rst_stream(stream->pipe->h2, NGHTTP2_FLAG_NONE, stream->id, code);
    peer_pipe_wake(stream->pipe);
}
