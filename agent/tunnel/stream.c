#include "agent/tunnel/stream.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/http2/http2_session.h"
#include "base/mem.h"
#include "base/parse.h"

enum {
    HEAD_BYTES_MAX = 48 * 1024,
    ARENA_BYTES_MAX = 256 * 1024,  // request head and trailers, with their tables
    GUARANTEED_BYTES = 16 * 1024,  // a stream may always queue this much
    INTERACTIVE_BYTES = 64 * 1024, // of an answer to GET: more is no small answer
    REQUEST_TRAILERS_MAX = 32,
    RTT_DEFAULT_US = 50 * 1000, // until it was measured
};

struct agent_stream *agent_stream_create(struct agent_session *session, int32_t id)
{
    struct agent_stream *stream = mem_zalloc(sizeof(*stream));
    stream->session = session;
    stream->id = id;
    stream->arena = arena_create(ARENA_BYTES_MAX);
    stream->headers = arena_array(stream->arena, HTTP1_HEADERS_MAX, sizeof(*stream->headers));
    stream->request.content_length = -1;
    uint64_t now_us = clock_mono_us();
    wire_window_init(&stream->window, now_us);
    wire_scheduler_item_init(&stream->item, WIRE_URGENCY_DEFAULT, now_us);
    stream->next = session->streams;
    if (stream->next) stream->next->prev = stream;
    session->streams = stream;
    session->stream_count++;
    return stream;
}

static void set_answer(struct agent_stream *stream, enum agent_stream_answer answer)
{
    // clang-format off
    static const unsigned allowed[] = {
        [AGENT_STREAM_ANSWER_AWAITED] = 1u << AGENT_STREAM_ANSWER_OPEN | 1u << AGENT_STREAM_ANSWER_RESET,
        [AGENT_STREAM_ANSWER_OPEN] = 1u << AGENT_STREAM_ANSWER_ENDED | 1u << AGENT_STREAM_ANSWER_BREAKING |
                                     1u << AGENT_STREAM_ANSWER_RESET,
        [AGENT_STREAM_ANSWER_ENDED] = 1u << AGENT_STREAM_ANSWER_BREAKING | 1u << AGENT_STREAM_ANSWER_RESET,
        [AGENT_STREAM_ANSWER_BREAKING] = 1u << AGENT_STREAM_ANSWER_RESET,
        [AGENT_STREAM_ANSWER_RESET] = 0,
    };
    // clang-format on
    assert(allowed[stream->answer] & 1u << answer);
    stream->answer = answer;
}

static bool is_reset(const struct agent_stream *stream)
{
    return stream->answer == AGENT_STREAM_ANSWER_RESET;
}

static void forget_writable(struct agent_stream *stream)
{
    struct agent_stream **at = &stream->session->writable;
    if (!stream->in_writable) return;
    while (*at != stream)
        at = &(*at)->next_writable;
    *at = stream->next_writable;
    stream->in_writable = false;
}

static void drop_queue(struct agent_stream *stream)
{
    assert(stream->session->buffered_bytes >= byte_queue_len(&stream->queue));
    stream->session->buffered_bytes -= byte_queue_len(&stream->queue);
    byte_queue_finish(&stream->queue);
}

void agent_stream_destroy(struct agent_stream *stream, uint32_t code)
{
    struct agent_session *session = stream->session;
    if (!is_reset(stream)) set_answer(stream, AGENT_STREAM_ANSWER_RESET); // what the consumer still calls is ignored
    if (stream->prev) stream->prev->next = stream->next;
    if (!stream->prev) session->streams = stream->next;
    if (stream->next) stream->next->prev = stream->prev;
    assert(session->stream_count > 0 && session->granted_bytes >= stream->window.bytes - WIRE_WINDOW_BYTES);
    session->stream_count--;
    session->granted_bytes -= stream->window.bytes - WIRE_WINDOW_BYTES;
    forget_writable(stream);
    wire_scheduler_remove(&session->scheduler, &stream->item);
    if (session->served == stream) session->served = NULL;
    drop_queue(stream);
    if (stream->events) stream->events->on_close(stream->arg, stream, code);
    arena_destroy(stream->arena);
    mem_free(stream);
}

