#include "tunnel/call/call.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tunnel/call/relay.h"
#include "tunnel/call/stream_kept.h"

enum call_place {
    CALL_WAITS,  // for a tunnel that was here a moment ago
    CALL_HERE,   // the session lives on this loop
    CALL_FAR,    // on another one
    CALL_AWAY,   // the carrier has it
    CALL_FAILED, // told at the end of the turn
};

struct tunnel_call {
    struct tunnel_node *node;
    struct tunnel_call *next, **link;
    uint64_t key;
    struct exchange_events events;
    void *arg;
    enum call_place place;
    struct tunnel_stream *stream; // CALL_HERE
    unsigned far;                 // CALL_FAR: the session's node
    struct tunnel_carried *away;  // CALL_AWAY
    struct relay_message *outbox; // CALL_FAR, CALL_WAITS: goes out at the end of the turn; NULL: nothing to say
    uint64_t wait_until_ms;       // CALL_WAITS
    enum tunnel_cause cause;      // CALL_FAILED
    char detail[128];
    uint64_t opened_at_us;
    size_t queued;              // bytes of the request that no flow control has taken yet
    bool full;                  // the caller was told so
    bool ended;                 // its request is complete
    bool over;                  // unlisted; freed when the last callback has returned
    unsigned depth;             // callbacks running
    unsigned returns;           // how often it came back
    unsigned messages;          // CALL_FAR: sent since it went there
    size_t first_bytes;         // CALL_FAR: of the body, in the first of them
    bool accepted;              // nothing comes back any more, or could be put together again
    struct relay_message *kept; // CALL_FAR: what was sent after the first message, until then; NULL: nothing
    struct turn_item turn;
};

// ---- life ----------------------------------------------------------------------------------------------------

static void call_free_outbox(struct tunnel_call *call)
{
    if (call->outbox) relay_message_free(call->outbox);
    call->outbox = NULL;
}

static void call_free_kept(struct tunnel_call *call)
{
    if (call->kept) relay_message_free(call->kept);
    call->kept = NULL;
}

static void call_accept(struct tunnel_call *call)
{
    call->accepted = true;
    call_free_kept(call);
}

// Nothing reaches the call from here on; its memory goes when the callbacks that run have returned.
static void call_unlist(struct tunnel_call *call)
{
    struct tunnel_node *node = call->node;
    assert(!call->over);
    call->over = true;
    call->stream = NULL;
    call->away = NULL;
    turn_remove(&node->turn, &call->turn);
    call_free_outbox(call);
    call_free_kept(call);
    id_map_remove(&node->calls, call->key);
    *call->link = call->next;
    if (call->next) call->next->link = call->link;
}

static void call_enter(struct tunnel_call *call)
{
    call->depth++;
}

static void call_leave(struct tunnel_call *call)
{
    assert(call->depth > 0);
    if (--call->depth == 0 && call->over) mem_free(call);
}

static void call_fail(struct tunnel_call *call, enum tunnel_cause cause, const char *detail)
{
    call_unlist(call);
    call_enter(call);
    call->events.on_fail(call->arg, cause, detail);
    call_leave(call);
}

static void call_fail_later(struct tunnel_call *call, enum tunnel_cause cause, const char *detail)
{
    assert(!call->over);
    call->place = CALL_FAILED;
    call->cause = cause;
    snprintf(call->detail, sizeof(call->detail), "%.*s", (int)sizeof(call->detail) - 1, detail);
    call_free_outbox(call);
    turn_add(&call->node->turn, &call->turn);
}

static struct relay_message *call_outbox(struct tunnel_call *call)
{
    if (!call->outbox) call->outbox = relay_message_create(call->node->index, call->key);
    if (call->place == CALL_FAR) turn_add(&call->node->turn, &call->turn);
    return call->outbox;
}

static void call_go_on(struct tunnel_call *call);

static void call_on_turn(struct turn_item *item)
{
    struct tunnel_call *call = (struct tunnel_call *)((char *)item - offsetof(struct tunnel_call, turn));
    if (call->place == CALL_FAILED) {
        call_fail(call, call->cause, call->detail);
        return;
    }
    if (call->place == CALL_WAITS) {
        call_go_on(call);
        return;
    }
    if (call->place != CALL_FAR || !call->outbox) return;
    struct relay_message *message = call->outbox;
    call->outbox = NULL;
    if (call->messages++ == 0) {
        call->first_bytes = message->data.len;
    } else if (!call->accepted) { // the first may yet come back, and this would be lost
        if (!call->kept) call->kept = relay_message_create(call->node->index, call->key);
        if (!relay_message_append(call->kept, message, 0)) call_accept(call);
    }
    if (!relay_message_post(call->node->broker, call->far, message))
        call_fail(call, TUNNEL_CAUSE_TUNNEL_LOST, "the session's node stopped");
}

