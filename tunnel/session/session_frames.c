// The session's frames: nghttp2's callbacks and settings. A callback never ends the session: it
// stores the reason in `broken` and fails, and the caller that fed the bytes ends it.
#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/http2/http2_session.h"
#include "base/mem.h"
#include "tunnel/call/stream.h"
#include "tunnel/session/header_intake.h"
#include "tunnel/session/session.h"

enum {
    CONNECTION_WINDOW = 0x7fffffff, // never the limiter: memory is bounded by streams' windows and the budgets
    SETTINGS_MAX = 16,              // entries in one SETTINGS frame
    OUTBOUND_ACK_MAX = 100,         // answers to PING and SETTINGS that may wait
    FRAME_HEAD_BYTES = 9,
    DATA_BYTES_MAX = 16 * 1024, // of a frame; as much as a quantum of the scheduler
    CONTROLS_WAITING_MAX = 64,  // operations find no room behind so many control messages
};

// A control message that nghttp2 has not serialised yet.
struct session_payload {
    struct session_payload *next;
    size_t len;
    uint8_t at[];
};

// ---- frames that arrive --------------------------------------------------------------------------------------

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    (void)h2;
    (void)frame;
    struct tunnel_session *session = arg;
    header_intake_destroy(session->head);
    session->head = header_intake_create(TUNNEL_HEADERS_MAX, TUNNEL_HEADER_BYTES_MAX);
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    (void)h2;
    (void)frame;
    (void)flags;
    const struct tunnel_session *session = arg;
    bool fits = session->head && header_intake_add(session->head, str_of((const char *)name, name_len),
                                                   str_of((const char *)value, value_len));
    return fits ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // resets the stream
}

static void take_head(struct tunnel_session *session, struct tunnel_stream *stream)
{
    struct header_intake *head = session->head;
    if (!head) return;
    session->head = NULL;
    if (stream) {
        struct header_block fields = header_intake_fields(head);
        tunnel_stream_take_head(stream, header_intake_status(head), fields.at, fields.count);
        header_block_finish(&fields);
    }
    header_intake_destroy(head);
}

static int on_extension_chunk(nghttp2_session *h2, const nghttp2_frame_hd *hd, const uint8_t *at, size_t len, void *arg)
{
    (void)h2;
    struct tunnel_session *session = arg;
    if (hd->stream_id != 0 || hd->length > WIRE_CONTROL_BYTES_MAX ||
        session->control_len + len > WIRE_CONTROL_BYTES_MAX) {
        tunnel_session_break(session, "control message is too long or not on stream 0");
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (!session->control) session->control = mem_alloc(WIRE_CONTROL_BYTES_MAX);
    memcpy(session->control + session->control_len, at, len);
    session->control_len += len;
    return 0;
}

static int unpack_extension(nghttp2_session *h2, void **payload, const nghttp2_frame_hd *hd, void *arg)
{
    (void)h2;
    (void)hd;
    (void)arg;
    *payload = NULL; // the bytes are in session->control
    return 0;
}

static int take_control(struct tunnel_session *session)
{
    struct wire_control control;
    struct error err;
    enum error_code code = wire_control_decode(session->control, session->control_len, &control, &err);
    if (!code) tunnel_session_take_control(session, &control);
    if (code && code != ERROR_NOT_FOUND) tunnel_session_break(session, "%s", err.text);
    mem_free(session->control);
    session->control = NULL;
    session->control_len = 0;
    return session->broken[0] ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static uint64_t opaque_get(const uint8_t opaque[8])
{
    uint64_t value;
    memcpy(&value, opaque, sizeof(value));
    return value;
}

static int on_frame_recv(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct tunnel_session *session = arg;
    struct tunnel_stream *stream = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS: take_head(session, stream); break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK) tunnel_session_take_pong(session, opaque_get(frame->ping.opaque_data));
        return 0;
    case NGHTTP2_GOAWAY: tunnel_session_check_finish(session); return 0;
    case WIRE_CONTROL_FRAME: return take_control(session);
    default: break;
    }
    // The stream may have been reset by its consumer meanwhile, but it is freed by on_stream_close
    // only.
    bool ends = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (stream && ends && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) tunnel_stream_take_end(stream);
    return 0;
}

