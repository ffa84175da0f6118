#include "tunnel/call/relay.h"

#include <stdio.h>

#include "base/mem.h"
#include "tunnel/call/stream_kept.h"

enum relay_event_type {
    RELAY_EVENT_INFO,
    RELAY_EVENT_HEAD,
    RELAY_EVENT_DATA,
    RELAY_EVENT_TRAILERS,
    RELAY_EVENT_HALF_END,
    RELAY_EVENT_TAKEN,
    RELAY_EVENT_END,
    RELAY_EVENT_FAIL
};

struct relay_event {
    struct relay_event *next;
    enum relay_event_type type;
    int status;
    struct header_block headers;
    struct byte_queue data;
    size_t taken;
    enum tunnel_cause cause;
    char detail[128];
    struct relay_message *back; // FAIL: nothing was done with it; NULL: something may have been
};

// To the caller.
struct relay_batch {
    uint64_t key;
    struct relay_event *first;
};

struct tunnel_relay {
    struct tunnel_node *node; // of the session
    struct tunnel_relay *next, **link;
    unsigned caller;
    uint64_t key;
    struct tunnel_stream *stream; // NULL: over, goes with the next message
    struct relay_event *first, **last;
    struct turn_item turn;
};

// ---- to the caller -------------------------------------------------------------------------------------------

static void relay_event_free(struct relay_event *event)
{
    header_block_finish(&event->headers);
    byte_queue_finish(&event->data);
    if (event->back) relay_message_free(event->back);
    mem_free(event);
}

static void relay_event_deliver_failure(struct relay_event *event, struct tunnel_call *call)
{
    struct relay_message *back = event->back;
    event->back = NULL;
    if (back)
        tunnel_call_take_back(call, back, event->cause, event->detail);
    else
        tunnel_call_stream_events.exchange->on_fail(call, event->cause, event->detail);
}

static void relay_event_deliver(struct relay_event *event, struct tunnel_call *call)
{
    const struct exchange_events *to = tunnel_call_stream_events.exchange;
    switch (event->type) {
    case RELAY_EVENT_INFO: to->on_info(call, event->status); break;
    case RELAY_EVENT_HEAD: to->on_head(call, event->status, event->headers.at, event->headers.count); break;
    case RELAY_EVENT_DATA: to->on_data(call, byte_queue_front(&event->data), event->data.len); break;
    case RELAY_EVENT_TRAILERS: to->on_trailers(call, event->headers.at, event->headers.count); break;
    case RELAY_EVENT_HALF_END: to->on_half_end(call); break;
    case RELAY_EVENT_TAKEN: to->on_taken(call, event->taken); break;
    case RELAY_EVENT_END: to->on_end(call); break;
    case RELAY_EVENT_FAIL: relay_event_deliver_failure(event, call); break;
    }
}

static void relay_on_batch(struct tunnel_node *caller, void *arg)
{
    struct relay_batch *message = arg;
    while (message->first) {
        struct relay_event *event = message->first;
        message->first = event->next;
        // Looked up anew each time: the caller may have cancelled in the callback before.
        struct tunnel_call *call = caller->closed ? NULL : id_map_get(&caller->calls, message->key);
        if (call) relay_event_deliver(event, call);
        relay_event_free(event);
    }
    mem_free(message);
}

static void relay_post_batch(struct tunnel_node *node, unsigned caller, uint64_t key, struct relay_event *first)
{
    struct relay_batch *message = mem_alloc(sizeof(*message));
    *message = (struct relay_batch){.key = key, .first = first};
    if (tunnel_node_post(node->broker, caller, relay_on_batch, message)) return;
    while (message->first) {
        struct relay_event *event = message->first;
        message->first = event->next;
        relay_event_free(event);
    }
    mem_free(message);
}

static void relay_free(struct tunnel_relay *relay)
{
    turn_remove(&relay->node->turn, &relay->turn);
    while (relay->first) {
        struct relay_event *event = relay->first;
        relay->first = event->next;
        relay_event_free(event);
    }
    id_map_remove(&relay->node->relays, relay->key);
    *relay->link = relay->next;
    if (relay->next) relay->next->link = relay->link;
    mem_free(relay);
}

static void relay_on_turn(struct turn_item *item)
{
    struct tunnel_relay *relay = (struct tunnel_relay *)((char *)item - offsetof(struct tunnel_relay, turn));
    struct relay_event *first = relay->first;
    relay->first = NULL;
    relay->last = &relay->first;
    if (first) relay_post_batch(relay->node, relay->caller, relay->key, first);
    if (!relay->stream) relay_free(relay);
}

static struct relay_event *relay_add(struct tunnel_relay *relay, enum relay_event_type type)
{
    struct relay_event *event = mem_zalloc(sizeof(*event));
    event->type = type;
    // A stream's window bounds what can be in here.
    byte_queue_init(&event->data, 2 * WIRE_WINDOW_BYTES_MAX);
    *relay->last = event;
    relay->last = &event->next;
    turn_add(&relay->node->turn, &relay->turn);
    return event;
}

static void relay_on_info(void *arg, int status)
{
    struct relay_event *event = relay_add(arg, RELAY_EVENT_INFO);
    event->status = status;
}

static void relay_on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    struct relay_event *event = relay_add(arg, RELAY_EVENT_HEAD);
    event->status = status;
    event->headers = header_block_copy(headers, count);
}

