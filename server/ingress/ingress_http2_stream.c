#include "base/http1/http1.h"
#include "base/http2/http2_session.h"
#include "base/log/log.h"
#include "server/ingress/ingress_http2_state.h"

enum {
    FIELD_OVERHEAD = 32, // of a field in a header list's size (RFC 9113 section 6.5.2)
    PORT_DIGITS_MAX = 5,
    FRAME_HEAD_BYTES = 9, // RFC 9113 section 4.1
};

static uint64_t now_ms(const struct ingress_http2_stream *stream)
{
    return ingress_connection_now_ms(stream->http2->connection);
}

// ---- life ----------------------------------------------------------------------------------------------------

struct ingress_http2_stream *ingress_http2_stream_create(struct ingress_http2 *http2, int32_t id)
{
    struct arena *arena = call_proxy_take_arena(&http2->connection->ingress->calls);
    struct ingress_http2_stream *stream = arena_alloc(arena, sizeof *stream);
    stream->http2 = http2;
    stream->id = id;
    stream->arena = arena;
    stream->headers = arena_array(arena, HTTP1_HEADERS_MAX, sizeof *stream->headers);
    stream->window = INGRESS_HTTP2_STREAM_WINDOW;
    stream->read_at_ms = stream->sent_at_ms = now_ms(stream);
    stream->next = http2->first;
    stream->link = &http2->first;
    if (http2->first) http2->first->link = &stream->next;
    http2->first = stream;
    http2->streams++;
    return stream;
}

void ingress_http2_stream_destroy(struct ingress_http2_stream *stream)
{
    struct ingress *ingress = stream->http2->connection->ingress;
    call_exchange_destroy(stream->exchange);
    *stream->link = stream->next;
    if (stream->next) stream->next->link = stream->link;
    stream->http2->streams--;
    if (stream->leaving) stream->http2->leaving--;
    ingress->buffered_bytes -= byte_queue_len(&stream->in);
    byte_queue_finish(&stream->in);
    byte_queue_finish(&stream->out);
    call_proxy_give_arena(&ingress->calls, stream->arena);
}

void ingress_http2_stream_reset(struct ingress_http2_stream *stream, uint32_t code, const char *reason)
{
    struct ingress_connection *connection = stream->http2->connection;
    metric_add(metric_with(connection->ingress->cuts, reason), 1);
    log_debug("ingress", "stream_reset", log_c("peer", connection->peer), log_c("reason", reason));
    (void)nghttp2_submit_rst_stream(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id, code);
    ingress_connection_wake(connection);
}

// ---- the request's head --------------------------------------------------------------------------------------

static bool take_pseudo(struct ingress_http2_stream *stream, struct str name, struct str value)
{
    if (name.len == 0 || name.at[0] != ':') return false;
    if (str_eq(name, STR(":method")))
        stream->method = value;
    else if (str_eq(name, STR(":authority")))
        stream->authority = value;
    else if (str_eq(name, STR(":path")))
        stream->path = value;
    else if (str_eq(name, STR(":protocol")))
        stream->protocol = value;
    return true;
}

bool ingress_http2_stream_add_field(struct ingress_http2_stream *stream, struct str name, struct str value,
                                    bool is_trailer)
{
    size_t bytes_max = stream->http2->connection->ingress->options.head_bytes_max;
    size_t count = is_trailer ? stream->trailer_count : stream->header_count;
    size_t count_max = is_trailer ? INGRESS_HTTP2_TRAILERS_MAX : HTTP1_HEADERS_MAX;
    stream->head_bytes += name.len + value.len + FIELD_OVERHEAD;
    if (stream->head_bytes > bytes_max || count == count_max) {
        if (!stream->too_large) ingress_http2_count_abuse(stream->http2, INGRESS_HTTP2_ABUSE_LARGE);
        stream->too_large = true;
    }
    if (stream->too_large) return stream->head_bytes <= 2 * bytes_max;
    char *copy = arena_alloc(stream->arena, name.len + value.len + 1);
    if (name.len) memcpy(copy, name.at, name.len);
    if (value.len) memcpy(copy + name.len, value.at, value.len);
    name = str_of(copy, name.len);
    value = str_of(copy + name.len, value.len);
    if (is_trailer)
        stream->trailers[stream->trailer_count++] = (struct http_header){name, str_trim(value)};
    else if (!take_pseudo(stream, name, value))
        stream->headers[stream->header_count++] = (struct http_header){name, str_trim(value)};
    return true;
}

static struct str find_header(const struct ingress_http2_stream *stream, struct str name)
{
    for (size_t i = 0; i < stream->header_count; i++)
        if (str_eq(stream->headers[i].name, name)) return stream->headers[i].value;
    return STR_EMPTY;
}

