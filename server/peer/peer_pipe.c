#include "server/peer/peer_pipe.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/byte_queue.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "server/peer/peer_wire.h"

enum { CONNECTION_WINDOW = 0x7fffffff, SETTINGS_MAX = 16, OUTBOUND_ACK_MAX = 100, SHUT_MS = 3000 };

// A header block on its way in: texts in one buffer, by offset, because the buffer moves while it grows.
struct head {
    struct strbuf text;
    struct {
        size_t name, name_len, value, value_len;
    } fields[PEER_WIRE_FIELDS_MAX];
    size_t count;
    int status;
    bool is_link; // :status apart
};

struct peer_pipe {
    struct peer_pool *pool;
    struct tls_stream *tls; // NULL until it is connected
    nghttp2_session *h2;
    struct peer_pipe_events events;
    void *arg;
    struct turn_item turn;
    struct peer_stream *streams;
    unsigned stream_count;
    struct head *head;
    uint64_t received_at_ms, pinged_at_ms; // the latter 0: no answer is due
    uint64_t growth_bytes;
    uint64_t shut_at_ms; // door: our end of the connection is closed, the peer's is awaited
    bool is_door, open, retired, ended;
    char broken[128];
};

struct peer_stream {
    struct peer_pipe *pipe;
    struct peer_stream *next, **link;
    int32_t id;
    const struct peer_stream_events *events; // NULL: reset, waits for nghttp2 to let go
    void *arg;
    struct byte_queue queue;
    struct tunnel_header *trailers; // one block with its texts; NULL: none
    size_t trailer_count;
    bool ended, deferred, local_ended, remote_ended, sent;
    size_t taken; // told at the end of the turn
    struct turn_item turn;
    uint32_t window;
    uint64_t unconsumed, round_bytes;
    bool lagged;
};

// ---- streams' lives ------------------------------------------------------------------------------------------------

static void on_stream_turn(struct turn_item *item)
{
    struct peer_stream *stream = (struct peer_stream *)((char *)item - offsetof(struct peer_stream, turn));
    size_t taken = stream->taken;
    stream->taken = 0;
    if (stream->events && taken && stream->events->on_taken) stream->events->on_taken(stream->arg, taken);
}

static struct peer_stream *stream_create(struct peer_pipe *pipe, int32_t id)
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
    pipe->stream_count--;
    pipe->growth_bytes -= stream->window - PEER_WINDOW_BYTES;
    turn_remove(&pipe->pool->tls.turn, &stream->turn);
    byte_queue_finish(&stream->queue);
    mem_free(stream->trailers);
    mem_free(stream);
}

static void stream_close(struct peer_stream *stream, uint32_t code, bool processed)
{
    const struct peer_stream_events *events = stream->events;
    bool whole = stream->remote_ended && stream->local_ended;
    // The peer has answered in full and wants no more of the request (RFC 9113 section 8.1).
    if (!stream->pipe->is_door && stream->remote_ended && code == NGHTTP2_NO_ERROR) whole = true;
    stream->events = NULL;
    if (events) events->on_close(stream->arg, code, whole, processed);
    stream_free(stream);
}

static void wake(struct peer_pipe *pipe)
{
    if (!pipe->ended) turn_add(&pipe->pool->tls.turn, &pipe->turn);
}

void peer_pipe_break(struct peer_pipe *pipe, const char *reason)
{
    if (!pipe->broken[0]) snprintf(pipe->broken, sizeof pipe->broken, "%.*s", (int)sizeof pipe->broken - 1, reason);
    wake(pipe);
}

// ---- frames that arrive --------------------------------------------------------------------------------------------

