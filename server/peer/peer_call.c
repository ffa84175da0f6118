#include "server/peer/peer_call.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    WAITS_BYTES = 48 * 1024,      // so much may wait for the answer to begin; callers stop a little later
    KEPT_BYTES_MAX = 1024 * 1024, // callers stop at 64 KiB
};

// ---- life ----------------------------------------------------------------------------------------------------------

void peer_call_unlist(struct tunnel_carried *call)
{
    assert(!call->over);
    call->over = true;
    *call->link = call->next;
    if (call->next) call->next->link = call->link;
    if (call->calls->cursor == call) call->calls->cursor = call->next;
    if (call->query) registry_query_cancel(call->query);
    call->query = NULL;
    turn_remove(&call->calls->turn, &call->turn);
}

void peer_call_enter(struct tunnel_carried *call)
{
    call->depth++;
}

void peer_call_leave(struct tunnel_carried *call)
{
    if (--call->depth > 0 || !call->over) return;
    byte_queue_finish(&call->kept);
    header_block_finish(&call->trailers);
    call_request_finish(&call->copy);
    mem_free(call);
}

void peer_call_fail(struct tunnel_carried *call, enum tunnel_cause cause, const char *detail)
{
    peer_call_enter(call);
    peer_call_unlist(call);
    call->events.exchange->on_fail(call->arg, cause, detail);
    peer_call_leave(call);
}

void peer_call_fail_later(struct tunnel_carried *call, enum tunnel_cause cause, const char *detail)
{
    call->state = PEER_CALL_FAILED;
    call->cause = cause;
    snprintf(call->detail, sizeof call->detail, "%s", detail);
    turn_add(&call->calls->turn, &call->turn);
}

static bool is_bounded(const struct tunnel_request *request)
{
    size_t bytes = request->method.len + request->path.len + request->authority.len + request->protocol.len;
    for (size_t i = 0; i < request->header_count; i++)
        bytes += request->headers[i].name.len + request->headers[i].value.len;
    return request->header_count <= PEER_WIRE_FIELDS_MAX && bytes <= PEER_WIRE_HEAD_BYTES_MAX;
}

struct tunnel_carried *peer_call_create(struct peer_calls *calls, struct tunnel_node *node,
                                        const struct tunnel_request *request,
                                        const struct tunnel_carrier_events *events, void *arg)
{
    struct tunnel_carried *call = mem_zalloc(sizeof *call);
    call->calls = calls;
    call->node = node;
    call->events = *events;
    call->arg = arg;
    byte_queue_init(&call->kept, KEPT_BYTES_MAX);
    call->next = calls->first;
    call->link = &calls->first;
    if (call->next) call->next->link = &call->next;
    calls->first = call;
    call->request = &call->copy.request;
    if (!is_bounded(request) || call_request_copy(request, &call->copy, NULL) != ERROR_NONE)
        peer_call_fail_later(call, TUNNEL_CAUSE_UPSTREAM_FAILED, "the request head is too long");
    return call;
}

bool peer_call_give_back(struct tunnel_carried *call)
{
    if (!tunnel_node_has_runtime(call->node, &(struct runtime_key){call->request->account_id, call->request->runtime}))
        return false;
    const struct tunnel_carried_body body = {.at = byte_queue_front(&call->kept),
                                             .len = byte_queue_len(&call->kept),
                                             .trailers = call->trailers.at,
                                             .trailer_count = call->trailers.count};
    peer_call_enter(call);
    peer_call_unlist(call);
    call->events.on_here(call->arg, call->request, &body);
    peer_call_leave(call);
    return true;
}

// ---- the owner's answers -------------------------------------------------------------------------------------------

// The owner has the call: what was written need not be kept any more. The call may be over afterwards.
static void call_commit(struct tunnel_carried *call)
{
    if (call->committed) return;
    call->committed = true;
    size_t taken = call->taken;
    call->taken = 0;
    byte_queue_finish(&call->kept);
    if (taken) call->events.exchange->on_taken(call->arg, taken);
}

// The owner did nothing with it: look again, from the authority; whoever said the same twice is given some time.
static void call_again(struct tunnel_carried *call)
{
    bool first = call->refused_epoch != call->epoch;
    call->stream = NULL;
    call->taken = 0;
    call->credited = false;
    registry_doubt(call->calls->options.registry,
                   &(struct runtime_key){call->request->account_id, call->request->runtime}, call->epoch);
    metric_add(call->calls->retried, 1);
    call->same_epoch_hops = first ? 1 : call->same_epoch_hops + 1;
    call->refused_epoch = call->epoch;
    call->refused_at_ms = clock_mono_ms();
    peer_calls_wait(call);
    if (!first) return;
    call->state = PEER_CALL_LOOKING;
    call->ask_fresh = true;
    turn_add(&call->calls->turn, &call->turn);
}

static void on_info(void *arg, int status)
{
    struct tunnel_carried *call = arg;
    peer_call_enter(call);
    call_commit(call);
    if (!call->over) call->events.exchange->on_info(call->arg, status);
    peer_call_leave(call);
}

