#include "server/peer/peer_calls.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/peer/peer_call.h"

enum {
    WAIT_MS = 3000,        // for a runtime between two sessions
    RECENT_MS = 60 * 1000, // gone for longer: nobody waits
    TICK_MS = 25,
    ASK_EVERY_MS = 200,  // PostgreSQL, while waiting
    SAME_EPOCH_MS = 100, // before an owner that refused is tried again
    SAME_EPOCH_HOPS_MAX = 4,
    HOPS_MAX = 16,
};

// ---- where to ------------------------------------------------------------------------------------------------------

void peer_calls_wait(struct tunnel_carried *call)
{
    uint64_t now_ms = clock_mono_ms();
    struct peer_calls *calls = call->calls;
    call->state = PEER_CALL_WAITING;
    call->ask_at_ms = now_ms + ASK_EVERY_MS;
    if (!call->wait_until_ms) call->wait_until_ms = now_ms + WAIT_MS;
    if (!timer_is_active(&calls->timer)) timer_start(&calls->timer, TICK_MS, TICK_MS);
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
    if (peer_call_give_back(call)) return;
    if (answer->known == REGISTRY_HELD && may_hop(call, &answer->place)) {
        peer_call_send(call, &answer->place);
    } else if (answer->known == REGISTRY_NOBODY && answer->gone_ms > RECENT_MS) {
        peer_call_fail(call, TUNNEL_CAUSE_NO_TUNNEL, "the runtime has no tunnel");
    } else {
        peer_calls_wait(call);
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
    call->query = registry_ask(call->calls->options.registry,
                               &(struct runtime_key){call->request->account_id, call->request->runtime}, fresh, &answer,
                               on_answer, call);
    if (!call->query) take_answer(call, &answer);
}

static void let_go(struct tunnel_carried *call)
{
    peer_call_enter(call);
    peer_call_let_go(call);
    peer_call_leave(call);
}

static void on_turn(struct turn_item *item)
{
    struct tunnel_carried *call = (struct tunnel_carried *)((char *)item - offsetof(struct tunnel_carried, turn));
    if (call->state == PEER_CALL_FAILED)
        peer_call_fail(call, call->cause, call->detail);
    else if (call->state == PEER_CALL_LOOKING && !call->query)
        look_up(call);
    else if (call->state == PEER_CALL_SENDING)
        let_go(call);
}

// One call that waits. It may be freed.
static void tick_one(struct tunnel_carried *call, uint64_t now_ms)
{
    struct registry_place place;
    if (peer_call_give_back(call)) return;
    if (now_ms >= call->wait_until_ms) {
        peer_call_fail(call, TUNNEL_CAUSE_NO_TUNNEL, "the runtime has no tunnel");
    } else if (call->query) {
        return;
    } else if (now_ms >= call->ask_at_ms) {
        call->ask_at_ms = now_ms + ASK_EVERY_MS;
        call->ask_fresh = true;
        look_up(call);
    } else if (registry_peek(call->calls->options.registry,
                             &(struct runtime_key){call->request->account_id, call->request->runtime}, &place) &&
               may_hop(call, &place)) {
        peer_call_send(call, &place); // news came by Redis
    }
}

static void on_tick(void *arg)
{
    struct peer_calls *calls = arg;
    uint64_t now_ms = clock_mono_ms();
    bool any = false;
    for (struct tunnel_carried *call = calls->first; call; call = calls->cursor) {
        calls->cursor = call->next;
        if (call->state != PEER_CALL_WAITING) continue;
        any = true;
        tick_one(call, now_ms);
    }
    calls->cursor = NULL;
    if (!any) timer_stop(&calls->timer);
}

// ---- the carrier's functions ---------------------------------------------------------------------------------------

struct tunnel_carried *peer_calls_open(struct peer_calls *calls, struct tunnel_node *node,
                                       const struct tunnel_request *request, const struct tunnel_carrier_events *events,
                                       void *arg)
{
    struct tunnel_carried *call = peer_call_create(calls, node, request, events, arg);
    call->turn.run = on_turn;
    turn_add(&calls->turn, &call->turn);
    return call;
}

void peer_calls_write(struct tunnel_carried *call, const void *at, size_t len)
{
    if (call->state == PEER_CALL_FAILED) return;
    if (!call->committed && !byte_queue_add(&call->kept, at, len)) {
        if (call->stream) peer_stream_reset(call->stream, NGHTTP2_CANCEL);
        call->stream = NULL;
        peer_call_fail_later(call, TUNNEL_CAUSE_UPSTREAM_FAILED, "the caller wrote on although the queue was full");
    } else if (call->stream) {
        peer_stream_write(call->stream, at, len);
        if (call->credited && !call->committed) turn_add(&call->calls->turn, &call->turn); // not inside of the write
    }
}

void peer_calls_end(struct tunnel_carried *call, const struct http_header *trailers, size_t count)
{
    if (call->ended) return;
    call->ended = true;
    if (count) call->trailers = header_block_copy(trailers, count);
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
    peer_call_enter(call);
    peer_call_unlist(call);
    peer_call_leave(call);
}

// ---- life ----------------------------------------------------------------------------------------------------------

struct peer_calls *peer_calls_create(struct loop *loop, const struct peer_calls_options *options)
{
    struct peer_calls *calls = mem_zalloc(sizeof *calls);
    calls->loop = loop;
    calls->options = *options;
    struct metric_family *hops =
        metrics_counter("culvert_hop_total", "Calls forwarded to another replica, by result.", "result", NULL);
    calls->ok = metric_with(hops, "answered");
    calls->failed = metric_with(hops, "failed");
    calls->refused = metric_with(hops, "misdirected");
    calls->retried = metric_with(hops, "retried");
    calls->lost = metric_with(hops, "lost");
    calls->seconds = metric_with(
        metrics_histogram("culvert_hop_seconds", "Time from a forwarded request to its response head.", NULL));
    turn_init(&calls->turn, loop_uv(loop));
    timer_init(&calls->timer, loop_uv(loop), on_tick, calls);
    return calls;
}

static void on_turn_closed(void *arg)
{
    struct peer_calls *calls = arg;
    loop_fn on_closed = calls->on_closed;
    void *closed_arg = calls->closed_arg;
    mem_free(calls);
    on_closed(closed_arg);
}

void peer_calls_close(struct peer_calls *calls, loop_fn on_closed, void *arg)
{
    assert(!calls->first);
    calls->on_closed = on_closed;
    calls->closed_arg = arg;
    timer_finish(&calls->timer);
    turn_close(&calls->turn, on_turn_closed, calls);
}