static int on_data_chunk(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    (void)flags;
    const struct tunnel_session *session = arg;
    if (nghttp2_session_consume_connection(h2, len)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    struct tunnel_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    if (stream) tunnel_stream_take_data(stream, at, len);
    return session->broken[0] ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    (void)arg;
    struct tunnel_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    if (!stream) return 0;
    nghttp2_session_set_stream_user_data(h2, id, NULL);
    tunnel_stream_take_close(stream, code);
    return 0;
}

static int on_invalid_frame(nghttp2_session *h2, const nghttp2_frame *frame, int code, void *arg)
{
    (void)h2;
    struct tunnel_session *session = arg;
    if (!session->broken[0] && frame->hd.stream_id == 0)
        snprintf(session->broken, sizeof(session->broken), "HTTP/2: %s", nghttp2_strerror(code));
    return 0;
}

// ---- frames that leave ---------------------------------------------------------------------------------------

static void payload_drop(struct tunnel_session *session, const void *payload)
{
    struct session_payload **at = &session->controls;
    while (*at && *at != payload)
        at = &(*at)->next;
    if (!*at) return;
    struct session_payload *found = *at;
    *at = found->next;
    mem_free(found);
}

static ssize_t pack_extension(nghttp2_session *h2, uint8_t *at, size_t cap, const nghttp2_frame *frame, void *arg)
{
    (void)h2;
    (void)arg;
    const struct session_payload *payload = frame->ext.payload;
    if (payload->len > cap) return NGHTTP2_ERR_CANCEL;
    memcpy(at, payload->at, payload->len);
    return (ssize_t)payload->len;
}

// From here on the frame may leave, and does unless the session ends.
static int on_before_frame_send(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    (void)arg;
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    struct tunnel_stream *stream = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (stream) stream->head_left = true;
    return 0;
}

static int on_frame_send(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    (void)h2;
    if (frame->hd.type == WIRE_CONTROL_FRAME) payload_drop(arg, frame->ext.payload);
    return 0;
}

static int on_frame_not_send(nghttp2_session *h2, const nghttp2_frame *frame, int code, void *arg)
{
    (void)code;
    return on_frame_send(h2, frame, arg);
}

bool tunnel_session_takes_control(const struct tunnel_session *session)
{
    size_t waiting = 0;
    for (const struct session_payload *payload = session->controls; payload; payload = payload->next)
        waiting++;
    return waiting < CONTROLS_WAITING_MAX;
}

void tunnel_session_send_control(struct tunnel_session *session, const struct wire_control *control)
{
    struct strbuf text;
    strbuf_init(&text, WIRE_CONTROL_BYTES_MAX);
    if (wire_control_encode(control, &text, NULL) == ERROR_NONE) {
        struct session_payload *payload = mem_alloc(sizeof(*payload) + text.len);
        payload->len = text.len;
        memcpy(payload->at, text.at, text.len);
        payload->next = session->controls;
        session->controls = payload;
        if (nghttp2_submit_extension(session->h2, WIRE_CONTROL_FRAME, NGHTTP2_FLAG_NONE, 0, payload))
            payload_drop(session, payload);
        tunnel_session_wants_write(session);
    }
    strbuf_finish(&text);
}

// DATA goes straight from its stream's queue into the message.
static int send_data(nghttp2_session *h2, nghttp2_frame *frame, const uint8_t *head, size_t len,
                     nghttp2_data_source *source, void *arg)
{
    (void)source;
    struct tunnel_session *session = arg;
    struct tunnel_stream *stream = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (!stream || session->out_cap - session->out_len < FRAME_HEAD_BYTES + len) return NGHTTP2_ERR_WOULDBLOCK;
    memcpy(session->out + session->out_len, head, FRAME_HEAD_BYTES);
    tunnel_stream_take_out(stream, session->out + session->out_len + FRAME_HEAD_BYTES, len);
    session->out_len += FRAME_HEAD_BYTES + len;
    assert(session->out_len <= session->out_cap);
    return 0;
}

// Takes all that nghttp2 has to send now. Copies while there is room; the rest of the frame that
// did not fit waits in `unsent`, which nghttp2 keeps until it is asked again. False: no room any
// more.
static bool frames_copy(struct tunnel_session *session)
{
    for (;;) {
        if (session->unsent_len == 0) {
            ssize_t len = nghttp2_session_mem_send(session->h2, &session->unsent);
            if (len < 0) tunnel_session_break(session, "HTTP/2: %s", nghttp2_strerror((int)len));
            if (len <= 0) return len == 0;
            session->unsent_len = (size_t)len;
        }
        size_t room = session->out_cap - session->out_len;
        size_t len = session->unsent_len < room ? session->unsent_len : room;
        memcpy(session->out + session->out_len, session->unsent, len);
        session->unsent += len;
        session->unsent_len -= len;
        session->out_len += len;
        if (session->unsent_len) return false;
    }
}

// Lets the stream that is next hand out a frame. False: no stream waits, or there is no room for
// one.
static bool frames_grant(struct tunnel_session *session)
{
    size_t allowance = 0;
    struct wire_scheduler_item *item = wire_scheduler_next(&session->scheduler, &allowance);
    if (!item) return false;
    struct tunnel_stream *stream = (struct tunnel_stream *)((char *)item - offsetof(struct tunnel_stream, sending));
    size_t want = stream->queue.len < DATA_BYTES_MAX ? stream->queue.len : DATA_BYTES_MAX;
    if (session->out_cap - session->out_len < FRAME_HEAD_BYTES + want) return false;
    metric_observe(session->node->broker->meter.scheduler_wait[item->class],
                   (double)(clock_mono_us() - item->ready_at_us) / 1e6);
    stream->allowance = allowance;
    session->granted = stream;
    nghttp2_session_resume_data(session->h2, stream->id); // fails when it does not sleep: it will be asked all the same
    return true;
}

size_t tunnel_session_frames_take(struct tunnel_session *session, uint8_t *out, size_t cap)
{
    session->out = out;
    session->out_cap = cap;
    session->out_len = 0;
    while (frames_copy(session)) {
        if (session->granted) { // nothing came of it: HTTP/2's credit is used up, or its HEADERS have not left
            session->granted->allowance = 0;
            wire_scheduler_block(&session->scheduler, &session->granted->sending);
            session->granted = NULL;
        } else if (!frames_grant(session)) {
            break;
        }
    }
    if (session->granted) session->granted->allowance = 0; // another frame took the room: it is the next one still
    session->granted = NULL;
    session->out = NULL;
    return session->out_len;
}

// ---- life ----------------------------------------------------------------------------------------------------

static void frames_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_extension_chunk_recv_callback(callbacks, on_extension_chunk);
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, unpack_extension);
    nghttp2_session_callbacks_set_pack_extension_callback(callbacks, pack_extension);
    nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, on_before_frame_send);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
}

nghttp2_session *tunnel_session_frames_create(struct tunnel_session *session)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0}, // no memory of headers a session, and none to attack
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WIRE_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, TUNNEL_HEADER_BYTES_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}, // the agent orders answers by RFC 9218
    };
    session->memory = session_memory_create(&session->node->memory);
    return http2_session_create(&(struct http2_session_options){
        .set_callbacks = frames_set_callbacks,
        .arg = session,
        .settings_max = SETTINGS_MAX,
        .acks_max = OUTBOUND_ACK_MAX,
        .stateless_hpack = true, // see SETTINGS above
        .no_pushes = true,
        .forgets_closed = true,
        .extension = WIRE_CONTROL_FRAME,
        .memory = session_memory_callbacks(session->memory),
        .settings = settings,
        .setting_count = sizeof settings / sizeof *settings,
        .window_bytes = CONNECTION_WINDOW,
    });
}

void tunnel_session_frames_finish(struct tunnel_session *session)
{
    header_intake_destroy(session->head);
    mem_free(session->control);
    nghttp2_session_del(session->h2);
    session_memory_destroy(session->memory);
    while (session->controls) {
        struct session_payload *payload = session->controls;
        session->controls = payload->next;
        mem_free(payload);
    }
}