// ---- what the stream tells -----------------------------------------------------------------------------------

static void call_on_info(void *arg, int status)
{
    struct tunnel_call *call = arg;
    call_enter(call);
    if (call->events.on_info) call->events.on_info(call->arg, status);
    call_leave(call);
}

static enum tunnel_hop call_hop(const struct tunnel_call *call)
{
    if (call->place == CALL_HERE) return TUNNEL_HOP_NONE;
    return call->place == CALL_FAR ? TUNNEL_HOP_LOOP : TUNNEL_HOP_REPLICA;
}

static void call_on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    struct tunnel_call *call = arg;
    metric_observe(call->node->broker->meter.ttfb[call_hop(call)],
                   (double)(clock_mono_us() - call->opened_at_us) / 1e6);
    call_enter(call);
    call->events.on_head(call->arg, status, headers, count);
    call_leave(call);
}

static void call_on_data(void *arg, const uint8_t *at, size_t len)
{
    struct tunnel_call *call = arg;
    call_enter(call);
    call->events.on_data(call->arg, at, len);
    call_leave(call);
}

static void call_on_trailers(void *arg, const struct http_header *headers, size_t count)
{
    struct tunnel_call *call = arg;
    call_enter(call);
    if (call->events.on_trailers) call->events.on_trailers(call->arg, headers, count);
    call_leave(call);
}

static void call_on_half_end(void *arg)
{
    struct tunnel_call *call = arg;
    call_enter(call);
    if (call->events.on_half_end) call->events.on_half_end(call->arg);
    call_leave(call);
}

static void call_on_taken(void *arg, size_t len)
{
    struct tunnel_call *call = arg;
    call_accept(call);
    call->queued -= len;
    call_enter(call);
    if (call->events.on_taken) call->events.on_taken(call->arg, len);
    if (!call->over && call->full && call->queued <= TUNNEL_CALL_QUEUE_BYTES / 2) {
        call->full = false;
        if (call->events.on_room) call->events.on_room(call->arg);
    }
    call_leave(call);
}

static void call_on_end(void *arg)
{
    struct tunnel_call *call = arg;
    call_unlist(call);
    call_enter(call);
    call->events.on_end(call->arg);
    call_leave(call);
}

static void call_on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    call_fail(arg, cause, detail);
}

static void call_on_back(void *arg, struct relay_message *back, enum tunnel_cause cause, const char *detail)
{
    struct tunnel_call *call = arg;
    call->stream = NULL;
    tunnel_call_take_back(call, back, cause, detail);
}

static const struct exchange_events call_exchange_events = {.on_info = call_on_info,
                                                            .on_head = call_on_head,
                                                            .on_data = call_on_data,
                                                            .on_trailers = call_on_trailers,
                                                            .on_half_end = call_on_half_end,
                                                            .on_taken = call_on_taken,
                                                            .on_end = call_on_end,
                                                            .on_fail = call_on_fail};

const struct tunnel_stream_events tunnel_call_stream_events = {.exchange = &call_exchange_events,
                                                               .on_back = call_on_back};

// ---- finding the session -------------------------------------------------------------------------------------

// Into the outbox: from there it goes to the stream, which keeps it while it may have to be opened again.
static bool call_keep_request(struct tunnel_call *call, const struct tunnel_request *request)
{
    struct relay_message *message = call_outbox(call);
    if (message->request) return true;
    struct error err;
    struct call_request *copy = mem_zalloc(sizeof(*copy));
    if (call_request_copy(request, copy, &err)) {
        mem_free(copy);
        call_fail_later(call, TUNNEL_CAUSE_UPSTREAM_FAILED, err.text);
        return false;
    }
    message->request = copy;
    return true;
}

static void call_go_here(struct tunnel_call *call, uint64_t session_id)
{
    struct tunnel_session *session = id_map_get(&call->node->sessions, session_id);
    if (!session) {
        call_fail_later(call, TUNNEL_CAUSE_NO_TUNNEL, "the session has just ended");
        return;
    }
    enum tunnel_cause cause;
    struct error err;
    struct relay_message *message = call->outbox; // with what the caller wrote while it waited
    call->stream =
        tunnel_stream_open(session, &message->request->request, false, &tunnel_call_stream_events, call, &cause, &err);
    if (!call->stream) {
        call_fail_later(call, cause, err.text);
        return;
    }
    stream_kept_take(call->stream, message->request);
    message->request = NULL;
    if (message->data.len) tunnel_stream_write_queue(call->stream, &message->data);
    if (message->end) tunnel_stream_end(call->stream, message->trailers.at, message->trailers.count);
    call_free_outbox(call);
}