static void head_drop(struct peer_pipe *pipe)
{
    if (!pipe->head) return;
    strbuf_finish(&pipe->head->text);
    mem_free(pipe->head);
    pipe->head = NULL;
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct peer_pipe *pipe = arg;
    head_drop(pipe);
    pipe->head = mem_zalloc(sizeof *pipe->head);
    strbuf_init(&pipe->head->text, PEER_WIRE_HEAD_BYTES_MAX);
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, stream_create(pipe, frame->hd.stream_id));
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    (void)h2;
    (void)frame;
    (void)flags;
    struct peer_pipe *pipe = arg;
    struct head *head = pipe->head;
    if (!head) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (!pipe->is_door && str_eq(str_of((const char *)name, name_len), STR(":status"))) {
        head->status = 0;
        for (size_t i = 0; i < value_len; i++) // nghttp2 has checked that it is three digits
            head->status = head->status * 10 + (value[i] - '0');
        return 0;
    }
    size_t at = head->text.len;
    if (head->count == PEER_WIRE_FIELDS_MAX || !strbuf_add(&head->text, name, name_len) ||
        !strbuf_add(&head->text, value, value_len))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // resets the stream
    head->fields[head->count].name = at;
    head->fields[head->count].name_len = name_len;
    head->fields[head->count].value = at + name_len;
    head->fields[head->count].value_len = value_len;
    head->count++;
    return 0;
}

static void tell_fields(struct peer_stream *stream, const nghttp2_frame *frame, int status,
                        const struct tunnel_header *fields, size_t count)
{
    bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct peer_pipe *pipe = stream->pipe;
    if (pipe->is_door && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        stream->remote_ended = ended;
        pipe->events.on_request(pipe->arg, stream, fields, count, ended);
    } else if (!stream->events) {
        return;
    } else if (!pipe->is_door && status >= 100 && status < 200) {
        stream->events->on_info(stream->arg, status, fields, count);
    } else if (!pipe->is_door && status) {
        stream->events->on_head(stream->arg, status, fields, count);
    } else {
        stream->events->on_trailers(stream->arg, fields, count);
    }
}

static void take_head(struct peer_pipe *pipe, struct peer_stream *stream, const nghttp2_frame *frame)
{
    struct head *head = pipe->head;
    if (!head) return;
    pipe->head = NULL;
    struct tunnel_header *fields = mem_array(head->count + 1, sizeof *fields);
    for (size_t i = 0; i < head->count; i++) {
        fields[i].name = str_of(head->text.at + head->fields[i].name, head->fields[i].name_len);
        fields[i].value = str_of(head->text.at + head->fields[i].value, head->fields[i].value_len);
    }
    if (stream) tell_fields(stream, frame, head->status, fields, head->count);
    mem_free(fields);
    strbuf_finish(&head->text);
    mem_free(head);
}

static int on_frame_recv(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct peer_pipe *pipe = arg;
    int32_t id = frame->hd.stream_id;
    struct peer_stream *stream = id ? nghttp2_session_get_stream_user_data(h2, id) : NULL;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        if (pipe->events.on_goaway) pipe->events.on_goaway(pipe->arg);
        pipe->retired = true;
        wake(pipe);
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
        stream->events->on_remote_end(stream->arg);
    }
    return 0;
}

static int on_data_chunk(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    (void)flags;
    (void)arg;
    if (nghttp2_session_consume_connection(h2, len)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    struct peer_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    if (!stream || !stream->events) return 0;
    if (stream->unconsumed > stream->window / 2) stream->lagged = true;
    stream->unconsumed += len;
    stream->events->on_data(stream->arg, at, len);
    return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    (void)arg;
    struct peer_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
    if (!stream) return 0;
    nghttp2_session_set_stream_user_data(h2, id, NULL);
    stream_close(stream, code, stream->sent && code != NGHTTP2_REFUSED_STREAM);
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

static int on_frame_send(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct peer_pipe *pipe = arg;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    struct peer_stream *stream = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (!stream) return 0;
    stream->sent = true;
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    stream->local_ended = true;
    // The answer is complete: what is still to come of the request is of no use to anybody.
    if (pipe->is_door && !stream->remote_ended)
        nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
    return 0;
}

static nghttp2_nv *make_fields(const struct tunnel_header *fields, size_t count, int status, char *text, size_t *out)
{
    nghttp2_nv *all = mem_array(count + 1, sizeof *all);
    size_t used = 0;
    if (status) {
        snprintf(text, 8, "%d", status);
        all[used++] = (nghttp2_nv){(uint8_t *)(uintptr_t) ":status", (uint8_t *)text, 7, strlen(text), 0};
    }
    for (size_t i = 0; i < count; i++) {
        // nghttp2's type is not const; it copies and does not write.
        all[used++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)fields[i].name.at,
                                   .namelen = fields[i].name.len,
                                   .value = (uint8_t *)(uintptr_t)(fields[i].value.at ? fields[i].value.at : ""),
                                   .valuelen = fields[i].value.len};
    }
    *out = used;
    return all;
}

static void submit_trailers(struct peer_stream *stream)
{
    char text[8];
    size_t count;
    nghttp2_nv *all = make_fields(stream->trailers, stream->trailer_count, 0, text, &count);
    nghttp2_submit_trailer(stream->pipe->h2, stream->id, all, count);
    mem_free(all);
}

static ssize_t read_body(nghttp2_session *h2, int32_t id, uint8_t *out, size_t cap, uint32_t *flags,
                         nghttp2_data_source *source, void *arg)
{
    (void)h2;
    (void)id;
    (void)arg;
    struct peer_stream *stream = source->ptr;
    size_t len = stream->queue.len < cap ? stream->queue.len : cap;
    if (!stream->events || (len == 0 && !stream->ended)) {
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
        if (stream->trailers) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            submit_trailers(stream);
        }
    }
    return (ssize_t)len;
}