static bool add_pseudo_header(struct agent_stream *stream, struct str name, struct str value)
{
    struct agent_stream_request *r = &stream->request;
    struct str copy = arena_str(stream->arena, value);
    if (str_eq(name, STR(":method"))) r->method = copy;
    if (str_eq(name, STR(":path"))) r->path = copy;
    if (str_eq(name, STR(":authority"))) r->authority = copy;
    if (str_eq(name, STR(":scheme"))) r->scheme = copy;
    if (str_eq(name, STR(":protocol"))) r->protocol = copy;
    return true;
}

bool agent_stream_add_header(struct agent_stream *stream, struct str name, struct str value)
{
    stream->header_bytes += name.len + value.len + 32; // as RFC 9113 section 6.5.2 counts
    if (stream->header_bytes > HEAD_BYTES_MAX) return false;
    if (name.len && name.at[0] == ':') return add_pseudo_header(stream, name, value);
    if (stream->header_count == HTTP1_HEADERS_MAX) return false;
    struct http_header *h = &stream->headers[stream->header_count++];
    h->name = arena_str(stream->arena, name);
    h->value = arena_str(stream->arena, value);
    if (str_eq(name, STR("content-length"))) {
        uint64_t length; // nghttp2 has checked that it is a single number
        if (parse_u64(value, 0, INT64_MAX, &length, NULL)) return false;
        stream->request.content_length = (int64_t)length;
    }
    return true;
}

bool agent_stream_add_trailer(struct agent_stream *stream, struct str name, struct str value)
{
    stream->header_bytes += name.len + value.len + 32;
    if (stream->header_bytes > HEAD_BYTES_MAX || stream->request_trailer_count == REQUEST_TRAILERS_MAX) return false;
    if (!name.len || name.at[0] == ':') return false; // RFC 9113 section 8.1
    if (!stream->request_trailers)
        stream->request_trailers = arena_array(stream->arena, REQUEST_TRAILERS_MAX, sizeof(*stream->request_trailers));
    stream->request_trailers[stream->request_trailer_count++] =
        (struct http_header){arena_str(stream->arena, name), arena_str(stream->arena, value)};
    return true;
}

// ---- for the consumer ------------------------------------------------------------------------------------------

void agent_stream_attach(struct agent_stream *stream, const struct agent_stream_events *events, void *arg)
{
    stream->events = events;
    stream->arg = arg;
}

const struct agent_stream_request *agent_stream_request(const struct agent_stream *stream)
{
    return &stream->request;
}

size_t agent_stream_request_trailers(const struct agent_stream *stream, const struct http_header **out)
{
    *out = stream->request_trailers;
    return stream->request_trailer_count;
}

int32_t agent_stream_id(const struct agent_stream *stream)
{
    return stream->id;
}

size_t agent_stream_queued(const struct agent_stream *stream)
{
    return byte_queue_len(&stream->queue);
}

// nghttp2 copies names (in lower case) and values when the block is submitted.
static size_t build_head(nghttp2_nv *nv, char status_text[3], int status, const struct http_header *headers,
                         size_t count)
{
    size_t n = 0;
    assert(status >= 100 && status <= 999 && count <= HTTP1_HEADERS_MAX);
    for (int i = 2, rest = status; i >= 0; i--, rest /= 10)
        status_text[i] = (char)('0' + rest % 10);
    nv[n++] = http2_field(STR(":status"), str_of(status_text, 3));
    for (size_t i = 0; i < count; i++)
        nv[n++] = http2_field(headers[i].name, headers[i].value);
    return n;
}

void agent_stream_inform(struct agent_stream *stream, int status, const struct http_header *headers, size_t count)
{
    nghttp2_nv nv[HTTP1_HEADERS_MAX + 1];
    char text[3];
    if (stream->answer != AGENT_STREAM_ANSWER_AWAITED) return;
    size_t n = build_head(nv, text, status, headers, count);
    nghttp2_submit_headers(stream->session->h2, NGHTTP2_FLAG_NONE, stream->id, NULL, nv, n, NULL);
    agent_session_wants_write(stream->session);
}

// ---- its turn (tunnel/wire/scheduler.h says how it goes together with nghttp2) ----------------------------------

static void become_ready(struct agent_stream *stream)
{
    struct agent_session *session = stream->session;
    wire_scheduler_ready(&session->scheduler, &stream->item, clock_mono_us());
    // After a pause it begins anew.
    if (!stream->item.sent_bytes) agent_stream_classify(stream);
}

