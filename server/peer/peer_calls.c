#include "server/peer/peer_calls.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/byte_queue.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "server/peer/peer_wire.h"

enum {
    WAIT_MS = 3000,        // for a runtime between two sessions
    RECENT_MS = 60 * 1000, // gone for longer: nobody waits
    TICK_MS = 25,
    ASK_EVERY_MS = 200,  // PostgreSQL, while waiting
    SAME_EPOCH_MS = 100, // before an owner that refused is tried again
    SAME_EPOCH_HOPS_MAX = 4,
    HOPS_MAX = 16,
    KEPT_BYTES_MAX = 1024 * 1024, // callers stop at 64 KiB
    ARENA_BYTES_MAX = 1024 * 1024,
};

enum call_state { CALL_LOOKING, CALL_WAITING, CALL_SENDING, CALL_FAILED };

struct tunnel_carried {
    struct peer_calls *calls;
    struct tunnel_carried *next, **link;
    struct tunnel_node *node;
    struct tunnel_carrier_events events;
    void *arg;
    enum call_state state;
    struct arena *arena;
    struct tunnel_request request;
    struct registry_query *query; // under way
    struct peer_stream *stream;   // CALL_SENDING
    uint64_t wait_until_ms, ask_at_ms, opened_at_us;
    uint64_t epoch; // asked of the owner
    uint64_t refused_epoch, refused_at_ms;
    unsigned hops, same_epoch_hops;
    unsigned depth; // events being told
    bool over;      // unlisted; freed when those have returned
    bool ask_fresh;
    struct byte_queue kept; // written and not yet safe with the owner
    size_t taken;           // of it, that the stream has sent
    struct tunnel_header *trailers;
    size_t trailer_count;
    bool ended, committed, answered;
    struct turn_item turn; // looks up, or fails, outside of open()
    enum tunnel_cause cause;
    char detail[PEER_WIRE_DETAIL_BYTES];
};

struct peer_calls {
    struct loop *loop;
    struct peer_calls_options options;
    struct tunnel_carried *first;
    struct tunnel_carried *cursor; // of the tick: what it looks at next
    uv_timer_t timer;              // runs while a call waits
    struct turn turn;
    unsigned handles_open;
    loop_fn on_closed;
    void *closed_arg;
    struct metric *ok, *failed, *refused, *retried, *lost, *seconds;
};

static void on_tick(uv_timer_t *timer);

// ---- life of a call ------------------------------------------------------------------------------------------------

// Nothing reaches the call from here on.
static void call_unlist(struct tunnel_carried *call)
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

static void call_enter(struct tunnel_carried *call)
{
    call->depth++;
}

static void call_leave(struct tunnel_carried *call)
{
    if (--call->depth > 0 || !call->over) return;
    byte_queue_finish(&call->kept);
    arena_destroy(call->arena);
    mem_free(call);
}

static void call_fail(struct tunnel_carried *call, enum tunnel_cause cause, const char *detail)
{
    call_enter(call);
    call_unlist(call);
    call->events.on_fail(call->arg, cause, detail);
    call_leave(call);
}

static void call_fail_later(struct tunnel_carried *call, enum tunnel_cause cause, const char *detail)
{
    call->state = CALL_FAILED;
    call->cause = cause;
    snprintf(call->detail, sizeof call->detail, "%s", detail);
    turn_add(&call->calls->turn, &call->turn);
}

static void call_wait(struct tunnel_carried *call)
{
    uint64_t now_ms = clock_mono_ms();
    struct peer_calls *calls = call->calls;
    call->state = CALL_WAITING;
    call->ask_at_ms = now_ms + ASK_EVERY_MS;
    if (!call->wait_until_ms) call->wait_until_ms = now_ms + WAIT_MS;
    if (!uv_is_active((uv_handle_t *)&calls->timer)) uv_timer_start(&calls->timer, on_tick, TICK_MS, TICK_MS);
}

// The runtime has a session on this replica: the broker takes the call.
static bool give_back(struct tunnel_carried *call)
{
    if (!tunnel_node_has_runtime(call->node, call->request.account_id, call->request.runtime)) return false;
    const struct tunnel_carried_body body = {.at = byte_queue_front(&call->kept),
                                             .len = byte_queue_len(&call->kept),
                                             .trailers = call->trailers,
                                             .trailer_count = call->trailer_count};
    call_enter(call);
    call_unlist(call);
    call->events.on_here(call->arg, &call->request, &body);
    call_leave(call);
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
    if (taken) call->events.on_taken(call->arg, taken);
}

