#include "server/peer/peer_listener.h"

#include <nghttp2/nghttp2.h>

#include "base/arena.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/peer/peer_stream.h"
#include "server/peer/peer_wire.h"
#include "server/tls/tcp_listener.h"

enum { HANDSHAKE_MS = 5000, ARENA_BYTES_MAX = 1024 * 1024 };

struct connection {
    struct peer_listener *listener;
    struct connection *next, **link;
    struct peer_pipe *pipe;
};

// One call. It lives until its stream has closed, or longer: see on_stream_close().
struct listener_call {
    struct peer_listener *listener;
    struct listener_call *next, **link; // once it has left its stream
    struct peer_stream *stream;         // NULL: closed
    struct tunnel_call *call;           // NULL: over
    bool connect;                       // asks for an upgraded connection
    bool upgraded;
    bool answered;
    size_t held; // taken from the stream and not credited: the call's queue is full, or nothing has left it
    bool full;
    bool left; // something of the body has, for the agent
};

struct peer_listener {
    struct loop *loop;
    struct peer_listener_options options;
    struct tcp_listener *listener;
    struct quota connections;
    struct connection *first;
    struct listener_call *leaving; // have no stream any more
    unsigned calls;
    struct metric *taken, *malformed;
};

// ---- the answer: session to stream ------------------------------------------------------------

static void call_free(struct listener_call *call)
{
    if (call->link) *call->link = call->next;
    if (call->link && call->next) call->next->link = call->link;
    call->listener->calls--;
    mem_free(call);
}

static void on_info(void *arg, int status)
{
    struct listener_call *call = arg;
    peer_stream_info(call->stream, status);
}

static void on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    struct listener_call *call = arg;
    struct http_header *kept = mem_array(count + 1, sizeof *kept);
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!peer_wire_is_ours(headers[i].name)) kept[used++] = headers[i];
    call->answered = true;
    call->upgraded = call->connect && status < 300;
    if (call->upgraded) peer_stream_keep_halves(call->stream);
    peer_stream_head(call->stream, status, kept, used, false);
    mem_free(kept);
}

static void on_data(void *arg, const uint8_t *at, size_t len)
{
    struct listener_call *call = arg;
    peer_stream_write(call->stream, at, len);
}

static void on_trailers(void *arg, const struct http_header *headers, size_t count)
{
    struct listener_call *call = arg;
    peer_stream_end(call->stream, headers, count);
}

static void on_half_end(void *arg)
{
    struct listener_call *call = arg;
    if (call->stream) peer_stream_end(call->stream, NULL, 0);
}

static void on_end(void *arg)
{
    struct listener_call *call = arg;
    call->call = NULL;
    if (call->stream)
        peer_stream_end(call->stream, NULL, 0);
    else
        call_free(call);
}

static void credit_held(struct listener_call *call)
{
    size_t held = call->held;
    call->held = 0;
    if (call->stream) peer_stream_consumed(call->stream, held);
}

static void on_room(void *arg)
{
    struct listener_call *call = arg;
    call->full = false;
    if (call->left) credit_held(call);
}

// Until now the call may have come back: who handed it over must have all of the body, and lets go
// of it by our credit.
static void on_taken(void *arg, size_t len)
{
    struct listener_call *call = arg;
    (void)len;
    if (call->left) return;
    call->left = true;
    if (!call->full) credit_held(call);
}

static void answer_failure(struct peer_stream *stream, enum tunnel_cause cause, const char *detail)
{
    char text[PEER_WIRE_DETAIL_BYTES];
    struct http_header fields[PEER_WIRE_FAIL_FIELDS];
    size_t count;
    int status = peer_wire_fail_encode(cause, detail, text, fields, &count);
    peer_stream_head(stream, status, fields, count, true);
}

static void on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    struct listener_call *call = arg;
    call->call = NULL;
    if (!call->stream) {
        call_free(call);
        return;
    }
    if (!call->answered) {
        call->answered = true;
        answer_failure(call->stream, cause, detail);
        return;
    }
    peer_stream_break(call->stream, peer_wire_reset_code(cause));
    call_free(call);
}

static const struct exchange_events call_events = {.on_info = on_info,
                                                   .on_head = on_head,
                                                   .on_data = on_data,
                                                   .on_trailers = on_trailers,
                                                   .on_half_end = on_half_end,
                                                   .on_end = on_end,
                                                   .on_room = on_room,
                                                   .on_taken = on_taken,
                                                   .on_fail = on_fail};

// ---- the request: stream to session -----------------------------------------------------------

static void on_stream_data(void *arg, const uint8_t *at, size_t len)
{
    struct listener_call *call = arg;
    if (call->call && !tunnel_call_write(call->call, at, len)) call->full = true;
    if (call->call && (call->full || !call->left))
        call->held += len;
    else
        peer_stream_consumed(call->stream, len);
}

static void on_stream_trailers(void *arg, const struct http_header *fields, size_t count)
{
    struct listener_call *call = arg;
    if (call->call) tunnel_call_trailers(call->call, fields, count);
}

static void on_stream_end(void *arg)
{
    struct listener_call *call = arg;
    if (call->call) tunnel_call_end(call->call);
}

static void on_stream_taken(void *arg, size_t len)
{
    struct listener_call *call = arg;
    if (call->call) tunnel_call_consumed(call->call, len);
}

