#include "server/ingress/ingress_http2.h"

#include "base/log/log.h"
#include "base/mem.h"
#include "server/ingress/ingress_http2_state.h"

enum {
    NOTICE_MS = 500,  // between "no more, please" and "no more" (RFC 9113 section 6.8): a round trip
    WITHHELD_MS = 50, // how often credit that was held back is looked at
};

static uint64_t now_ms(const struct ingress_http2 *http2)
{
    return ingress_connection_now_ms(http2->connection);
}

// ---- bounds --------------------------------------------------------------------------------------------------

// The GOAWAY leaves when the connection is cut.
static void end_flood(struct ingress_http2 *http2)
{
    http2->flooded = true;
    (void)nghttp2_session_terminate_session(http2->session, NGHTTP2_ENHANCE_YOUR_CALM);
    ingress_connection_cut(http2->connection, "http2-flood");
}

void ingress_http2_count_abuse(struct ingress_http2 *http2, unsigned frames)
{
    uint64_t now = now_ms(http2), forgiven = (now - http2->abuse_at_ms) * INGRESS_HTTP2_ABUSE_PER_SECOND / 1000;
    if (forgiven > 0) {
        http2->abuse = http2->abuse > forgiven ? http2->abuse - forgiven : 0;
        http2->abuse_at_ms = now;
    }
    http2->abuse += frames;
    if (http2->abuse > INGRESS_HTTP2_ABUSE_MAX && !http2->flooded) end_flood(http2);
}

// Without credit of the connection no client can send.
static void restart_paces(const struct ingress_http2 *http2)
{
    for (struct ingress_http2_stream *stream = http2->first; stream; stream = stream->next) {
        if (!stream->exchange) continue;
        stream->read_at_ms = now_ms(http2);
        call_exchange_restart_pace(stream->exchange);
    }
}

void ingress_http2_credit(struct ingress_http2 *http2, size_t len)
{
    struct ingress *ingress = http2->connection->ingress;
    http2->withheld += len;
    if (http2->withheld == 0) return;
    if (ingress->buffered_bytes >= ingress->options.buffered_bytes_max) {
        http2->held = true;
        ingress_connection_arm(http2->connection, now_ms(http2) + WITHHELD_MS);
        return;
    }
    (void)nghttp2_session_consume_connection(http2->session, http2->withheld);
    http2->withheld = 0;
    if (http2->held) restart_paces(http2);
    http2->held = false;
}

// ---- output --------------------------------------------------------------------------------------------------

static void flush(struct ingress_http2 *http2)
{
    struct ingress_connection *connection = http2->connection;
    while (tls_stream_queued(connection->stream) < TLS_STREAM_QUEUE_HIGH) {
        const uint8_t *at;
        ssize_t len = nghttp2_session_mem_send(http2->session, &at);
        if (len < 0) ingress_connection_cut(connection, "http2-protocol");
        if (len <= 0) return;
        // False wakes us by on_drain.
        if (!tls_stream_write(connection->stream, at, (size_t)len)) return;
    }
}

static bool on_cut(void *front)
{
    struct ingress_http2 *http2 = front;
    if (http2->flooded) flush(http2);
    return http2->flooded;
}

static bool is_finished(const struct ingress_http2 *http2)
{
    if (nghttp2_session_want_write(http2->session) || http2->leaving > 0) return false;
    return http2->connection->eof || !nghttp2_session_want_read(http2->session) ||
           (http2->said_end && http2->streams == 0);
}

void ingress_http2_forget(struct ingress_http2 *http2, struct ingress_http2_stream *stream)
{
    struct ingress_connection *connection = http2->connection;
    ingress_http2_stream_destroy(stream);
    if (http2->streams > 0) return;
    http2->idle_since_ms = ingress_connection_now_ms(connection);
    ingress_connection_arm(connection, http2->idle_since_ms + connection->ingress->options.idle_timeout_ms);
}

static void forget_those_that_left(struct ingress_http2 *http2)
{
    struct ingress_http2_stream *next;
    for (struct ingress_http2_stream *stream = http2->first; stream && http2->leaving > 0; stream = next) {
        next = stream->next;
        if (stream->leaving && call_exchange_is_over(stream->exchange)) ingress_http2_forget(http2, stream);
    }
}

static void on_turn(void *front)
{
    struct ingress_http2 *http2 = front;
    forget_those_that_left(http2);
    if (http2->pump_wanted) {
        http2->pump_wanted = false;
        for (struct ingress_http2_stream *stream = http2->first; stream; stream = stream->next)
            if (stream->pump) {
                ingress_http2_stream_pump(stream);
                if (!stream->head_waits) ingress_http2_stream_submit_head(stream);
            }
        ingress_http2_credit(http2, 0);
    }
    flush(http2);
    if (!http2->connection->cut_reason && is_finished(http2)) ingress_connection_linger(http2->connection);
}

static void on_drain(void *front)
{
    struct ingress_http2 *http2 = front;
    ingress_connection_wake(http2->connection);
}