// The owner did nothing with it: look again, from the authority; whoever said the same twice is given some time.
static void call_again(struct tunnel_carried *call)
{
    bool first = call->refused_epoch != call->epoch;
    call->stream = NULL;
    call->taken = 0;
    registry_doubt(call->calls->options.registry, call->request.account_id, call->request.runtime, call->epoch);
    metric_add(call->calls->retried, 1);
    call->same_epoch_hops = first ? 1 : call->same_epoch_hops + 1;
    call->refused_epoch = call->epoch;
    call->refused_at_ms = clock_mono_ms();
    call_wait(call);
    if (!first) return;
    call->state = CALL_LOOKING;
    call->ask_fresh = true;
    turn_add(&call->calls->turn, &call->turn);
}

static void on_info(void *arg, int status, const struct tunnel_header *fields, size_t count)
{
    struct tunnel_carried *call = arg;
    call_enter(call);
    call_commit(call);
    if (!call->over) call->events.on_info(call->arg, status, fields, count);
    call_leave(call);
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
        call_fail(call, cause, text);
    }
}

static void on_head(void *arg, int status, const struct tunnel_header *fields, size_t count)
{
    struct tunnel_carried *call = arg;
    struct str detail;
    enum tunnel_cause cause = peer_wire_fail_decode(fields, count, &detail);
    if (cause != TUNNEL_CAUSE_NONE) {
        take_failure(call, cause, detail);
        return;
    }
    call_enter(call);
    call->answered = true;
    metric_observe(call->calls->seconds, (double)(clock_mono_us() - call->opened_at_us) / 1e6);
    metric_add(call->calls->ok, 1);
    call_commit(call);
    if (!call->over) call->events.on_head(call->arg, status, fields, count);
    call_leave(call);
}

static void on_data(void *arg, const uint8_t *at, size_t len)
{
    struct tunnel_carried *call = arg;
    call_enter(call);
    call->events.on_data(call->arg, at, len);
    call_leave(call);
}

static void on_trailers(void *arg, const struct tunnel_header *fields, size_t count)
{
    struct tunnel_carried *call = arg;
    call_enter(call);
    call->events.on_trailers(call->arg, fields, count);
    call_leave(call);
}

static void on_remote_end(void *arg)
{
    (void)arg; // the stream's end tells: our request must have left, too
}

static void on_taken(void *arg, size_t len)
{
    struct tunnel_carried *call = arg;
    call_enter(call);
    if (call->committed)
        call->events.on_taken(call->arg, len);
    else
        call->taken += len;
    call_leave(call);
}

static void on_credit(void *arg)
{
    struct tunnel_carried *call = arg;
    call_enter(call);
    call_commit(call);
    call_leave(call);
}

static void on_close(void *arg, uint32_t code, bool whole, bool processed)
{
    struct tunnel_carried *call = arg;
    call->stream = NULL;
    if (whole && call->answered) {
        call_enter(call);
        call_unlist(call);
        call->events.on_end(call->arg);
        call_leave(call);
    } else if (!processed && !call->committed) {
        call_again(call);
    } else {
        enum tunnel_cause cause = peer_wire_reset_cause(code);
        metric_add(cause ? call->calls->failed : call->calls->lost, 1);
        call_fail(call, cause ? cause : TUNNEL_CAUSE_TUNNEL_LOST,
                  cause ? "the call failed at the replica that holds the tunnel"
                        : "the connection to the replica that holds the tunnel was lost");
    }
}

static const struct peer_stream_events stream_events = {.on_info = on_info,
                                                        .on_head = on_head,
                                                        .on_data = on_data,
                                                        .on_trailers = on_trailers,
                                                        .on_remote_end = on_remote_end,
                                                        .on_taken = on_taken,
                                                        .on_credit = on_credit,
                                                        .on_close = on_close};

// ---- the hop -------------------------------------------------------------------------------------------------------

static void call_send(struct tunnel_carried *call, const struct registry_place *place)
{
    struct tunnel_header fields[PEER_WIRE_FIELDS_MAX];
    size_t count = 0;
    struct error err;
    if (peer_wire_request_encode(&call->request, place->epoch, call->arena, fields, &count, &err) != ERROR_NONE) {
        call_fail(call, TUNNEL_CAUSE_UPSTREAM_FAILED, err.text);
        return;
    }
    struct peer_pipe *pipe = peer_links_get(call->calls->options.links, place->address);
    bool no_body = call->request.end_stream;
    struct peer_stream *stream = pipe ? peer_stream_open(pipe, fields, count, no_body, &stream_events, call) : NULL;
    if (!stream) {
        metric_add(call->calls->failed, 1);
        call_fail(call, TUNNEL_CAUSE_OVERLOADED, "the link to the replica that holds the tunnel takes no more calls");
        return;
    }
    call->state = CALL_SENDING;
    call->stream = stream;
    call->epoch = place->epoch;
    call->hops++;
    call->opened_at_us = clock_mono_us();
    if (no_body) return;
    if (byte_queue_len(&call->kept))
        peer_stream_write(stream, byte_queue_front(&call->kept), byte_queue_len(&call->kept));
    if (call->ended) peer_stream_end(stream, call->trailers, call->trailer_count);
}