static void account(struct agent_stream *stream, size_t len, bool over)
{
    struct agent_session *session = stream->session;
    // A full frame is a turn: what the headers took of it is no reason for another, tiny one.
    size_t used = len >= AGENT_STREAM_FRAME_BYTES ? stream->allowance : len;
    stream->allowance = 0;
    wire_scheduler_sent(&session->scheduler, &stream->item, used, session->now_us);
    if (over) wire_scheduler_idle(&session->scheduler, &stream->item, session->now_us);
    bool small = stream->item.sent_bytes <= INTERACTIVE_BYTES;
    if (!small && !stream->keeps_urgency && stream->item.urgency == WIRE_URGENCY_INTERACTIVE)
        wire_scheduler_set_urgency(&session->scheduler, &stream->item, WIRE_URGENCY_DEFAULT);
}

static ssize_t read_queue(nghttp2_session *h2, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
                          nghttp2_data_source *source, void *arg)
{
    (void)buf;
    (void)arg;
    struct agent_stream *stream = source->ptr;
    size_t queued = byte_queue_len(&stream->queue);
    bool due = (queued || stream->answer == AGENT_STREAM_ANSWER_ENDED) && !is_reset(stream);
    if (!due || !stream->allowance) {
        stream->deferred = true;
        if (due) become_ready(stream);
        return NGHTTP2_ERR_DEFERRED;
    }
    size_t n = queued < len ? queued : len;
    if (n > stream->allowance) n = stream->allowance;
    account(stream, n, n == queued);
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream->answer == AGENT_STREAM_ANSWER_ENDED && n == queued) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->trailer_count) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            nghttp2_submit_trailer(h2, id, stream->trailers, stream->trailer_count);
        }
    }
    return (ssize_t)n;
}

static bool is_event_stream(const struct http_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(headers[i].name, STR("content-type")))
            return str_starts_nocase(headers[i].value, STR("text/event-stream"));
    return false;
}

void agent_stream_respond(struct agent_stream *stream, int status, const struct http_header *headers, size_t count,
                          bool end)
{
    nghttp2_nv nv[HTTP1_HEADERS_MAX + 1];
    char text[3];
    nghttp2_data_provider body = {.source.ptr = stream, .read_callback = read_queue};
    if (stream->answer != AGENT_STREAM_ANSWER_AWAITED) return;
    set_answer(stream, AGENT_STREAM_ANSWER_OPEN);
    if (end) set_answer(stream, AGENT_STREAM_ANSWER_ENDED);
    stream->upgraded = stream->request.protocol.len && status / 100 == 2;
    if (is_event_stream(headers, count)) {
        stream->keeps_urgency = true;
        agent_stream_classify(stream);
    }
    size_t n = build_head(nv, text, status, headers, count);
    if (nghttp2_submit_response(stream->session->h2, stream->id, nv, n, end ? NULL : &body))
        agent_stream_reset(stream, AGENT_STREAM_INTERNAL_ERROR);
    agent_session_wants_write(stream->session);
}

static void resume(struct agent_stream *stream)
{
    if (stream->deferred) become_ready(stream); // otherwise nghttp2 asks by itself, once the head or credit lets it
    agent_session_wants_write(stream->session);
}

static size_t queue_limit(const struct agent_stream *stream)
{
    const struct agent_session *session = stream->session;
    return session->buffered_bytes > session->options.buffered_bytes_max ? GUARANTEED_BYTES : AGENT_STREAM_QUEUE_BYTES;
}

bool agent_stream_write(struct agent_stream *stream, const void *at, size_t len)
{
    assert(len <= AGENT_STREAM_WRITE_BYTES_MAX);
    if (stream->answer != AGENT_STREAM_ANSWER_OPEN) return true;
    byte_queue_add(&stream->queue, at, len);
    stream->session->buffered_bytes += len;
    stream->full = byte_queue_len(&stream->queue) >= queue_limit(stream);
    resume(stream);
    return !stream->full;
}

void agent_stream_end(struct agent_stream *stream, const struct http_header *trailers, size_t count)
{
    if (stream->answer > AGENT_STREAM_ANSWER_OPEN) return;
    assert(count <= HTTP1_HEADERS_MAX);
    set_answer(stream, AGENT_STREAM_ANSWER_ENDED);
    if (count) {
        stream->trailers = arena_array(stream->arena, count, sizeof(*stream->trailers));
        for (size_t i = 0; i < count; i++)
            stream->trailers[i] =
                http2_field(arena_str(stream->arena, trailers[i].name), arena_str(stream->arena, trailers[i].value));
        stream->trailer_count = count;
    }
    resume(stream);
}