// A host name with or without a port: what else an authority could be names nobody here.
static bool is_authority(struct str authority)
{
    struct str name;
    bool has_port = str_cut(&authority, ':', &name);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                  c == '_';
        if (!ok) return false;
    }
    if (!has_port) return name.len > 0;
    for (size_t i = 0; i < authority.len; i++)
        if (authority.at[i] < '0' || authority.at[i] > '9') return false;
    return name.len > 0 && authority.len <= PORT_DIGITS_MAX;
}

// RFC 9113 section 8.3.1: Host may repeat :authority or stand for it, and may not say something else.
static bool has_one_authority(struct ingress_http2_stream *stream)
{
    size_t hosts = 0;
    for (size_t i = 0; i < stream->header_count; i++)
        if (str_eq(stream->headers[i].name, STR("host"))) hosts++;
    struct str host = find_header(stream, STR("host"));
    if (stream->authority.len == 0) stream->authority = host;
    return hosts <= 1 && (hosts == 0 || str_eq_nocase(host, stream->authority)) && is_authority(stream->authority);
}

void ingress_http2_stream_start(struct ingress_http2_stream *stream)
{
    bool sound = has_one_authority(stream);
    const struct call_head request = {
        .method = stream->method,
        .target = stream->path,
        .host = sound ? stream->authority : STR_EMPTY,
        .peer = str_c(stream->http2->connection->peer),
        .tls = stream->http2->connection->ingress->tls != NULL,
        .protocol = stream->protocol,
        .expect = find_header(stream, STR("expect")),
        .headers = stream->headers,
        .header_count = stream->header_count,
        .complete = stream->ended,
        .has_length = find_header(stream, STR("content-length")).len > 0,
        .refused = stream->too_large ? CALL_REFUSED_TOO_LARGE
                   : sound           ? CALL_REFUSED_NOT
                                     : CALL_REFUSED_BAD,
    };
    stream->exchange =
        call_exchange_create(&stream->http2->connection->ingress->calls, &request, &ingress_http2_stream_front, stream);
    call_exchange_start(stream->exchange);
}

// ---- the request's body --------------------------------------------------------------------------------------

// A stream that the tunnel keeps up with may have more on its way.
static void grow_window(struct ingress_http2_stream *stream, size_t len)
{
    struct ingress *ingress = stream->http2->connection->ingress;
    stream->window_taken += (uint32_t)len;
    if (stream->window_taken < stream->window) return;
    if (!stream->window_waited && stream->window < INGRESS_HTTP2_STREAM_WINDOW_MAX &&
        ingress->buffered_bytes < ingress->options.buffered_bytes_max / 2) {
        stream->window *= 2;
        (void)nghttp2_session_set_local_window_size(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id,
                                                    (int32_t)stream->window);
    }
    stream->window_taken = 0;
    stream->window_waited = false;
}

static void feed(struct ingress_http2_stream *stream, const uint8_t *at, size_t len)
{
    call_exchange_feed(stream->exchange, (const char *)at, len);
    if (stream->ended) return; // credit is of no use any more
    (void)nghttp2_session_consume_stream(stream->http2->session, stream->id, len);
    grow_window(stream, len);
}

void ingress_http2_stream_take_data(struct ingress_http2_stream *stream, const uint8_t *at, size_t len)
{
    struct ingress *ingress = stream->http2->connection->ingress;
    stream->read_at_ms = now_ms(stream);
    if (!stream->exchange || call_exchange_is_over(stream->exchange)) {
        (void)nghttp2_session_consume_stream(stream->http2->session, stream->id, len); // it is answered: dropped
        return;
    }
    if (byte_queue_len(&stream->in) == 0 && call_exchange_wants(stream->exchange)) {
        feed(stream, at, len);
        return;
    }
    stream->window_waited = true;
    if (ingress->buffered_bytes + len > 2 * ingress->options.buffered_bytes_max) {
        ingress_http2_stream_reset(stream, NGHTTP2_ENHANCE_YOUR_CALM, "buffers-full");
        return;
    }
    (void)byte_queue_add(&stream->in, at, len); // its owner bounds it: by the stream's window
    ingress->buffered_bytes += len;
}

static void end_request(struct ingress_http2_stream *stream)
{
    if (byte_queue_len(&stream->in) > 0 || !stream->exchange) return;
    // Before an upgraded connection has begun, its end waits as its bytes do.
    if (stream->protocol.len > 0 && !call_exchange_is_raw(stream->exchange)) return;
    if (stream->too_large)
        call_exchange_feed_broken(stream->exchange, "the trailers are too large");
    else
        call_exchange_feed_end(stream->exchange, stream->trailers, stream->trailer_count);
}