static void pump(struct peer_pipe *pipe)
{
    while (pipe->open && !pipe->broken[0] && tls_stream_queued(pipe->tls) < TLS_STREAM_QUEUE_HIGH) {
        const uint8_t *at;
        ssize_t len = nghttp2_session_mem_send(pipe->h2, &at);
        if (len < 0) peer_pipe_break(pipe, nghttp2_strerror((int)len));
        if (len <= 0) break;
        if (!tls_stream_write(pipe->tls, at, (size_t)len)) break;
    }
}

// ---- the connection ------------------------------------------------------------------------------------------------

static void on_open(void *arg)
{
    struct peer_pipe *pipe = arg;
    pipe->open = true;
    pipe->received_at_ms = clock_mono_ms();
    tls_stream_read_start(pipe->tls);
    wake(pipe);
}

static void on_data(void *arg, const char *at, size_t len)
{
    struct peer_pipe *pipe = arg;
    if (pipe->broken[0]) return;
    pipe->received_at_ms = clock_mono_ms();
    pipe->pinged_at_ms = 0;
    ssize_t n = nghttp2_session_mem_recv(pipe->h2, (const uint8_t *)at, len);
    if (n < 0) peer_pipe_break(pipe, nghttp2_strerror((int)n));
    wake(pipe);
}

static void on_eof(void *arg)
{
    peer_pipe_break(arg, "the peer closed the connection");
}

static void on_drain(void *arg)
{
    wake(arg);
}

static void on_fail(void *arg, const struct error *err)
{
    peer_pipe_break(arg, err->text);
}

static const struct tls_stream_events tls_events = {
    .on_open = on_open, .on_data = on_data, .on_eof = on_eof, .on_drain = on_drain, .on_fail = on_fail};

void peer_pipe_attach(struct peer_pipe *pipe, uv_tcp_t *tcp, SSL_CTX *ssl, uint64_t handshake_timeout_ms)
{
    assert(!pipe->tls);
    pipe->tls = tls_stream_create(&pipe->pool->tls, tcp, ssl, handshake_timeout_ms, &tls_events, pipe);
}

// ---- life ----------------------------------------------------------------------------------------------------------

static void free_pipe(void *arg)
{
    struct peer_pipe *pipe = arg;
    struct peer_pool *pool = pipe->pool;
    mem_free(pipe);
    if (--pool->pipes == 0 && pool->on_empty) pool->on_empty(pool->empty_arg);
}

void peer_pipe_destroy(struct peer_pipe *pipe)
{
    if (!pipe || pipe->ended) return;
    pipe->ended = true;
    turn_remove(&pipe->pool->tls.turn, &pipe->turn);
    while (pipe->streams) {
        struct peer_stream *stream = pipe->streams;
        nghttp2_session_set_stream_user_data(pipe->h2, stream->id, NULL);
        stream_close(stream, NGHTTP2_INTERNAL_ERROR, stream->sent);
    }
    head_drop(pipe);
    nghttp2_session_del(pipe->h2);
    pipe->h2 = NULL;
    if (pipe->tls)
        tls_stream_close(pipe->tls, free_pipe, pipe);
    else
        free_pipe(pipe);
}

