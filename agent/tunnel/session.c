#include "agent/tunnel/session.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stddef.h>
#include <string.h>

#include "agent/tunnel/stream.h"
#include "base/clock.h"
#include "base/http2/http2_session.h"
#include "base/mem.h"
#include "tunnel/wire/control.h"

enum {
    CONNECTION_WINDOW = 0x7fffffff,
    SETTINGS_MAX = 16, // entries in one SETTINGS frame
    SETTINGS_HEADER_LIST_BYTES = 64 * 1024,
    FRAME_BYTES_MAX = 16384 + 9, // nghttp2 hands out one frame at a time
    QUIET_BYTES = 64 * 1024,     // reports alone do not fill the path
};

// ---- nghttp2 callbacks: frames that arrived --------------------------------------------------------------------

static struct agent_stream *stream_of(nghttp2_session *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2, id);
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct agent_session *session = arg;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    struct agent_stream *stream = agent_stream_create(session, frame->hd.stream_id);
    nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, stream);
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    (void)flags;
    (void)arg;
    struct agent_stream *stream = stream_of(h2, frame->hd.stream_id);
    if (!stream) return 0;
    struct str n = str_of((const char *)name, name_len), v = str_of((const char *)value, value_len);
    bool ok = frame->headers.cat == NGHTTP2_HCAT_REQUEST ? agent_stream_add_header(stream, n, v)
                                                         : agent_stream_add_trailer(stream, n, v);
    return ok ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // resets the stream
}

// RFC 9113 section 6.8: the platform may have opened streams before it read the drain. They are
// served: only what comes after its answer to this PING would be refused, and by then it opens none
// here.
static const uint8_t drain_mark[8] = {'d', 'r', 'a', 'i', 'n', 'i', 'n', 'g'};

static void end_drain(struct agent_session *session)
{
    if (session->drained) return;
    session->drained = true;
    nghttp2_submit_goaway(session->h2, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session->h2),
                          NGHTTP2_NO_ERROR, NULL, 0);
    agent_session_wants_write(session);
    if (!session->stream_count && session->events.on_idle) session->events.on_idle(session->arg);
}

static void on_request_head(struct agent_session *session, struct agent_stream *stream, bool end)
{
    stream->request.end_stream = end;
    stream->request.headers = stream->headers;
    stream->request.header_count = stream->header_count;
    agent_stream_classify(stream);
    if (session->drained) {
        agent_stream_reset(stream, AGENT_STREAM_REFUSED);
        return;
    }
    session->events.on_request(session->arg, stream);
    if (!stream->events && stream->answer != AGENT_STREAM_ANSWER_RESET)
        agent_stream_reset(stream, AGENT_STREAM_REFUSED);
}

static void on_request_end(struct agent_stream *stream)
{
    stream->request_ended = true;
    if (stream->events && stream->answer != AGENT_STREAM_ANSWER_RESET) stream->events->on_end(stream->arg, stream);
}

static int on_frame_recv(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct agent_session *session = arg;
    bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        bool orderly = frame->goaway.error_code == NGHTTP2_NO_ERROR;
        if (session->events.on_goaway && orderly) session->events.on_goaway(session->arg);
    } else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) && session->draining &&
               !memcmp(frame->ping.opaque_data, drain_mark, sizeof drain_mark)) {
        end_drain(session);
    } else if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) {
        struct agent_stream *stream = stream_of(h2, frame->hd.stream_id);
        if (!stream) return 0;
        bool head = frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
        if (head) on_request_head(session, stream, end);
        if (end) on_request_end(stream);
    } else if (frame->hd.type == WIRE_CONTROL_FRAME) {
        if (session->events.on_control)
            session->events.on_control(session->arg, session->control, session->control_len);
        session->control_len = 0;
    }
    return 0;
}