static void take_failure(struct tunnel_carried *call, enum tunnel_cause cause, struct str detail)
{
    char text[PEER_WIRE_DETAIL_BYTES];
    snprintf(text, sizeof text, "%.*s", STR_ARG(detail));
    peer_stream_reset(call->stream, NGHTTP2_CANCEL);
    call->stream = NULL;
    if (cause == TUNNEL_CAUSE_NO_TUNNEL && !call->committed) {
        metric_add(call->calls->refused, 1);
        call_again(call);
    } else {
        metric_add(call->calls->failed, 1);
        peer_call_fail(call, cause, text);
    }
}

static void on_head(void *arg, int status, const struct http_header *fields, size_t count)
{
    struct tunnel_carried *call = arg;
    struct str detail;
    enum tunnel_cause cause = peer_wire_fail_decode(fields, count, &detail);
    if (cause != TUNNEL_CAUSE_NONE) {
        take_failure(call, cause, detail);
        return;
    }
    peer_call_enter(call);
    call->answered = true;
    call->upgraded = call->request->protocol.len && status < 300;
    metric_observe(call->calls->seconds, (double)(clock_mono_us() - call->opened_at_us) / 1e6);
    metric_add(call->calls->ok, 1);
    call_commit(call);
    if (!call->over) call->events.exchange->on_head(call->arg, status, fields, count);
    peer_call_leave(call);
}

static void on_data(void *arg, const uint8_t *at, size_t len)
{
    struct tunnel_carried *call = arg;
    peer_call_enter(call);
    call->events.exchange->on_data(call->arg, at, len);
    peer_call_leave(call);
}

static void on_trailers(void *arg, const struct http_header *fields, size_t count)
{
    struct tunnel_carried *call = arg;
    peer_call_enter(call);
    call->events.exchange->on_trailers(call->arg, fields, count);
    peer_call_leave(call);
}

static void on_half_end(void *arg)
{
    struct tunnel_carried *call = arg;
    if (!call->upgraded) return; // the stream's end tells: our request must have left, too
    peer_call_enter(call);
    call->events.exchange->on_half_end(call->arg);
    peer_call_leave(call);
}

static void on_taken(void *arg, size_t len)
{
    struct tunnel_carried *call = arg;
    peer_call_enter(call);
    if (call->committed)
        call->events.exchange->on_taken(call->arg, len);
    else
        call->taken += len;
    peer_call_leave(call);
}

// Credit says that the owner's session has begun to send the body, not that the agent got it: the owner may still
// answer that the session is gone. So a body that is whole is kept until the answer begins, and only one that must go
// on is let go of.
void peer_call_let_go(struct tunnel_carried *call)
{
    if (call->credited && !call->ended && byte_queue_len(&call->kept) >= WAITS_BYTES) call_commit(call);
}

static void on_credit(void *arg)
{
    struct tunnel_carried *call = arg;
    peer_call_enter(call);
    call->credited = true;
    peer_call_let_go(call);
    peer_call_leave(call);
}

static void on_close(void *arg, uint32_t code, bool whole, bool processed)
{
    struct tunnel_carried *call = arg;
    call->stream = NULL;
    if (whole && call->answered) {
        peer_call_enter(call);
        peer_call_unlist(call);
        call->events.exchange->on_end(call->arg);
        peer_call_leave(call);
    } else if (!processed && !call->committed) {
        call_again(call);
    } else {
        enum tunnel_cause cause = peer_wire_reset_cause(code);
        metric_add(cause ? call->calls->failed : call->calls->lost, 1);
        peer_call_fail(call, cause ? cause : TUNNEL_CAUSE_TUNNEL_LOST,
                       cause ? "the call failed at the replica that has the tunnel"
                             : "the connection to the replica that has the tunnel was lost");
    }
}

static const struct peer_stream_events stream_events = {.on_info = on_info,
                                                        .on_head = on_head,
                                                        .on_data = on_data,
                                                        .on_trailers = on_trailers,
                                                        .on_half_end = on_half_end,
                                                        .on_taken = on_taken,
                                                        .on_credit = on_credit,
                                                        .on_close = on_close};

// ---- the hop -------------------------------------------------------------------------------------------------------

void peer_call_send(struct tunnel_carried *call, const struct registry_place *place)
{
    struct http_header fields[PEER_WIRE_FIELDS_MAX];
    size_t count = 0;
    struct error err;
    if (peer_wire_request_encode(call->request, place->epoch, call->copy.arena, fields, &count, &err) != ERROR_NONE) {
        peer_call_fail(call, TUNNEL_CAUSE_UPSTREAM_FAILED, err.text);
        return;
    }
    struct peer_pipe *pipe = peer_links_get(call->calls->options.links, place->address);
    bool no_body = call->request->end_stream;
    struct peer_stream *stream = pipe ? peer_stream_open(pipe, fields, count, no_body, &stream_events, call) : NULL;
    if (!stream) {
        metric_add(call->calls->failed, 1);
        peer_call_fail(call, TUNNEL_CAUSE_OVERLOADED,
                       "the link to the replica that has the tunnel accepts no more calls");
        return;
    }
    call->state = PEER_CALL_SENDING;
    call->stream = stream;
    call->epoch = place->epoch;
    call->hops++;
    call->opened_at_us = clock_mono_us();
    if (no_body) return;
    if (byte_queue_len(&call->kept))
        peer_stream_write(stream, byte_queue_front(&call->kept), byte_queue_len(&call->kept));
    if (call->ended) peer_stream_end(stream, call->trailers.at, call->trailers.count);
}