// nghttp2 would drop what it has not sent of a stream that is reset, the head, too.
static bool has_unsent(const struct agent_stream *stream)
{
    return !stream->head_sent || byte_queue_len(&stream->queue) > 0;
}

void agent_stream_break(struct agent_stream *stream, enum agent_stream_code code)
{
    if (stream->answer == AGENT_STREAM_ANSWER_AWAITED || is_reset(stream) || !has_unsent(stream)) {
        agent_stream_reset(stream, code);
        return;
    }
    if (stream->answer == AGENT_STREAM_ANSWER_BREAKING) return;
    set_answer(stream, AGENT_STREAM_ANSWER_BREAKING); // an end behind the queue goes: it would mean success
    stream->break_code = (uint32_t)code;
    forget_writable(stream);
    agent_session_wants_write(stream->session);
}

void agent_stream_sent(struct agent_stream *stream, bool head)
{
    if (head) stream->head_sent = true;
    if (stream->answer != AGENT_STREAM_ANSWER_BREAKING || has_unsent(stream)) return;
    set_answer(stream,
               AGENT_STREAM_ANSWER_RESET); // its place among the answers goes with it: this may be inside of its turn
    nghttp2_submit_rst_stream(stream->session->h2, NGHTTP2_FLAG_NONE, stream->id, stream->break_code);
}

void agent_stream_reset(struct agent_stream *stream, enum agent_stream_code code)
{
    if (is_reset(stream)) return;
    set_answer(stream, AGENT_STREAM_ANSWER_RESET);
    forget_writable(stream);
    wire_scheduler_remove(&stream->session->scheduler, &stream->item);
    drop_queue(stream);
    nghttp2_submit_rst_stream(stream->session->h2, NGHTTP2_FLAG_NONE, stream->id, (uint32_t)code);
    agent_session_wants_write(stream->session);
}

// ---- window of the request body ----------------------------------------------------------------------------------

// What a window may have: what the budget has left goes to those that can use it, and what was granted stays.
static uint64_t window_max(const struct agent_stream *stream)
{
    const struct agent_session *session = stream->session;
    uint64_t budget = session->options.buffered_bytes_max;
    return stream->window.bytes + (budget > session->granted_bytes ? budget - session->granted_bytes : 0);
}

void agent_stream_consumed(struct agent_stream *stream, size_t len)
{
    struct agent_session *session = stream->session;
    if (is_reset(stream) || !len) return;
    assert(len <= stream->unconsumed);
    stream->unconsumed -= len;
    if (stream->request_ended) return;
    uint64_t rtt_us = session->rtt.shortest_us ? session->rtt.shortest_us : RTT_DEFAULT_US;
    uint32_t before = stream->window.bytes;
    uint32_t credit = wire_window_consumed(&stream->window, len, clock_mono_us(), rtt_us, window_max(stream));
    session->granted_bytes = session->granted_bytes + stream->window.bytes - before;
    if (!credit) return;
    nghttp2_submit_window_update(session->h2, NGHTTP2_FLAG_NONE, stream->id, (int32_t)credit);
    agent_session_wants_write(session);
}

// ---- urgency -------------------------------------------------------------------------------------------------------

void agent_stream_classify(struct agent_stream *stream)
{
    const struct agent_stream_request *r = &stream->request;
    if (r->protocol.len) stream->keeps_urgency = true;
    bool interactive = stream->keeps_urgency || str_eq(r->method, STR("GET")) || str_eq(r->method, STR("HEAD"));
    wire_scheduler_set_urgency(&stream->session->scheduler, &stream->item,
                               interactive ? WIRE_URGENCY_INTERACTIVE : WIRE_URGENCY_DEFAULT);
}

void agent_stream_take(struct agent_stream *stream, uint8_t *out, size_t len)
{
    assert(len <= byte_queue_len(&stream->queue));
    if (len) memcpy(out, byte_queue_front(&stream->queue), len);
    byte_queue_drop(&stream->queue, len);
    stream->session->buffered_bytes -= len;
    stream->session->carried_bytes += len;
    if (stream->full && stream->answer != AGENT_STREAM_ANSWER_BREAKING &&
        byte_queue_len(&stream->queue) <= queue_limit(stream) / 2 && !stream->in_writable) {
        stream->full = false;
        stream->in_writable = true;
        stream->next_writable = stream->session->writable;
        stream->session->writable = stream;
    }
}