static void call_go_far(struct tunnel_call *call, struct tunnel_session_ref ref)
{
    call->far = ref.node;
    call->messages = 0;
    call->outbox->open = true;
    call->outbox->session = ref.id;
}

// False: there is no session now.
static bool call_go(struct tunnel_call *call, const struct tunnel_request *request)
{
    struct tunnel_session_ref ref;
    if (!tunnel_directory_find(call->node->broker->directory,
                               &(struct runtime_key){request->account_id, request->runtime}, request->epoch, &ref))
        return false;
    bool here = ref.node == call->node->index;
    call->place = here ? CALL_HERE : CALL_FAR;
    call->accepted = false;
    call_free_kept(call);
    if (!call_keep_request(call, request)) return true;
    if (here)
        call_go_here(call, ref.id);
    else
        call_go_far(call, ref);
    return true;
}

static const struct tunnel_carrier *call_carrier(const struct tunnel_call *call)
{
    return call->node->broker->options.carrier;
}

// The runtime came here while the carrier looked for it. What was written goes along as if the call had waited here.
static void call_on_here(void *arg, const struct tunnel_request *request, const struct tunnel_carried_body *body)
{
    struct tunnel_call *call = arg;
    call->away = NULL;
    call->place = CALL_WAITS;
    struct relay_message *message = call_outbox(call);
    (void)byte_queue_add(&message->data, body->at, body->len); // the caller stops at 64 KiB
    message->end = call->ended && !request->end_stream;
    if (body->trailer_count) message->trailers = header_block_copy(body->trailers, body->trailer_count);
    if (!call_go(call, request)) call_fail_later(call, TUNNEL_CAUSE_NO_TUNNEL, "the session has just ended");
}

static const struct tunnel_carrier_events call_carrier_events = {.exchange = &call_exchange_events,
                                                                 .on_here = call_on_here};

static bool call_go_away(struct tunnel_call *call, const struct tunnel_request *request)
{
    if (!call_carrier(call)) return false;
    call->away =
        call_carrier(call)->open(call->node->broker->options.ctx, call->node, request, &call_carrier_events, call);
    if (!call->away) return false;
    call->place = CALL_AWAY;
    return true;
}

// Where a call goes that waits, with what was written so far, or came back.
static void call_go_on(struct tunnel_call *call)
{
    const struct relay_message *message = call->outbox;
    const struct tunnel_request *request = &message->request->request;
    if (call_go(call, request)) return;
    if (request->epoch) { // another replica's, which will look where the runtime is now
        call_fail_later(call, TUNNEL_CAUSE_NO_TUNNEL, "the session has just ended");
        return;
    }
    if (!call_go_away(call, request)) { // it is looked for at each tick
        if (clock_mono_ms() >= call->wait_until_ms)
            call_fail_later(call, TUNNEL_CAUSE_NO_TUNNEL, "the runtime has no tunnel");
        return;
    }
    if (message->data.len) call_carrier(call)->write(call->away, byte_queue_front(&message->data), message->data.len);
    if (message->end) call_carrier(call)->end(call->away, message->trailers.at, message->trailers.count);
    call_free_outbox(call);
}

// Puts what was written together again: what came back, what the relay had not been told of yet, what was not sent.
static bool call_collect(struct tunnel_call *call, struct relay_message *message)
{
    if (call->accepted) return false; // something may be missing
    if (call->kept && !relay_message_append(message, call->kept, message->data.len - call->first_bytes)) return false;
    return !call->outbox || relay_message_append(message, call->outbox, 0);
}

void tunnel_call_take_back(struct tunnel_call *call, struct relay_message *message, enum tunnel_cause cause,
                           const char *detail)
{
    enum { RETURNS_MAX = 3 };
    const struct tunnel_meter *meter = &call->node->broker->meter;
    if (call->returns++ == RETURNS_MAX || !call_collect(call, message)) {
        metric_add(meter->given_up, 1);
        relay_message_free(message);
        call_fail(call, cause, detail);
        return;
    }
    metric_add(meter->opened_again, 1);
    call_free_kept(call);
    call_free_outbox(call);
    turn_remove(&call->node->turn, &call->turn);
    message->caller = call->node->index;
    message->key = call->key;
    call->place = CALL_WAITS;
    call->outbox = message;
    call->wait_until_ms = clock_mono_ms() + TUNNEL_CALL_WAIT_MS;
    // An agent that has too much to do is asked again after a tick.
    if (cause != TUNNEL_CAUSE_OVERLOADED) turn_add(&call->node->turn, &call->turn);
}

struct tunnel_call *tunnel_call_next(const struct tunnel_call *call)
{
    return call->next;
}

void tunnel_call_tick(struct tunnel_call *call)
{
    if (call->place == CALL_WAITS) call_go_on(call);
}