// ---- input ---------------------------------------------------------------------------------------------------

static void on_data(void *front, const char *at, size_t len)
{
    struct ingress_http2 *http2 = front;
    ssize_t used = nghttp2_session_mem_recv(http2->session, (const uint8_t *)at, len);
    if (used < 0) {
        log_debug("ingress", "http2_broken", log_c("peer", http2->connection->peer),
                  log_c("error", nghttp2_strerror((int)used)));
        if (used == NGHTTP2_ERR_FLOODED)
            end_flood(http2);
        else
            ingress_connection_cut(http2->connection, "http2-protocol");
        return;
    }
    ingress_connection_wake(http2->connection);
}

static void on_eof(void *front)
{
    struct ingress_http2 *http2 = front;
    // Streams are half-closed one by one; a connection that ends takes all of them along that have not ended.
    if (http2->streams > http2->leaving)
        ingress_connection_cut(http2->connection, "client-gone");
    else if (http2->streams == 0)
        ingress_connection_close(http2->connection);
}

static void on_hangup(void *front)
{
    on_eof(front);
}

// ---- time ----------------------------------------------------------------------------------------------------

static void soonest(uint64_t *due, uint64_t other)
{
    if (other && (*due == 0 || other < *due)) *due = other;
}

static void say_end(struct ingress_http2 *http2)
{
    if (http2->said_end) return;
    http2->said_end = true;
    (void)nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(http2->session), NGHTTP2_NO_ERROR, NULL, 0);
    ingress_connection_wake(http2->connection);
}

static bool has_patient_stream(const struct ingress_http2 *http2)
{
    for (const struct ingress_http2_stream *stream = http2->first; stream; stream = stream->next)
        if (stream->exchange && call_exchange_is_patient(stream->exchange)) return true;
    return false;
}

static uint64_t on_time(void *front, uint64_t now)
{
    struct ingress_http2 *http2 = front;
    const struct ingress_options *options = &http2->connection->ingress->options;
    uint64_t due = now + options->stall_timeout_ms / 4 + 1;
    if (http2->head_since_ms && now - http2->head_since_ms >= options->head_timeout_ms)
        ingress_connection_cut(http2->connection, "head-timeout");
    else if (http2->head_since_ms)
        soonest(&due, http2->head_since_ms + options->head_timeout_ms);
    if (http2->last_said_ms && now - http2->last_said_ms >= NOTICE_MS)
        say_end(http2);
    else if (http2->last_said_ms)
        soonest(&due, http2->last_said_ms + NOTICE_MS);
    if (http2->streams == 0 && !http2->head_since_ms) {
        if (now - http2->idle_since_ms >= options->idle_timeout_ms) say_end(http2);
        soonest(&due, http2->idle_since_ms + options->idle_timeout_ms);
    }
    if (http2->held) restart_paces(http2);
    for (struct ingress_http2_stream *stream = http2->first; stream; stream = stream->next)
        soonest(&due, ingress_http2_stream_on_time(stream, now));
    if (has_patient_stream(http2))
        ingress_connection_forget_progress(http2->connection);
    else if (ingress_connection_has_stalled(http2->connection, options->stall_timeout_ms))
        ingress_connection_cut(http2->connection, "client-stalled");
    ingress_http2_credit(http2, 0);
    ingress_connection_wake(http2->connection);
    return due > now ? due : now + options->stall_timeout_ms / 4 + 1;
}

// ---- life ----------------------------------------------------------------------------------------------------

static void stop(void *front)
{
    struct ingress_http2 *http2 = front;
    if (http2->last_said_ms || http2->said_end) return;
    http2->last_said_ms = now_ms(http2);
    (void)nghttp2_submit_shutdown_notice(http2->session);
    ingress_connection_arm(http2->connection, http2->last_said_ms + NOTICE_MS);
    ingress_connection_wake(http2->connection);
}

static bool is_busy(const void *front)
{
    const struct ingress_http2 *http2 = front;
    return http2->streams > 0;
}

static void destroy(void *front)
{
    struct ingress_http2 *http2 = front;
    while (http2->first)
        ingress_http2_stream_destroy(http2->first);
    nghttp2_session_del(http2->session);
    mem_free(http2);
}

static void *create(struct ingress_connection *connection)
{
    struct ingress_http2 *http2 = mem_zalloc(sizeof *http2);
    http2->connection = connection;
    http2->idle_since_ms = http2->abuse_at_ms = now_ms(http2);
    http2->session = ingress_http2_session_create(http2);
    ingress_connection_forget_progress(connection);
    ingress_connection_arm(connection, on_time(http2, http2->idle_since_ms));
    return http2;
}

const struct ingress_protocol ingress_http2_protocol = {
    .name = "h2",
    .create = create,
    .on_data = on_data,
    .on_eof = on_eof,
    .on_drain = on_drain,
    .on_hangup = on_hangup,
    .on_turn = on_turn,
    .on_cut = on_cut,
    .on_time = on_time,
    .stop = stop,
    .is_busy = is_busy,
    .destroy = destroy,
};