static void on_turn(struct turn_item *item)
{
    struct peer_pipe *pipe = (struct peer_pipe *)((char *)item - offsetof(struct peer_pipe, turn));
    pump(pipe);
    bool done = pipe->retired && pipe->stream_count == 0 && (!pipe->open || !nghttp2_session_want_write(pipe->h2));
    if (!pipe->broken[0] && done && pipe->is_door && pipe->open) {
        // What was answered last must not be cut off by a reset: the link closes when it has read all.
        if (!pipe->shut_at_ms) pipe->shut_at_ms = clock_mono_ms();
        tls_stream_shutdown(pipe->tls);
        return;
    }
    if (!pipe->broken[0] && !done) return;
    struct peer_pipe_events events = pipe->events;
    void *arg = pipe->arg;
    char reason[sizeof pipe->broken];
    snprintf(reason, sizeof reason, "%s", pipe->broken[0] ? pipe->broken : "retired");
    peer_pipe_destroy(pipe);
    events.on_lost(arg, reason);
}

void peer_pipe_retire(struct peer_pipe *pipe)
{
    if (pipe->retired) return;
    pipe->retired = true;
    int32_t last = nghttp2_session_get_last_proc_stream_id(pipe->h2);
    nghttp2_submit_goaway(pipe->h2, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
    wake(pipe);
}

void peer_pipe_tick(struct peer_pipe *pipe, uint64_t now_ms)
{
    if (!pipe->open || pipe->broken[0]) return;
    if (pipe->shut_at_ms) {
        if (now_ms >= pipe->shut_at_ms + SHUT_MS) peer_pipe_break(pipe, "retired");
    } else if (pipe->pinged_at_ms && now_ms >= pipe->pinged_at_ms + PEER_SILENT_MS) {
        peer_pipe_break(pipe, "the peer is silent");
    } else if (!pipe->pinged_at_ms && pipe->stream_count && now_ms >= pipe->received_at_ms + PEER_SILENT_MS) {
        pipe->pinged_at_ms = now_ms;
        nghttp2_submit_ping(pipe->h2, NGHTTP2_FLAG_NONE, NULL);
        wake(pipe);
    }
}

unsigned peer_pipe_streams(const struct peer_pipe *pipe)
{
    return pipe->stream_count;
}

bool peer_pipe_takes_calls(const struct peer_pipe *pipe)
{
    return !pipe->broken[0] && !pipe->retired && nghttp2_session_check_request_allowed(pipe->h2);
}

static nghttp2_session *h2_create(struct peer_pipe *pipe, unsigned streams_max)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *h2 = NULL;
    // These fail when memory has run out, and that ends the process.
    if (nghttp2_session_callbacks_new(&callbacks) || nghttp2_option_new(&option)) abort();
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_option_set_no_auto_window_update(option, 1); // credit is the consumer's to give
    nghttp2_option_set_max_deflate_dynamic_table_size(option, 0);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    nghttp2_option_set_max_outbound_ack(option, OUTBOUND_ACK_MAX);
    nghttp2_option_set_max_reserved_remote_streams(option, 0);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, 2 * PEER_WIRE_HEAD_BYTES_MAX);
    if (pipe->is_door ? nghttp2_session_server_new2(&h2, callbacks, pipe, option)
                      : nghttp2_session_client_new2(&h2, callbacks, pipe, option))
        abort();
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, PEER_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 2 * PEER_WIRE_HEAD_BYTES_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
        pipe->is_door ? (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams_max}
                      : (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
    };
    size_t count = sizeof settings / sizeof *settings - (pipe->is_door ? 0 : 1);
    if (nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, settings, count) ||
        nghttp2_session_set_local_window_size(h2, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW))
        abort();
    return h2;
}

struct peer_pipe *peer_pipe_create(struct peer_pool *pool, bool is_door, unsigned streams_max,
                                   const struct peer_pipe_events *events, void *arg)
{
    struct peer_pipe *pipe = mem_zalloc(sizeof *pipe);
    pipe->pool = pool;
    pool->pipes++;
    pipe->is_door = is_door;
    pipe->events = *events;
    pipe->arg = arg;
    pipe->turn.run = on_turn;
    pipe->h2 = h2_create(pipe, streams_max);
    return pipe;
}

