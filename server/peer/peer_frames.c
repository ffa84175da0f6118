// The frames of the hop's connection: nghttp2's callbacks and settings. A callback never ends the pipe: it says why in
// `broken`, or wakes it, and the pipe's turn does the rest.
#include <stdio.h>

#include "base/http2/http2_session.h"
#include "server/peer/peer_pipe_state.h"
#include "server/peer/peer_wire.h"

enum { CONNECTION_WINDOW = 0x7fffffff, SETTINGS_MAX = 16, OUTBOUND_ACK_MAX = 100 };

// ---- frames that arrive --------------------------------------------------------------------------------------------

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct peer_pipe *pipe = arg;
    header_intake_destroy(pipe->head);
    pipe->head = header_intake_create(PEER_WIRE_FIELDS_MAX, PEER_WIRE_HEAD_BYTES_MAX);
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, peer_stream_create(pipe, frame->hd.stream_id));
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    (void)h2;
    (void)frame;
    (void)flags;
    const struct peer_pipe *pipe = arg;
    bool fits = pipe->head && header_intake_add(pipe->head, str_of((const char *)name, name_len),
                                                str_of((const char *)value, value_len));
    return fits ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // resets the stream
}

static void tell_fields(struct peer_stream *stream, const nghttp2_frame *frame, int status,
                        const struct http_header *fields, size_t count)
{
    bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct peer_pipe *pipe = stream->pipe;
    if (pipe->is_listener && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        stream->remote_ended = ended;
        pipe->events.on_request(pipe->arg, stream, fields, count, ended);
    } else if (!stream->events) {
        return;
    } else if (!pipe->is_listener && status >= 100 && status < 200) {
        stream->events->on_info(stream->arg, status);
    } else if (!pipe->is_listener && status) {
        stream->events->on_head(stream->arg, status, fields, count);
    } else {
        stream->events->on_trailers(stream->arg, fields, count);
    }
}

static void take_head(struct peer_pipe *pipe, struct peer_stream *stream, const nghttp2_frame *frame)
{
    struct header_intake *head = pipe->head;
    if (!head) return;
    pipe->head = NULL;
    if (stream) {
        struct header_block fields = header_intake_fields(head);
        tell_fields(stream, frame, header_intake_status(head), fields.at, fields.count);
        header_block_finish(&fields);
    }
    header_intake_destroy(head);
}

static int on_frame_recv(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct peer_pipe *pipe = arg;
    int32_t id = frame->hd.stream_id;
    struct peer_stream *stream = id ? nghttp2_session_get_stream_user_data(h2, id) : NULL;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        if (pipe->events.on_goaway) pipe->events.on_goaway(pipe->arg);
        pipe->retired = true;
        peer_pipe_wake(pipe);
        return 0;
    }
    if (frame->hd.type == NGHTTP2_HEADERS) {
        bool is_request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
        take_head(pipe, stream, frame);
        if (is_request) return 0;
        stream = nghttp2_session_get_stream_user_data(h2, id);
    }
    if (!stream || !stream->events) return 0;
    if (frame->hd.type == NGHTTP2_WINDOW_UPDATE && stream->events->on_credit) stream->events->on_credit(stream->arg);
    bool ends = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (ends && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        stream->remote_ended = true;
        stream->events->on_half_end(stream->arg);
    }
    return 0;
}

static int on_data_chunk(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    (void)flags;
    (void)arg;
    if (nghttp2_session_consume_connection(h2, len)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    struct peer_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    if (stream) peer_stream_take_data(stream, at, len);
    return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    (void)arg;
    struct peer_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    if (!stream) return 0;
    nghttp2_session_set_stream_user_data(h2, id, NULL);
    peer_stream_close(stream, code, stream->sent && code != NGHTTP2_REFUSED_STREAM);
    return 0;
}

static int on_invalid_frame(nghttp2_session *h2, const nghttp2_frame *frame, int code, void *arg)
{
    (void)h2;
    struct peer_pipe *pipe = arg;
    if (!pipe->broken[0] && frame->hd.stream_id == 0)
        snprintf(pipe->broken, sizeof pipe->broken, "HTTP/2: %s", nghttp2_strerror(code));
    return 0;
}

// ---- frames that leave ---------------------------------------------------------------------------------------------

// From here on the frame may leave.
static int on_before_frame_send(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    (void)arg;
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    struct peer_stream *stream = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (stream) stream->sent = true;
    return 0;
}

static int on_frame_send(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct peer_pipe *pipe = arg;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    struct peer_stream *stream = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (!stream) return 0;
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    stream->local_ended = true;
    // The answer is complete: what is still to come of the request is of no use to anybody.
    if (pipe->is_listener && !stream->remote_ended && !stream->has_halves)
        nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
    return 0;
}

// ---- life ----------------------------------------------------------------------------------------------------------

static void set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, on_before_frame_send);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
}

nghttp2_session *peer_frames_create(struct peer_pipe *pipe, unsigned streams_max)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, PEER_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 2 * PEER_WIRE_HEAD_BYTES_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
        pipe->is_listener ? (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams_max}
                          : (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
    };
    size_t count = sizeof settings / sizeof *settings - (pipe->is_listener ? 0 : 1);
    return http2_session_create(&(struct http2_session_options){
        .is_server = pipe->is_listener,
        .set_callbacks = set_callbacks,
        .arg = pipe,
        .settings_max = SETTINGS_MAX,
        .acks_max = OUTBOUND_ACK_MAX,
        .header_block_bytes_max = 2 * PEER_WIRE_HEAD_BYTES_MAX,
        .stateless_hpack = true,
        .no_pushes = true,
        .forgets_closed = true,
        .settings = settings,
        .setting_count = count,
        .window_bytes = CONNECTION_WINDOW,
    });
}