void ingress_http2_stream_take_end(struct ingress_http2_stream *stream)
{
    stream->ended = true;
    end_request(stream);
}

void ingress_http2_stream_pump(struct ingress_http2_stream *stream)
{
    struct ingress *ingress = stream->http2->connection->ingress;
    size_t len = byte_queue_len(&stream->in);
    stream->pump = false;
    if (!stream->exchange) return;
    if (len > 0 && call_exchange_wants(stream->exchange)) {
        feed(stream, byte_queue_front(&stream->in), len);
        byte_queue_drop(&stream->in, len);
        ingress->buffered_bytes -= len;
    }
    if (stream->ended) end_request(stream);
}

// ---- the answer ----------------------------------------------------------------------------------------------

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t len, uint32_t *flags,
                        nghttp2_data_source *source, void *arg)
{
    struct ingress_http2_stream *stream = source->ptr;
    size_t have = byte_queue_len(&stream->out), take = have < len ? have : len;
    (void)buffer;
    (void)arg;
    if (take == 0 && !stream->out_ended) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (!stream->out_ended || take < have) return (ssize_t)take;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (stream->answer_trailer_count == 0) return (ssize_t)take;
    nghttp2_nv *fields = arena_array(stream->arena, stream->answer_trailer_count, sizeof *fields);
    for (size_t i = 0; i < stream->answer_trailer_count; i++)
        fields[i] = http2_field(stream->answer_trailers[i].name, stream->answer_trailers[i].value);
    if (nghttp2_submit_trailer(session, id, fields, stream->answer_trailer_count) == 0)
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return (ssize_t)take;
}

void ingress_http2_stream_send(struct ingress_http2_stream *stream, const uint8_t *frame_head, size_t len)
{
    struct tls_stream *tls = stream->http2->connection->stream;
    (void)tls_stream_write(tls, frame_head, FRAME_HEAD_BYTES);
    if (len == 0) return;
    (void)tls_stream_write(tls, byte_queue_front(&stream->out), len);
    byte_queue_drop(&stream->out, len);
    stream->sent_at_ms = now_ms(stream);
    call_exchange_took(stream->exchange, len);
}

// Has the rest of the answer sent when the turn ends.
static void resume(struct ingress_http2_stream *stream)
{
    if (stream->deferred) {
        stream->deferred = false;
        (void)nghttp2_session_resume_data(stream->http2->session, stream->id);
    }
    ingress_connection_wake(stream->http2->connection);
}

void ingress_http2_stream_submit_head(struct ingress_http2_stream *stream)
{
    const nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_out};
    if (!stream->head) return;
    bool alone = stream->out_ended && byte_queue_len(&stream->out) == 0 && stream->answer_trailer_count == 0;
    if (nghttp2_submit_response(stream->http2->session, stream->id, stream->head, stream->head_count,
                                alone ? NULL : &provider) != 0)
        ingress_http2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR, "upstream-failed");
    stream->head = NULL;
    ingress_connection_wake(stream->http2->connection);
}

static void on_info(void *front, int status)
{
    struct ingress_http2_stream *stream = front;
    // They have no credit: who takes nothing gets none, but the one that a client may wait for.
    if (status != 100 && tls_stream_queued(stream->http2->connection->stream) >= TLS_STREAM_QUEUE_HIGH) return;
    char text[3] = {(char)('0' + status / 100), (char)('0' + status / 10 % 10), (char)('0' + status % 10)};
    const nghttp2_nv field = http2_field(STR(":status"), str_of(text, sizeof text));
    (void)nghttp2_submit_headers(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id, NULL, &field, 1, NULL);
    ingress_connection_wake(stream->http2->connection);
}