static void relay_on_data(void *arg, const uint8_t *at, size_t len)
{
    struct tunnel_relay *relay = arg;
    struct relay_event *last = NULL;
    if (relay->first) last = (struct relay_event *)((char *)relay->last - offsetof(struct relay_event, next));
    if (!last || last->type != RELAY_EVENT_DATA) last = relay_add(relay, RELAY_EVENT_DATA);
    if (!byte_queue_add(&last->data, at, len)) {
        last = relay_add(relay, RELAY_EVENT_DATA);
        (void)byte_queue_add(&last->data, at, len);
    }
}

static void relay_on_trailers(void *arg, const struct http_header *headers, size_t count)
{
    relay_add(arg, RELAY_EVENT_TRAILERS)->headers = header_block_copy(headers, count);
}

static void relay_on_half_end(void *arg)
{
    relay_add(arg, RELAY_EVENT_HALF_END);
}

static void relay_on_taken(void *arg, size_t len)
{
    relay_add(arg, RELAY_EVENT_TAKEN)->taken = len;
}

static void relay_on_end(void *arg)
{
    struct tunnel_relay *relay = arg;
    relay->stream = NULL;
    relay_add(relay, RELAY_EVENT_END);
}

static void relay_on_back(void *arg, struct relay_message *back, enum tunnel_cause cause, const char *detail)
{
    struct tunnel_relay *relay = arg;
    relay->stream = NULL;
    struct relay_event *event = relay_add(relay, RELAY_EVENT_FAIL);
    event->cause = cause;
    event->back = back;
    snprintf(event->detail, sizeof(event->detail), "%.*s", (int)sizeof(event->detail) - 1, detail);
}

static void relay_on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    relay_on_back(arg, NULL, cause, detail);
}

static const struct exchange_events relay_exchange_events = {.on_info = relay_on_info,
                                                             .on_head = relay_on_head,
                                                             .on_data = relay_on_data,
                                                             .on_trailers = relay_on_trailers,
                                                             .on_half_end = relay_on_half_end,
                                                             .on_taken = relay_on_taken,
                                                             .on_end = relay_on_end,
                                                             .on_fail = relay_on_fail};

static const struct tunnel_stream_events relay_events = {
    .is_elsewhere = true, .exchange = &relay_exchange_events, .on_back = relay_on_back};

// ---- from the caller -----------------------------------------------------------------------------------------

// The node that should open the stream cannot: the only event the caller gets.
// When the session has gone, the caller gets what it sent back and may try elsewhere.
static void relay_refuse(struct tunnel_node *node, struct relay_message *message, enum tunnel_cause cause,
                         const char *detail)
{
    struct relay_event *event = mem_zalloc(sizeof(*event));
    event->type = RELAY_EVENT_FAIL;
    event->cause = cause;
    if (cause == TUNNEL_CAUSE_NO_TUNNEL) {
        event->back = relay_message_create(message->caller, message->key);
        event->back->request = message->request;
        event->back->data = message->data;
        event->back->end = message->end;
        event->back->trailers = message->trailers;
        message->request = NULL;
        byte_queue_init(&message->data, TUNNEL_STREAM_QUEUE_BYTES_MAX);
        message->trailers = (struct header_block){0};
    }
    snprintf(event->detail, sizeof(event->detail), "%.*s", (int)sizeof(event->detail) - 1, detail);
    relay_post_batch(node, message->caller, message->key, event);
}

static struct tunnel_relay *relay_open(struct tunnel_node *node, struct relay_message *message)
{
    struct tunnel_session *session = id_map_get(&node->sessions, message->session);
    if (!session) {
        relay_refuse(node, message, TUNNEL_CAUSE_NO_TUNNEL, "the session has just ended");
        return NULL;
    }
    struct tunnel_relay *relay = mem_zalloc(sizeof(*relay));
    relay->node = node;
    relay->caller = message->caller;
    relay->key = message->key;
    relay->last = &relay->first;
    relay->turn.run = relay_on_turn;
    relay->next = node->relay_list;
    relay->link = &node->relay_list;
    if (relay->next) relay->next->link = &relay->next;
    node->relay_list = relay;
    id_map_put(&node->relays, relay->key, relay);
    enum tunnel_cause cause;
    struct error err;
    relay->stream = tunnel_stream_open(session, &message->request->request, false, &relay_events, relay, &cause, &err);
    if (relay->stream) {
        stream_kept_take(relay->stream, message->request);
        message->request = NULL;
        return relay;
    }
    relay_refuse(node, message, cause, err.text);
    relay_free(relay);
    return NULL;
}

static void relay_on_message(struct tunnel_node *node, void *arg)
{
    struct relay_message *message = arg;
    if (node->closed) {
        if (message->open) relay_refuse(node, message, TUNNEL_CAUSE_TUNNEL_LOST, "the session's node stopped");
        relay_message_free(message);
        return;
    }
    struct tunnel_relay *relay = message->open ? relay_open(node, message) : id_map_get(&node->relays, message->key);
    if (relay && relay->stream && message->cancel) {
        tunnel_stream_cancel(relay->stream);
        relay->stream = NULL;
        relay_free(relay);
    } else if (relay && relay->stream) {
        if (message->data.len) tunnel_stream_write_queue(relay->stream, &message->data);
        if (message->end) tunnel_stream_end(relay->stream, message->trailers.at, message->trailers.count);
        if (message->consumed) tunnel_stream_consumed(relay->stream, message->consumed);
    }
    relay_message_free(message);
}

bool relay_message_post(struct tunnel_broker *broker, unsigned node, struct relay_message *message)
{
    if (tunnel_node_post(broker, node, relay_on_message, message)) return true;
    relay_message_free(message);
    return false;
}

void tunnel_relay_destroy(struct tunnel_relay *relay)
{
    if (relay->stream) tunnel_stream_cancel(relay->stream);
    relay->stream = NULL;
    relay_free(relay);
}