static void on_stream_close(void *arg, uint32_t code, bool whole, bool processed)
{
    struct listener_call *call = arg;
    (void)code;
    (void)processed;
    if (call->call && call->upgraded && whole) {
        // Both halves have ended here, but what the caller said last may be on its way to the
        // service still.
        call->stream = NULL;
        call->next = call->listener->leaving;
        call->link = &call->listener->leaving;
        if (call->next) call->next->link = &call->next;
        call->listener->leaving = call;
        return;
    }
    if (call->call) tunnel_call_cancel(call->call); // the caller left
    call_free(call);
}

static const struct peer_stream_events stream_events = {.on_data = on_stream_data,
                                                        .on_trailers = on_stream_trailers,
                                                        .on_half_end = on_stream_end,
                                                        .on_taken = on_stream_taken,
                                                        .on_close = on_stream_close};

static void on_request(void *arg, struct peer_stream *stream, const struct http_header *fields, size_t count,
                       bool ended)
{
    struct peer_listener *listener = ((struct connection *)arg)->listener;
    struct arena *arena = arena_create(ARENA_BYTES_MAX);
    struct tunnel_request request;
    struct error err;
    if (peer_wire_request_decode(fields, count, arena, &request, &err) != ERROR_NONE) {
        metric_add(listener->malformed, 1);
        answer_failure(stream, TUNNEL_CAUSE_UPSTREAM_FAILED, err.text);
    } else {
        struct listener_call *call = mem_zalloc(sizeof *call);
        request.end_stream = ended;
        call->listener = listener;
        call->stream = stream;
        call->connect = request.protocol.len > 0;
        listener->calls++;
        metric_add(listener->taken, 1);
        peer_stream_bind(stream, &stream_events, call);
        call->call = tunnel_call_open(listener->options.node, &request, &call_events, call);
    }
    arena_destroy(arena);
}

// ---- connections ------------------------------------------------------------------------------

static void connection_unlist(struct connection *connection)
{
    struct peer_listener *listener = connection->listener;
    *connection->link = connection->next;
    if (connection->next) connection->next->link = connection->link;
    if (listener->listener) tcp_listener_connection_closed(listener->listener);
    mem_free(connection);
}

static void on_lost(void *arg, const char *reason)
{
    log_limited(LOG_INFO, "peer", "connection_closed", STR_EMPTY, STR_EMPTY, log_c("reason", reason));
    connection_unlist(arg);
}

static const struct peer_pipe_events pipe_events = {.on_request = on_request, .on_lost = on_lost};

static void on_accepted(void *ctx, uv_tcp_t *tcp)
{
    struct peer_listener *listener = ctx;
    struct connection *connection = mem_zalloc(sizeof *connection);
    connection->listener = listener;
    connection->next = listener->first;
    connection->link = &listener->first;
    if (connection->next) connection->next->link = &connection->next;
    listener->first = connection;
    connection->pipe =
        peer_pipe_create(listener->options.pool, true, listener->options.streams_max, &pipe_events, connection);
    peer_pipe_attach(connection->pipe, tcp, listener->options.tls, HANDSHAKE_MS);
}

void peer_listener_tick(struct peer_listener *listener, uint64_t now_ms)
{
    for (struct connection *connection = listener->first; connection; connection = connection->next)
        peer_pipe_tick(connection->pipe, now_ms);
}

void peer_listener_retire(struct peer_listener *listener)
{
    tcp_listener_destroy(listener->listener);
    listener->listener = NULL;
    for (struct connection *connection = listener->first; connection; connection = connection->next)
        peer_pipe_retire(connection->pipe);
}

bool peer_listener_is_idle(const struct peer_listener *listener)
{
    return listener->calls == 0;
}

void peer_listener_set_tls(struct peer_listener *listener, SSL_CTX *tls)
{
    SSL_CTX_up_ref(tls);
    SSL_CTX_free(listener->options.tls);
    listener->options.tls = tls;
}

struct peer_listener *peer_listener_create(struct loop *loop, const struct peer_listener_options *options,
                                           struct error *err)
{
    struct peer_listener *listener = mem_zalloc(sizeof *listener);
    listener->loop = loop;
    listener->options = *options;
    listener->connections.max = options->connections_max;
    listener->listener = tcp_listener_create(loop, options->listen, &listener->connections, on_accepted, listener, err);
    if (!listener->listener) {
        mem_free(listener);
        return NULL;
    }
    SSL_CTX_up_ref(options->tls);
    struct metric_family *calls =
        metrics_counter("culvert_peer_calls_total", "Calls forwarded by other replicas.", "result", NULL);
    listener->taken = metric_with(calls, "taken");
    listener->malformed = metric_with(calls, "malformed");
    return listener;
}

void peer_listener_destroy(struct peer_listener *listener)
{
    if (!listener) return;
    tcp_listener_destroy(listener->listener);
    listener->listener = NULL;
    while (listener->first) {
        struct connection *connection = listener->first;
        peer_pipe_destroy(connection->pipe);
        connection_unlist(connection);
    }
    while (listener->leaving) {
        tunnel_call_cancel(listener->leaving->call);
        call_free(listener->leaving);
    }
    SSL_CTX_free(listener->options.tls);
    mem_free(listener);
}