static void add_field(struct ingress_http2_stream *stream, struct str name, struct str value)
{
    char *copy = arena_alloc(stream->arena, name.len + value.len + 1);
    memcpy(copy, name.at, name.len);
    if (value.len) memcpy(copy + name.len, value.at, value.len);
    stream->head[stream->head_count++] =
        (nghttp2_nv){.name = (uint8_t *)copy,
                     .namelen = name.len,
                     .value = (uint8_t *)copy + name.len,
                     .valuelen = value.len,
                     .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

static struct str number_text(uint64_t number, char digits[20])
{
    size_t used = 20;
    do
        digits[--used] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return str_of(digits + used, 20 - used);
}

// The frame is made when the first byte or the end comes, or at the turn's end: an answer without a body is then one
// frame. gRPC's answer without a message must be (status in the head, END_STREAM on it), so such a head waits.
static void on_head(void *front, const struct call_answer_head *head)
{
    enum { OWN_FIELDS = 4 };
    struct ingress_http2_stream *stream = front;
    char digits[20];
    stream->head = arena_array(stream->arena, head->header_count + OWN_FIELDS, sizeof *stream->head);
    add_field(stream, STR(":status"), number_text((uint64_t)head->status, digits));
    for (size_t i = 0; i < head->header_count; i++) {
        add_field(stream, head->headers[i].name, head->headers[i].value);
        if (str_eq(head->headers[i].name, STR("grpc-status"))) stream->head_waits = true;
    }
    struct str hsts = str_c(stream->http2->connection->ingress->hsts);
    if (hsts.len) add_field(stream, STR("strict-transport-security"), hsts);
    add_field(stream, STR("x-request-id"), head->request_id);
    if (head->length != UINT64_MAX && head->status != 204)
        add_field(stream, STR("content-length"), number_text(head->length, digits));
    stream->sent_at_ms = now_ms(stream);
    stream->http2->pump_wanted = stream->pump = true;
    ingress_connection_wake(stream->http2->connection);
}

static bool on_data(void *front, const uint8_t *at, size_t len)
{
    struct ingress_http2_stream *stream = front;
    if (byte_queue_len(&stream->out) == 0) stream->sent_at_ms = now_ms(stream);
    (void)byte_queue_add(&stream->out, at, len); // bounded by the tunnel's window: credit goes back when it is sent
    ingress_http2_stream_submit_head(stream);
    resume(stream);
    return false;
}

// The call is over, and our end was told: nothing is left but a client that has not ended its half.
static void leave(struct ingress_http2_stream *stream)
{
    if (!stream->ended)
        (void)nghttp2_submit_rst_stream(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
    ingress_connection_wake(stream->http2->connection);
}

static void on_half_end(void *front)
{
    struct ingress_http2_stream *stream = front;
    stream->out_ended = true;
    stream->sent_at_ms = now_ms(stream); // its patience was for what the service may say
    ingress_http2_stream_submit_head(stream);
    resume(stream);
}

// One that was upgraded may have told its end long before.
static void on_end(void *front, const struct http_header *trailers, size_t count)
{
    struct ingress_http2_stream *stream = front;
    if (stream->end_sent) {
        leave(stream);
        return;
    }
    stream->answer_trailers = trailers;
    stream->answer_trailer_count = count;
    stream->out_ended = true;
    stream->sent_at_ms = now_ms(stream);
    ingress_http2_stream_submit_head(stream);
    resume(stream);
}

static void on_fail(void *front, const char *reason)
{
    struct ingress_http2_stream *stream = front;
    if (stream->leaving)
        leave(stream);
    else
        ingress_http2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR, reason);
}

static void on_room(void *front)
{
    struct ingress_http2_stream *stream = front;
    stream->http2->pump_wanted = stream->pump = true;
    ingress_connection_wake(stream->http2->connection);
}

static bool take_account(void *front, struct str account_id)
{
    struct ingress_http2_stream *stream = front;
    return ingress_connection_take_account(stream->http2->connection, account_id);
}

static void be_patient(void *front)
{
    struct ingress_http2_stream *stream = front;
    ingress_connection_be_patient(stream->http2->connection);
}

static void arm(void *front, uint64_t due_ms)
{
    struct ingress_http2_stream *stream = front;
    ingress_connection_arm(stream->http2->connection, due_ms);
}

const struct call_front ingress_http2_stream_front = {
    .on_info = on_info,
    .on_head = on_head,
    .on_data = on_data,
    .on_half_end = on_half_end,
    .on_end = on_end,
    .on_fail = on_fail,
    .on_room = on_room,
    .take_account = take_account,
    .be_patient = be_patient,
    .arm = arm,
};

// ---- time ----------------------------------------------------------------------------------------------------

uint64_t ingress_http2_stream_on_time(struct ingress_http2_stream *stream, uint64_t now)
{
    uint64_t limit = stream->http2->connection->ingress->options.stall_timeout_ms;
    if (!stream->exchange) return 0;
    // The other half is waited for once the client could see the end of ours.
    bool is_saying = call_exchange_is_raw(stream->exchange) && !stream->end_sent;
    if (is_saying || !call_exchange_awaits_body(stream->exchange)) stream->read_at_ms = now;
    if (byte_queue_len(&stream->out) > 0 && now - stream->sent_at_ms >= limit &&
        !call_exchange_is_patient(stream->exchange))
        ingress_http2_stream_reset(stream, NGHTTP2_CANCEL, "client-stalled");
    else if (call_exchange_awaits_body(stream->exchange) && now - stream->read_at_ms >= limit)
        ingress_http2_stream_reset(stream, NGHTTP2_CANCEL, "body-stalled");
    return call_exchange_on_time(stream->exchange, now);
}