static bool may_hop(const struct tunnel_carried *call, const struct registry_place *place)
{
    if (!call->calls->options.links || !place->address[0] || strcmp(place->replica, call->calls->options.replica) == 0)
        return false;
    if (call->hops >= HOPS_MAX || place->epoch < call->refused_epoch) return false;
    return place->epoch > call->refused_epoch ||
           (call->same_epoch_hops < SAME_EPOCH_HOPS_MAX &&
            clock_mono_ms() >= call->refused_at_ms + (uint64_t)call->same_epoch_hops * SAME_EPOCH_MS);
}

static void take_answer(struct tunnel_carried *call, const struct registry_answer *answer)
{
    if (give_back(call)) return;
    if (answer->known == REGISTRY_HELD && may_hop(call, &answer->place)) {
        call_send(call, &answer->place);
    } else if (answer->known == REGISTRY_NOBODY && answer->gone_ms > RECENT_MS) {
        call_fail(call, TUNNEL_CAUSE_NO_TUNNEL, "the runtime has no tunnel");
    } else {
        call_wait(call);
    }
}

static void on_answer(void *arg, const struct registry_answer *answer)
{
    struct tunnel_carried *call = arg;
    call->query = NULL;
    take_answer(call, answer);
}

static void look_up(struct tunnel_carried *call)
{
    struct registry_answer answer;
    bool fresh = call->ask_fresh;
    call->ask_fresh = false;
    call->query = registry_ask(call->calls->options.registry, call->request.account_id, call->request.runtime, fresh,
                               &answer, on_answer, call);
    if (!call->query) take_answer(call, &answer);
}

static void on_turn(struct turn_item *item)
{
    struct tunnel_carried *call = (struct tunnel_carried *)((char *)item - offsetof(struct tunnel_carried, turn));
    if (call->state == CALL_FAILED)
        call_fail(call, call->cause, call->detail);
    else if (call->state == CALL_LOOKING && !call->query)
        look_up(call);
}

