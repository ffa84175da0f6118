#include "server/peer/peer_door.h"

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
    struct peer_door *door;
    struct connection *next, **link;
    struct peer_pipe *pipe;
};

// One call. It lives until its stream has closed, or longer: see on_stream_close().
struct door_call {
    struct peer_door *door;
    struct door_call *next, **link; // once it has left its stream
    struct peer_stream *stream;     // NULL: closed
    struct tunnel_call *call;       // NULL: over
    bool connect;                   // asks for an upgraded connection
    bool upgraded;
    bool answered;
    size_t held; // taken from the stream and not credited: the call's queue is full, or nothing has left it
    bool full;
    bool left; // something of the body has, for the agent
};

struct peer_door {
    struct loop *loop;
    struct peer_door_options options;
    struct tcp_listener *listener;
    struct quota connections;
    struct connection *first;
    struct door_call *leaving; // have no stream any more
    unsigned calls;
    struct metric *taken, *malformed;
};

// ---- the answer: session to stream ---------------------------------------------------------------------------------

static void call_free(struct door_call *call)
{
    if (call->link) *call->link = call->next;
    if (call->link && call->next) call->next->link = call->link;
    call->door->calls--;
    mem_free(call);
}

static void on_info(void *arg, int status)
{
    struct door_call *call = arg;
    peer_stream_info(call->stream, status);
}

static void on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    struct door_call *call = arg;
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
    struct door_call *call = arg;
    peer_stream_write(call->stream, at, len);
}

static void on_trailers(void *arg, const struct http_header *headers, size_t count)
{
    struct door_call *call = arg;
    peer_stream_end(call->stream, headers, count);
}

static void on_remote_end(void *arg)
{
    struct door_call *call = arg;
    if (call->stream) peer_stream_end(call->stream, NULL, 0);
}

static void on_end(void *arg)
{
    struct door_call *call = arg;
    call->call = NULL;
    if (call->stream)
        peer_stream_end(call->stream, NULL, 0);
    else
        call_free(call);
}

static void credit_held(struct door_call *call)
{
    size_t held = call->held;
    call->held = 0;
    if (call->stream) peer_stream_consumed(call->stream, held);
}

static void on_writable(void *arg)
{
    struct door_call *call = arg;
    call->full = false;
    if (call->left) credit_held(call);
}