static int on_data_chunk(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    (void)flags;
    // The connection's window is topped up on receipt: only streams wait for their consumers.
    if (nghttp2_session_consume_connection(h2, len)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    ((struct agent_session *)arg)->carried_bytes += len;
    struct agent_stream *stream = stream_of(h2, id);
    if (!stream || !stream->events || stream->answer == AGENT_STREAM_ANSWER_RESET) {
        nghttp2_session_consume_stream(h2, id, len);
        return 0;
    }
    wire_window_received(&stream->window, stream->unconsumed);
    stream->unconsumed += len;
    stream->events->on_data(stream->arg, stream, at, len);
    return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    struct agent_session *session = arg;
    struct agent_stream *stream = stream_of(h2, id);
    if (!stream) return 0;
    nghttp2_session_set_stream_user_data(h2, id, NULL);
    agent_stream_destroy(stream, code);
    if (!agent_session_is_busy(session) && session->events.on_idle) session->events.on_idle(session->arg);
    return 0;
}

static int on_control_chunk(nghttp2_session *h2, const nghttp2_frame_hd *hd, const uint8_t *at, size_t len, void *arg)
{
    (void)h2;
    struct agent_session *session = arg;
    if (hd->length > WIRE_CONTROL_BYTES_MAX || session->control_len + len > sizeof(session->control)) {
        session->control_len = 0;
        return NGHTTP2_ERR_CANCEL; // too long to be ours: ignored
    }
    memcpy(session->control + session->control_len, at, len);
    session->control_len += len;
    return 0;
}

static int unpack_control(nghttp2_session *h2, void **payload, const nghttp2_frame_hd *hd, void *arg)
{
    (void)h2;
    struct agent_session *session = arg;
    *payload = NULL;
    if (hd->stream_id == 0) return 0;
    session->control_len = 0;
    return NGHTTP2_ERR_CANCEL;
}

// ---- nghttp2 callbacks: frames that leave ----------------------------------------------------------------------

static ssize_t data_length(nghttp2_session *h2, uint8_t type, int32_t id, int32_t connection_window,
                           int32_t stream_window, uint32_t frame_max, void *arg)
{
    (void)h2;
    (void)type;
    (void)id;
    (void)arg;
    int32_t n = connection_window < stream_window ? connection_window : stream_window;
    if (n > (int32_t)frame_max) n = (int32_t)frame_max;
    return n < AGENT_STREAM_FRAME_BYTES ? n : AGENT_STREAM_FRAME_BYTES;
}

static int send_data(nghttp2_session *h2, nghttp2_frame *frame, const uint8_t *head, size_t len,
                     nghttp2_data_source *source, void *arg)
{
    (void)h2;
    (void)frame;
    struct agent_session *session = arg;
    if (session->out_cap - session->out_len < len + 9) return NGHTTP2_ERR_WOULDBLOCK;
    memcpy(session->out + session->out_len, head, 9);
    session->out_len += 9;
    agent_stream_take(source->ptr, session->out + session->out_len, len);
    session->out_len += len;
    assert(session->out_len <= session->out_cap);
    return 0;
}

static bool is_interim(const nghttp2_frame *frame)
{
    const nghttp2_nv *status = frame->headers.nva; // the pseudo-header is the first (RFC 9113 section 8.3)
    return frame->headers.nvlen > 0 && status->valuelen > 0 && status->value[0] == '1' && status->name[0] == ':';
}

static int on_frame_send(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    const struct agent_session *session = arg;
    // Behind the notice and not beside it: nghttp2 would let the PING go first.
    if (frame->hd.type == NGHTTP2_GOAWAY && session->draining && !session->drained)
        nghttp2_submit_ping(h2, NGHTTP2_FLAG_NONE, drain_mark);
    bool end = (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
               (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    // Answered before the request was complete: ask the platform to stop sending (RFC 9113 section
    // 8.1). The two halves of an upgraded connection end each on its own.
    struct agent_stream *stream = stream_of(h2, frame->hd.stream_id);
    if (end && !(stream && stream->upgraded) && nghttp2_session_get_stream_remote_close(h2, frame->hd.stream_id) == 0)
        nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    bool head = frame->hd.type == NGHTTP2_HEADERS && !is_interim(frame);
    if (stream && (head || frame->hd.type == NGHTTP2_DATA)) agent_stream_sent(stream, head);
    return 0;
}

static ssize_t pack_control(nghttp2_session *h2, uint8_t *at, size_t cap, const nghttp2_frame *frame, void *arg)
{
    (void)h2;
    (void)frame;
    struct agent_session *session = arg;
    size_t n = session->control_out_len < cap ? session->control_out_len : cap;
    memcpy(at, session->control_out, n);
    session->control_out_len = 0;
    return (ssize_t)n;
}

// ---- life ------------------------------------------------------------------------------------------------------

static void set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_extension_chunk_recv_callback(callbacks, on_control_chunk);
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, unpack_control);
    nghttp2_session_callbacks_set_pack_extension_callback(callbacks, pack_control);
    nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, data_length);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
}

static nghttp2_session *create_h2(struct agent_session *session)
{
    const nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0}, // stateless HPACK: no memory a stream, sessions can be parked
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, session->options.streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WIRE_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, SETTINGS_HEADER_LIST_BYTES},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}, // RFC 9218 in its place
    };
    return http2_session_create(&(struct http2_session_options){
        .is_server = true,
        .set_callbacks = set_callbacks,
        .arg = session,
        .settings_max = SETTINGS_MAX,
        .stateless_hpack = true,
        .extension = WIRE_CONTROL_FRAME,
        .settings = entries,
        .setting_count = sizeof entries / sizeof *entries,
        .window_bytes = CONNECTION_WINDOW,
    });
}

struct agent_session *agent_session_create(const struct agent_session_options *options,
                                           const struct agent_session_events *events, void *arg)
{
    struct agent_session *session = mem_zalloc(sizeof(*session));
    session->options = *options;
    session->events = *events;
    session->arg = arg;
    wire_scheduler_init(&session->scheduler);
    session->h2 = create_h2(session);
    return session;
}