// One call that waits. It may be freed.
static void tick_one(struct tunnel_carried *call, uint64_t now_ms)
{
    struct registry_place place;
    if (give_back(call)) return;
    if (now_ms >= call->wait_until_ms) {
        call_fail(call, TUNNEL_CAUSE_NO_TUNNEL, "the runtime has no tunnel");
    } else if (call->query) {
        return;
    } else if (now_ms >= call->ask_at_ms) {
        call->ask_at_ms = now_ms + ASK_EVERY_MS;
        call->ask_fresh = true;
        look_up(call);
    } else if (registry_peek(call->calls->options.registry, call->request.account_id, call->request.runtime, &place) &&
               may_hop(call, &place)) {
        call_send(call, &place); // news came by Redis
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct peer_calls *calls = timer->data;
    uint64_t now_ms = clock_mono_ms();
    bool any = false;
    for (struct tunnel_carried *call = calls->first; call; call = calls->cursor) {
        calls->cursor = call->next;
        if (call->state != CALL_WAITING) continue;
        any = true;
        tick_one(call, now_ms);
    }
    calls->cursor = NULL;
    if (!any) uv_timer_stop(timer);
}

// ---- the carrier's functions ---------------------------------------------------------------------------------------

static void copy_request(struct tunnel_carried *call, const struct tunnel_request *from)
{
    struct arena *arena = call->arena;
    struct tunnel_header *headers = arena_array(arena, from->header_count + 1, sizeof *headers);
    for (size_t i = 0; i < from->header_count; i++)
        headers[i] = (struct tunnel_header){.name = arena_str(arena, from->headers[i].name),
                                            .value = arena_str(arena, from->headers[i].value)};
    call->request = *from;
    call->request.account_id = arena_str(arena, from->account_id);
    call->request.runtime = arena_str(arena, from->runtime);
    call->request.method = arena_str(arena, from->method);
    call->request.path = arena_str(arena, from->path);
    call->request.authority = arena_str(arena, from->authority);
    call->request.protocol = arena_str(arena, from->protocol);
    call->request.user_id = from->user_id ? arena_cstr(arena, str_c(from->user_id)) : NULL;
    call->request.user_name = from->user_name ? arena_cstr(arena, str_c(from->user_name)) : NULL;
    call->request.headers = headers;
}

static bool is_bounded(const struct tunnel_request *request)
{
    size_t bytes = request->method.len + request->path.len + request->authority.len + request->protocol.len;
    for (size_t i = 0; i < request->header_count; i++)
        bytes += request->headers[i].name.len + request->headers[i].value.len;
    return request->header_count <= PEER_WIRE_FIELDS_MAX && bytes <= PEER_WIRE_HEAD_BYTES_MAX;
}

struct tunnel_carried *peer_calls_open(struct peer_calls *calls, struct tunnel_node *node,
                                       const struct tunnel_request *request, const struct tunnel_carrier_events *events,
                                       void *arg)
{
    struct tunnel_carried *call = mem_zalloc(sizeof *call);
    call->calls = calls;
    call->node = node;
    call->events = *events;
    call->arg = arg;
    call->arena = arena_create(ARENA_BYTES_MAX);
    call->turn.run = on_turn;
    byte_queue_init(&call->kept, KEPT_BYTES_MAX);
    call->next = calls->first;
    call->link = &calls->first;
    if (call->next) call->next->link = &call->next;
    calls->first = call;
    if (is_bounded(request)) {
        copy_request(call, request);
    } else {
        call_fail_later(call, TUNNEL_CAUSE_UPSTREAM_FAILED, "the request head is too long");
    }
    turn_add(&calls->turn, &call->turn);
    return call;
}

void peer_calls_write(struct tunnel_carried *call, const void *at, size_t len)
{
    if (call->state == CALL_FAILED) return;
    if (!call->committed && !byte_queue_add(&call->kept, at, len)) {
        if (call->stream) peer_stream_reset(call->stream, NGHTTP2_CANCEL);
        call->stream = NULL;
        call_fail_later(call, TUNNEL_CAUSE_UPSTREAM_FAILED, "the caller wrote on although the queue was full");
    } else if (call->stream) {
        peer_stream_write(call->stream, at, len);
    }
}

void peer_calls_end(struct tunnel_carried *call, const struct tunnel_header *trailers, size_t count)
{
    call->ended = true;
    call->trailers = arena_array(call->arena, count + 1, sizeof *call->trailers);
    for (size_t i = 0; i < count; i++)
        call->trailers[i] = (struct tunnel_header){.name = arena_str(call->arena, trailers[i].name),
                                                   .value = arena_str(call->arena, trailers[i].value)};
    call->trailer_count = count;
    if (call->stream) peer_stream_end(call->stream, trailers, count);
}

void peer_calls_consumed(struct tunnel_carried *call, size_t len)
{
    if (call->stream) peer_stream_consumed(call->stream, len);
}

void peer_calls_cancel(struct tunnel_carried *call)
{
    if (call->stream) peer_stream_reset(call->stream, NGHTTP2_CANCEL);
    call->stream = NULL;
    call_enter(call);
    call_unlist(call);
    call_leave(call);
}

// ---- life ----------------------------------------------------------------------------------------------------------

struct peer_calls *peer_calls_create(struct loop *loop, const struct peer_calls_options *options)
{
    struct peer_calls *calls = mem_zalloc(sizeof *calls);
    calls->loop = loop;
    calls->options = *options;
    struct metric_family *hops =
        metrics_counter("culvert_hop_total", "Calls carried to another replica by how the hop ended.", "result", NULL);
    calls->ok = metric_with(hops, "answered");
    calls->failed = metric_with(hops, "failed");
    calls->refused = metric_with(hops, "misdirected");
    calls->retried = metric_with(hops, "retried");
    calls->lost = metric_with(hops, "lost");
    calls->seconds =
        metric_with(metrics_histogram("culvert_hop_seconds", "From a hop's request to the head of its answer.", NULL));
    turn_init(&calls->turn, loop_uv(loop));
    uv_timer_init(loop_uv(loop), &calls->timer);
    calls->timer.data = calls;
    calls->handles_open = 2;
    return calls;
}

static void on_handle_closed(void *arg)
{
    struct peer_calls *calls = arg;
    if (--calls->handles_open > 0) return;
    loop_fn on_closed = calls->on_closed;
    void *closed_arg = calls->closed_arg;
    mem_free(calls);
    on_closed(closed_arg);
}

static void on_timer_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

void peer_calls_close(struct peer_calls *calls, loop_fn on_closed, void *arg)
{
    assert(!calls->first);
    calls->on_closed = on_closed;
    calls->closed_arg = arg;
    uv_close((uv_handle_t *)&calls->timer, on_timer_closed);
    turn_close(&calls->turn, on_handle_closed, calls);
}