// Until now the call may have come back: who handed it over must have all of the body, and lets go of it by our credit.
static void on_taken(void *arg, size_t len)
{
    struct door_call *call = arg;
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
    struct door_call *call = arg;
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

static const struct tunnel_call_events call_events = {.on_info = on_info,
                                                      .on_head = on_head,
                                                      .on_data = on_data,
                                                      .on_trailers = on_trailers,
                                                      .on_remote_end = on_remote_end,
                                                      .on_end = on_end,
                                                      .on_writable = on_writable,
                                                      .on_taken = on_taken,
                                                      .on_fail = on_fail};

// ---- the request: stream to session --------------------------------------------------------------------------------

static void on_stream_data(void *arg, const uint8_t *at, size_t len)
{
    struct door_call *call = arg;
    if (call->call && !tunnel_call_write(call->call, at, len)) call->full = true;
    if (call->call && (call->full || !call->left))
        call->held += len;
    else
        peer_stream_consumed(call->stream, len);
}

static void on_stream_trailers(void *arg, const struct http_header *fields, size_t count)
{
    struct door_call *call = arg;
    if (call->call) tunnel_call_trailers(call->call, fields, count);
}

static void on_stream_end(void *arg)
{
    struct door_call *call = arg;
    if (call->call) tunnel_call_end(call->call);
}

static void on_stream_taken(void *arg, size_t len)
{
    struct door_call *call = arg;
    if (call->call) tunnel_call_consumed(call->call, len);
}

static void on_stream_close(void *arg, uint32_t code, bool whole, bool processed)
{
    struct door_call *call = arg;
    (void)code;
    (void)processed;
    if (call->call && call->upgraded && whole) {
        // Both halves have ended here, but what the caller said last may be on its way to the service still.
        call->stream = NULL;
        call->next = call->door->leaving;
        call->link = &call->door->leaving;
        if (call->next) call->next->link = &call->next;
        call->door->leaving = call;
        return;
    }
    if (call->call) tunnel_call_cancel(call->call); // the caller left
    call_free(call);
}

static const struct peer_stream_events stream_events = {.on_data = on_stream_data,
                                                        .on_trailers = on_stream_trailers,
                                                        .on_remote_end = on_stream_end,
                                                        .on_taken = on_stream_taken,
                                                        .on_close = on_stream_close};

static void on_request(void *arg, struct peer_stream *stream, const struct http_header *fields, size_t count,
                       bool ended)
{
    struct peer_door *door = ((struct connection *)arg)->door;
    struct arena *arena = arena_create(ARENA_BYTES_MAX);
    struct tunnel_request request;
    struct error err;
    if (peer_wire_request_decode(fields, count, arena, &request, &err) != ERROR_NONE) {
        metric_add(door->malformed, 1);
        answer_failure(stream, TUNNEL_CAUSE_UPSTREAM_FAILED, err.text);
    } else {
        struct door_call *call = mem_zalloc(sizeof *call);
        request.end_stream = ended;
        call->door = door;
        call->stream = stream;
        call->connect = request.protocol.len > 0;
        door->calls++;
        metric_add(door->taken, 1);
        peer_stream_bind(stream, &stream_events, call);
        call->call = tunnel_call_open(door->options.node, &request, &call_events, call);
    }
    arena_destroy(arena);
}

// ---- connections ---------------------------------------------------------------------------------------------------

static void connection_unlist(struct connection *connection)
{
    struct peer_door *door = connection->door;
    *connection->link = connection->next;
    if (connection->next) connection->next->link = connection->link;
    if (door->listener) tcp_listener_connection_closed(door->listener);
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
    struct peer_door *door = ctx;
    struct connection *connection = mem_zalloc(sizeof *connection);
    connection->door = door;
    connection->next = door->first;
    connection->link = &door->first;
    if (connection->next) connection->next->link = &connection->next;
    door->first = connection;
    connection->pipe = peer_pipe_create(door->options.pool, true, door->options.streams_max, &pipe_events, connection);
    peer_pipe_attach(connection->pipe, tcp, door->options.tls, HANDSHAKE_MS);
}

void peer_door_tick(struct peer_door *door, uint64_t now_ms)
{
    for (struct connection *connection = door->first; connection; connection = connection->next)
        peer_pipe_tick(connection->pipe, now_ms);
}

void peer_door_retire(struct peer_door *door)
{
    tcp_listener_destroy(door->listener);
    door->listener = NULL;
    for (struct connection *connection = door->first; connection; connection = connection->next)
        peer_pipe_retire(connection->pipe);
}

bool peer_door_is_idle(const struct peer_door *door)
{
    return door->calls == 0;
}

void peer_door_set_tls(struct peer_door *door, SSL_CTX *tls)
{
    SSL_CTX_up_ref(tls);
    SSL_CTX_free(door->options.tls);
    door->options.tls = tls;
}

struct peer_door *peer_door_create(struct loop *loop, const struct peer_door_options *options, struct error *err)
{
    struct peer_door *door = mem_zalloc(sizeof *door);
    door->loop = loop;
    door->options = *options;
    door->connections.max = options->connections_max;
    door->listener = tcp_listener_create(loop, options->listen, &door->connections, on_accepted, door, err);
    if (!door->listener) {
        mem_free(door);
        return NULL;
    }
    SSL_CTX_up_ref(options->tls);
    struct metric_family *calls =
        metrics_counter("culvert_peer_calls_total", "Calls forwarded by other replicas.", "result", NULL);
    door->taken = metric_with(calls, "taken");
    door->malformed = metric_with(calls, "malformed");
    return door;
}

void peer_door_destroy(struct peer_door *door)
{
    if (!door) return;
    tcp_listener_destroy(door->listener);
    door->listener = NULL;
    while (door->first) {
        struct connection *connection = door->first;
        peer_pipe_destroy(connection->pipe);
        connection_unlist(connection);
    }
    while (door->leaving) {
        tunnel_call_cancel(door->leaving->call);
        call_free(door->leaving);
    }
    SSL_CTX_free(door->options.tls);
    mem_free(door);
}