// ---- what streams do -----------------------------------------------------------------------------------------------

struct peer_stream *peer_stream_open(struct peer_pipe *pipe, const struct tunnel_header *fields, size_t count,
                                     bool ended, const struct peer_stream_events *events, void *arg)
{
    if (!peer_pipe_takes_calls(pipe)) return NULL;
    struct peer_stream *stream = stream_create(pipe, 0);
    stream->events = events;
    stream->arg = arg;
    stream->ended = ended;
    nghttp2_data_provider body = {.source.ptr = stream, .read_callback = read_body};
    char text[8];
    size_t used;
    nghttp2_nv *all = make_fields(fields, count, 0, text, &used);
    stream->id = nghttp2_submit_request(pipe->h2, NULL, all, used, ended ? NULL : &body, stream);
    mem_free(all);
    if (stream->id < 0) {
        stream_free(stream);
        pipe->retired = true; // stream ids have run out
        return NULL;
    }
    wake(pipe);
    return stream;
}

void peer_stream_bind(struct peer_stream *stream, const struct peer_stream_events *events, void *arg)
{
    stream->events = events;
    stream->arg = arg;
}

void peer_stream_info(struct peer_stream *stream, int status, const struct tunnel_header *fields, size_t count)
{
    char text[8];
    size_t used;
    nghttp2_nv *all = make_fields(fields, count, status, text, &used);
    nghttp2_submit_headers(stream->pipe->h2, NGHTTP2_FLAG_NONE, stream->id, NULL, all, used, NULL);
    mem_free(all);
    wake(stream->pipe);
}

void peer_stream_head(struct peer_stream *stream, int status, const struct tunnel_header *fields, size_t count,
                      bool ended)
{
    char text[8];
    size_t used;
    nghttp2_data_provider body = {.source.ptr = stream, .read_callback = read_body};
    nghttp2_nv *all = make_fields(fields, count, status, text, &used);
    stream->ended = ended;
    nghttp2_submit_response(stream->pipe->h2, stream->id, all, used, ended ? NULL : &body);
    mem_free(all);
    wake(stream->pipe);
}

static void resume(struct peer_stream *stream)
{
    if (!stream->deferred) return;
    stream->deferred = false;
    nghttp2_session_resume_data(stream->pipe->h2, stream->id);
    wake(stream->pipe);
}

void peer_stream_write(struct peer_stream *stream, const void *at, size_t len)
{
    assert(stream->events && !stream->ended);
    // Whoever writes so far beyond "full" is broken, and so is his call.
    if (!byte_queue_add(&stream->queue, at, len))
        nghttp2_submit_rst_stream(stream->pipe->h2, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_INTERNAL_ERROR);
    resume(stream);
}

void peer_stream_end(struct peer_stream *stream, const struct tunnel_header *trailers, size_t count)
{
    assert(stream->events);
    if (stream->ended) return;
    stream->ended = true;
    if (count) {
        size_t bytes = count * sizeof *trailers;
        for (size_t i = 0; i < count; i++)
            bytes += trailers[i].name.len + trailers[i].value.len;
        stream->trailers = mem_alloc(bytes);
        stream->trailer_count = count;
        char *text = (char *)(stream->trailers + count);
        for (size_t i = 0; i < count; i++) {
            if (trailers[i].name.len) memcpy(text, trailers[i].name.at, trailers[i].name.len);
            stream->trailers[i].name = str_of(text, trailers[i].name.len);
            text += trailers[i].name.len;
            if (trailers[i].value.len) memcpy(text, trailers[i].value.at, trailers[i].value.len);
            stream->trailers[i].value = str_of(text, trailers[i].value.len);
            text += trailers[i].value.len;
        }
    }
    resume(stream);
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
    wake(stream->pipe);
}

void peer_stream_reset(struct peer_stream *stream, uint32_t code)
{
    stream->events = NULL;
    byte_queue_finish(&stream->queue);
    nghttp2_submit_rst_stream(stream->pipe->h2, NGHTTP2_FLAG_NONE, stream->id, code);
    wake(stream->pipe);
}