void agent_session_destroy(struct agent_session *session)
{
    if (!session) return;
    while (session->streams) {
        struct agent_stream *stream = session->streams;
        nghttp2_session_set_stream_user_data(session->h2, stream->id, NULL);
        agent_stream_destroy(stream, NGHTTP2_CANCEL);
    }
    nghttp2_session_del(session->h2);
    mem_free(session);
}

enum error_code agent_session_feed(struct agent_session *session, const uint8_t *at, size_t len, struct error *err)
{
    if (session->broken) return error_set(err, ERROR_PROTOCOL, "tunnel session failed");
    ssize_t n = nghttp2_session_mem_recv(session->h2, at, len);
    if (n < 0) {
        session->broken = true;
        return error_set(err, ERROR_PROTOCOL, "tunnel session: %s", nghttp2_strerror((int)n));
    }
    agent_session_wants_write(session);
    if (!nghttp2_session_want_read(session->h2) && !nghttp2_session_want_write(session->h2)) {
        session->broken = true;
        return error_set(err, ERROR_CANCELLED, "the platform ended the session");
    }
    return ERROR_NONE;
}

// Streams whose queue has room again, notified outside of nghttp2 so that they may do anything.
static void tell_writable(struct agent_session *session)
{
    while (session->writable) {
        struct agent_stream *stream = session->writable;
        session->writable = stream->next_writable;
        stream->next_writable = NULL;
        stream->in_writable = false;
        if (stream->events && stream->answer != AGENT_STREAM_ANSWER_RESET) stream->events->on_room(stream->arg, stream);
    }
}

static bool has_room(const struct agent_session *session)
{
    return !session->broken && session->out_cap - session->out_len >= FRAME_BYTES_MAX;
}

// Everything that nghttp2 gives by itself: what is no DATA, and the DATA of the stream that holds
// the allowance.
static void take_frames(struct agent_session *session)
{
    while (has_room(session)) {
        const uint8_t *at;
        ssize_t n = nghttp2_session_mem_send(session->h2, &at);
        // More than there is room for cannot be: frames are at most FRAME_BYTES_MAX.
        if (n < 0 || (n > 0 && (size_t)n > session->out_cap - session->out_len)) session->broken = true;
        if (n <= 0 || session->broken) return;
        memcpy(session->out + session->out_len, at, (size_t)n);
        session->out_len += (size_t)n;
    }
}

static struct agent_stream *stream_of_item(struct wire_scheduler_item *item)
{
    return (struct agent_stream *)(void *)((char *)item - offsetof(struct agent_stream, item));
}

// One frame of the stream whose turn it is. False: no stream has anything to send.
static bool serve_next(struct agent_session *session)
{
    size_t allowance;
    struct wire_scheduler_item *item = wire_scheduler_next(&session->scheduler, &allowance);
    if (!item) return false;
    struct agent_stream *stream = stream_of_item(item);
    session->served = stream;
    stream->allowance = allowance;
    stream->deferred = false;
    nghttp2_session_resume_data(session->h2, stream->id);
    take_frames(session);
    // The frame that ended the stream may have freed it; one that still holds its allowance has no
    // credit.
    if (session->served && stream->allowance) {
        stream->allowance = 0;
        wire_scheduler_block(&session->scheduler, item);
    }
    session->served = NULL;
    return true;
}

size_t agent_session_take(struct agent_session *session, uint8_t *out, size_t cap)
{
    session->out = out;
    session->out_len = 0;
    session->out_cap = cap < AGENT_SESSION_TAKE_BYTES ? cap : AGENT_SESSION_TAKE_BYTES;
    session->now_us = clock_mono_us();
    tell_writable(session);
    take_frames(session);
    while (has_room(session) && serve_next(session))
        continue;
    session->out = NULL;
    session->out_cap = 0;
    return session->out_len;
}

void agent_session_drain(struct agent_session *session)
{
    if (session->draining) return;
    session->draining = true;
    nghttp2_submit_shutdown_notice(session->h2);
    agent_session_wants_write(session);
}

bool agent_session_is_busy(const struct agent_session *session)
{
    return session->stream_count || (session->draining && !session->drained);
}

bool agent_session_send_control(struct agent_session *session, const uint8_t *at, size_t len)
{
    if (len > sizeof(session->control_out) || session->control_out_len) return false; // the last one still waits
    memcpy(session->control_out, at, len);
    session->control_out_len = len;
    bool is_taken = nghttp2_submit_extension(session->h2, WIRE_CONTROL_FRAME, NGHTTP2_FLAG_NONE, 0, NULL) == 0;
    if (!is_taken) session->control_out_len = 0;
    agent_session_wants_write(session);
    return is_taken;
}

unsigned agent_session_stream_count(const struct agent_session *session)
{
    return session->stream_count;
}

void agent_session_set_rtt(struct agent_session *session, uint64_t rtt_us)
{
    wire_rtt_measured(&session->rtt, rtt_us, session->carried_bytes < QUIET_BYTES);
    session->carried_bytes = 0;
}

void agent_session_wants_write(struct agent_session *session)
{
    if (session->writable || session->scheduler.waiting || nghttp2_session_want_write(session->h2))
        session->events.on_wants_write(session->arg);
}
