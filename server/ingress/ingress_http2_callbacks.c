#include "base/http2/http2_session.h"
#include "server/ingress/ingress_http2_state.h"

enum {
    ACKS_QUEUED_MAX = 200, // answers to PING and SETTINGS that a client does not read
    SETTINGS_MAX = 32,     // in one frame
    CONTINUATIONS_MAX = 8,
    RESET_ABUSE = 4,     // what a stream that the client resets counts as: a burst of 500, then 50 a second
    RESETS_BURST = 1000, // what nghttp2 itself accepts, which ends the connection with INTERNAL_ERROR
    RESETS_PER_SECOND = 100,
};

static struct ingress_http2_stream *find(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static bool is_request(const nghttp2_frame *frame)
{
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

// ---- heads ---------------------------------------------------------------------------------------------------

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct ingress_http2 *http2 = arg;
    struct ingress_connection *connection = http2->connection;
    http2->head_since_ms = ingress_connection_now_ms(connection);
    ingress_connection_arm(connection, http2->head_since_ms + connection->ingress->options.head_timeout_ms);
    if (!is_request(frame)) return 0;
    struct ingress_http2_stream *stream = ingress_http2_stream_create(http2, frame->hd.stream_id);
    (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct ingress_http2 *http2 = arg;
    struct ingress_http2_stream *stream = find(session, frame->hd.stream_id);
    (void)flags;
    if (stream && ingress_http2_stream_add_field(stream, str_of((const char *)name, name_len),
                                                 str_of((const char *)value, value_len), !is_request(frame)))
        return 0;
    // No field that follows is validated, which is what costs: one byte can refer to 4 KB of the dynamic table. nghttp2
    // only decodes the rest of the block, and reports no frame.
    http2->head_since_ms = 0;
    ingress_http2_count_abuse(http2, INGRESS_HTTP2_ABUSE_HEAD);
    if (stream) ingress_http2_stream_reset(stream, NGHTTP2_ENHANCE_YOUR_CALM, "head-too-large");
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

// ---- frames --------------------------------------------------------------------------------------------------

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct ingress_http2 *http2 = arg;
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct ingress_http2_stream *stream;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        http2->head_since_ms = 0;
        stream = find(session, frame->hd.stream_id);
        if (!stream) return 0;
        if (end) stream->ended = true;
        if (is_request(frame))
            ingress_http2_stream_start(stream);
        else if (end)
            ingress_http2_stream_take_end(stream);
        return 0;
    case NGHTTP2_DATA:
        stream = find(session, frame->hd.stream_id);
        if (frame->hd.length == frame->data.padlen && !end) ingress_http2_count_abuse(http2, 1); // nothing, or padding
        if (stream && end) ingress_http2_stream_take_end(stream);
        return 0;
    default: return 0;
    }
}

// Every frame that is none of a request, of a known type or not. DATA of streams that are over is skipped by nghttp2
// without a word.
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *arg)
{
    if (head->type == NGHTTP2_DATA && !find(session, head->stream_id)) ingress_http2_count_abuse(arg, 1);
    if (head->type != NGHTTP2_HEADERS && head->type != NGHTTP2_DATA && head->type != NGHTTP2_CONTINUATION)
        ingress_http2_count_abuse(arg, head->type == NGHTTP2_RST_STREAM ? RESET_ABUSE : 1);
    return 0;
}

// Frames of unknown types are skipped (RFC 9113 section 5.5).
static int unpack_extension(nghttp2_session *session, void **payload, const nghttp2_frame_hd *head, void *arg)
{
    (void)session;
    (void)payload;
    (void)head;
    (void)arg;
    return NGHTTP2_ERR_CANCEL;
}

static int on_data_chunk_recv(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *at, size_t len,
                              void *arg)
{
    struct ingress_http2 *http2 = arg;
    struct ingress_http2_stream *stream = find(session, id);
    (void)flags;
    if (stream)
        ingress_http2_stream_take_data(stream, at, len);
    else
        (void)nghttp2_session_consume_stream(session, id, len);
    ingress_http2_credit(http2, len);
    return 0;
}

// What a client does wrong costs us a reset each time, as its own resets do.
static int on_invalid_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, int code, void *arg)
{
    (void)session;
    (void)code;
    struct ingress_http2 *http2 = arg;
    if (frame->hd.type == NGHTTP2_HEADERS) http2->head_since_ms = 0;
    ingress_http2_count_abuse(http2, 1);
    return 0;
}

// Two halves that end each on its own, and have not both done so at the service.
static bool is_upgraded(const struct ingress_http2_stream *stream)
{
    return stream->exchange && call_exchange_is_raw(stream->exchange) && !call_exchange_is_over(stream->exchange);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    struct ingress_http2 *http2 = arg;
    struct ingress_http2_stream *stream = find(session, id);
    if (!stream) return 0;
    (void)nghttp2_session_set_stream_user_data(session, id, NULL);
    if (code == NGHTTP2_NO_ERROR && stream->ended && is_upgraded(stream)) {
        stream->leaving = true;
        http2->leaving++;
    } else {
        ingress_http2_forget(http2, stream);
    }
    return 0;
}

// ---- sending -------------------------------------------------------------------------------------------------

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct ingress_http2 *http2 = arg;
    if (frame->hd.type == NGHTTP2_DATA && http2->abuse > 1) http2->abuse -= 2; // windows are opened for those
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    struct ingress_http2_stream *stream = find(session, frame->hd.stream_id);
    if (!stream) return 0;
    stream->end_sent = true;
    // The answer is whole before the request is: the rest of it is of no use (RFC 9113 section 8.1).
    if (!stream->ended && !is_upgraded(stream))
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t len,
                        nghttp2_data_source *source, void *arg)
{
    struct ingress_http2 *http2 = arg;
    (void)session;
    (void)frame;
    // nghttp2 goes on by itself for as long as there are bytes: the socket's pace is told here. on_drain comes.
    if (tls_stream_queued(http2->connection->stream) >= TLS_STREAM_QUEUE_HIGH) return NGHTTP2_ERR_WOULDBLOCK;
    ingress_http2_stream_send(source->ptr, head, len);
    return 0;
}

// ---- the session ---------------------------------------------------------------------------------------------

static void set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk_recv);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame_recv);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, unpack_extension);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
}

nghttp2_session *ingress_http2_session_create(struct ingress_http2 *http2)
{
    const struct ingress_options *options = &http2->connection->ingress->options;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options->http2_streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INGRESS_HTTP2_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)options->head_bytes_max},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    return http2_session_create(&(struct http2_session_options){
        .is_server = true,
        .set_callbacks = set_callbacks,
        .arg = http2,
        .settings_max = SETTINGS_MAX,
        .acks_max = ACKS_QUEUED_MAX,
        .continuations_max = CONTINUATIONS_MAX,
        .resets_burst = RESETS_BURST,
        .resets_per_second = RESETS_PER_SECOND,
        .forgets_closed = true,
        .extension = HTTP2_EXTENSIONS_ALL,
        .settings = settings,
        .setting_count = sizeof settings / sizeof *settings,
        .window_bytes = INGRESS_HTTP2_WINDOW,
    });
}