void tunnel_call_lose(struct tunnel_call *call)
{
    if (call->stream) tunnel_stream_cancel(call->stream);
    if (call->away) call_carrier(call)->cancel(call->away);
    call_fail(call, TUNNEL_CAUSE_TUNNEL_LOST, "this loop stops");
}

// ---- the caller's functions ----------------------------------------------------------------------------------

struct tunnel_call *tunnel_call_open(struct tunnel_node *node, const struct tunnel_request *request,
                                     const struct exchange_events *events, void *arg)
{
    assert(loop_is_current(node->loop) && !node->closed);
    struct tunnel_call *call = mem_zalloc(sizeof(*call));
    call->node = node;
    call->key = (uint64_t)(node->index + 1) << 48 | ++node->last_call;
    call->events = *events;
    call->arg = arg;
    call->opened_at_us = clock_mono_us();
    call->ended = request->end_stream;
    call->turn.run = call_on_turn;
    call->next = node->call_list;
    call->link = &node->call_list;
    if (call->next) call->next->link = &call->next;
    node->call_list = call;
    id_map_put(&node->calls, call->key, call);
    if (call_go(call, request) || (!request->epoch && call_go_away(call, request))) return call;
    if (request->epoch ||
        !tunnel_directory_was_here(node->broker->directory,
                                   &(struct runtime_key){request->account_id, request->runtime}, TUNNEL_CALL_WAIT_MS)) {
        call_fail_later(call, TUNNEL_CAUSE_NO_TUNNEL, "the runtime has no tunnel");
        return call;
    }
    // It was here a moment ago: agents come back within seconds, and whoever waits gets an answer in place of a 503.
    call->place = CALL_WAITS;
    call->wait_until_ms = clock_mono_ms() + TUNNEL_CALL_WAIT_MS;
    (void)call_keep_request(call, request);
    return call;
}

bool tunnel_call_write(struct tunnel_call *call, const void *at, size_t len)
{
    assert(!call->over && !call->ended);
    call->queued += len;
    if (call->place == CALL_HERE) {
        tunnel_stream_write(call->stream, at, len);
    } else if (call->place == CALL_AWAY) {
        call_carrier(call)->write(call->away, at, len);
    } else if (call->place != CALL_FAILED && !byte_queue_add(&call_outbox(call)->data, at, len)) {
        if (call->place == CALL_FAR) { // the stream, if there is one, is of no use any more
            struct relay_message *message = relay_message_create(call->node->index, call->key);
            message->cancel = true;
            (void)relay_message_post(call->node->broker, call->far, message);
        }
        call_fail_later(call, TUNNEL_CAUSE_UPSTREAM_FAILED, "the caller wrote on although the queue was full");
    }
    if (call->queued >= TUNNEL_CALL_QUEUE_BYTES) call->full = true;
    return !call->full;
}

unsigned tunnel_call_node(const struct tunnel_call *call)
{
    return call->place == CALL_FAR ? call->far : call->node->index;
}

void tunnel_call_trailers(struct tunnel_call *call, const struct http_header *headers, size_t count)
{
    assert(!call->over);
    if (call->ended) return;
    call->ended = true;
    if (count > TUNNEL_HEADERS_MAX || header_block_bytes(headers, count) > TUNNEL_HEADER_BYTES_MAX) count = 0;
    if (call->place == CALL_HERE) {
        tunnel_stream_end(call->stream, headers, count);
    } else if (call->place == CALL_AWAY) {
        call_carrier(call)->end(call->away, headers, count);
    } else if (call->place != CALL_FAILED) {
        struct relay_message *message = call_outbox(call);
        message->end = true;
        message->trailers = header_block_copy(headers, count);
    }
}

void tunnel_call_end(struct tunnel_call *call)
{
    tunnel_call_trailers(call, NULL, 0);
}

void tunnel_call_consumed(struct tunnel_call *call, size_t len)
{
    assert(!call->over);
    if (call->place == CALL_HERE)
        tunnel_stream_consumed(call->stream, len);
    else if (call->place == CALL_FAR)
        call_outbox(call)->consumed += len;
    else if (call->place == CALL_AWAY)
        call_carrier(call)->consumed(call->away, len);
}

void tunnel_call_cancel(struct tunnel_call *call)
{
    assert(!call->over);
    struct tunnel_node *node = call->node;
    if (call->place == CALL_HERE) {
        tunnel_stream_cancel(call->stream);
    } else if (call->place == CALL_AWAY) {
        call_carrier(call)->cancel(call->away);
    } else if (call->place == CALL_FAR && !(call->outbox && call->outbox->open)) { // otherwise nobody knows of it yet
        struct relay_message *message = relay_message_create(node->index, call->key);
        message->cancel = true;
        (void)relay_message_post(node->broker, call->far, message);
    }
    call_enter(call);
    call_unlist(call);
    call_leave(call);
}
