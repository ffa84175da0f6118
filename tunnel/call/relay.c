#include "tunnel/call/relay.h"

#include <stdio.h>

#include "base/mem.h"
#include "tunnel/call/stream_kept.h"

enum parcel_type {
    PARCEL_INFO,
    PARCEL_HEAD,
    PARCEL_DATA,
    PARCEL_TRAILERS,
    PARCEL_HALF_END,
    PARCEL_TAKEN,
    PARCEL_END,
    PARCEL_FAIL
};

struct parcel {
    struct parcel *next;
    enum parcel_type type;
    int status;
    struct header_block headers;
    struct byte_queue data;
    size_t taken;
    enum tunnel_cause cause;
    char detail[128];
    struct relay_message *back; // FAIL: nothing was done with it; NULL: something may have been
};

// To the caller.
struct parcel_message {
    uint64_t key;
    struct parcel *first;
};

struct tunnel_relay {
    struct tunnel_node *node; // of the session
    struct tunnel_relay *next, **link;
    unsigned caller;
    uint64_t key;
    struct tunnel_stream *stream; // NULL: over, goes with the next message
    struct parcel *first, **last;
    struct turn_item turn;
};

// ---- to the caller -------------------------------------------------------------------------------------------

static void parcel_free(struct parcel *parcel)
{
    header_block_finish(&parcel->headers);
    byte_queue_finish(&parcel->data);
    if (parcel->back) relay_message_free(parcel->back);
    mem_free(parcel);
}

static void parcel_deliver_failure(struct parcel *parcel, struct tunnel_call *call)
{
    struct relay_message *back = parcel->back;
    parcel->back = NULL;
    if (back)
        tunnel_call_take_back(call, back, parcel->cause, parcel->detail);
    else
        tunnel_call_stream_events.exchange->on_fail(call, parcel->cause, parcel->detail);
}

static void parcel_deliver(struct parcel *parcel, struct tunnel_call *call)
{
    const struct exchange_events *to = tunnel_call_stream_events.exchange;
    switch (parcel->type) {
    case PARCEL_INFO: to->on_info(call, parcel->status); break;
    case PARCEL_HEAD: to->on_head(call, parcel->status, parcel->headers.at, parcel->headers.count); break;
    case PARCEL_DATA: to->on_data(call, byte_queue_front(&parcel->data), parcel->data.len); break;
    case PARCEL_TRAILERS: to->on_trailers(call, parcel->headers.at, parcel->headers.count); break;
    case PARCEL_HALF_END: to->on_half_end(call); break;
    case PARCEL_TAKEN: to->on_taken(call, parcel->taken); break;
    case PARCEL_END: to->on_end(call); break;
    case PARCEL_FAIL: parcel_deliver_failure(parcel, call); break;
    }
}

static void relay_on_parcels(struct tunnel_node *caller, void *arg)
{
    struct parcel_message *message = arg;
    while (message->first) {
        struct parcel *parcel = message->first;
        message->first = parcel->next;
        // Looked up anew each time: the caller may have cancelled in the callback before.
        struct tunnel_call *call = caller->closed ? NULL : id_map_get(&caller->calls, message->key);
        if (call) parcel_deliver(parcel, call);
        parcel_free(parcel);
    }
    mem_free(message);
}

static void relay_post_parcels(struct tunnel_node *node, unsigned caller, uint64_t key, struct parcel *first)
{
    struct parcel_message *message = mem_alloc(sizeof(*message));
    *message = (struct parcel_message){.key = key, .first = first};
    if (tunnel_node_post(node->broker, caller, relay_on_parcels, message)) return;
    while (message->first) {
        struct parcel *parcel = message->first;
        message->first = parcel->next;
        parcel_free(parcel);
    }
    mem_free(message);
}

static void relay_free(struct tunnel_relay *relay)
{
    turn_remove(&relay->node->turn, &relay->turn);
    while (relay->first) {
        struct parcel *parcel = relay->first;
        relay->first = parcel->next;
        parcel_free(parcel);
    }
    id_map_remove(&relay->node->relays, relay->key);
    *relay->link = relay->next;
    if (relay->next) relay->next->link = relay->link;
    mem_free(relay);
}

static void relay_on_turn(struct turn_item *item)
{
    struct tunnel_relay *relay = (struct tunnel_relay *)((char *)item - offsetof(struct tunnel_relay, turn));
    struct parcel *first = relay->first;
    relay->first = NULL;
    relay->last = &relay->first;
    if (first) relay_post_parcels(relay->node, relay->caller, relay->key, first);
    if (!relay->stream) relay_free(relay);
}

static struct parcel *relay_add(struct tunnel_relay *relay, enum parcel_type type)
{
    struct parcel *parcel = mem_zalloc(sizeof(*parcel));
    parcel->type = type;
    // A stream's window bounds what can be in here.
    byte_queue_init(&parcel->data, 2 * WIRE_WINDOW_BYTES_MAX);
    *relay->last = parcel;
    relay->last = &parcel->next;
    turn_add(&relay->node->turn, &relay->turn);
    return parcel;
}

static void relay_on_info(void *arg, int status)
{
    struct parcel *parcel = relay_add(arg, PARCEL_INFO);
    parcel->status = status;
}

static void relay_on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    struct parcel *parcel = relay_add(arg, PARCEL_HEAD);
    parcel->status = status;
    parcel->headers = header_block_copy(headers, count);
}

static void relay_on_data(void *arg, const uint8_t *at, size_t len)
{
    struct tunnel_relay *relay = arg;
    struct parcel *last = NULL;
    if (relay->first) last = (struct parcel *)((char *)relay->last - offsetof(struct parcel, next));
    if (!last || last->type != PARCEL_DATA) last = relay_add(relay, PARCEL_DATA);
    if (!byte_queue_add(&last->data, at, len)) {
        last = relay_add(relay, PARCEL_DATA);
        (void)byte_queue_add(&last->data, at, len);
    }
}

static void relay_on_trailers(void *arg, const struct http_header *headers, size_t count)
{
    relay_add(arg, PARCEL_TRAILERS)->headers = header_block_copy(headers, count);
}

static void relay_on_half_end(void *arg)
{
    relay_add(arg, PARCEL_HALF_END);
}

static void relay_on_taken(void *arg, size_t len)
{
    relay_add(arg, PARCEL_TAKEN)->taken = len;
}

static void relay_on_end(void *arg)
{
    struct tunnel_relay *relay = arg;
    relay->stream = NULL;
    relay_add(relay, PARCEL_END);
}

static void relay_on_back(void *arg, struct relay_message *back, enum tunnel_cause cause, const char *detail)
{
    struct tunnel_relay *relay = arg;
    relay->stream = NULL;
    struct parcel *parcel = relay_add(relay, PARCEL_FAIL);
    parcel->cause = cause;
    parcel->back = back;
    snprintf(parcel->detail, sizeof(parcel->detail), "%.*s", (int)sizeof(parcel->detail) - 1, detail);
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

// The node that should open the stream cannot: the only parcel the caller gets.
// When the session has gone, the caller gets what it sent back and may try elsewhere.
static void relay_refuse(struct tunnel_node *node, struct relay_message *message, enum tunnel_cause cause,
                         const char *detail)
{
    struct parcel *parcel = mem_zalloc(sizeof(*parcel));
    parcel->type = PARCEL_FAIL;
    parcel->cause = cause;
    if (cause == TUNNEL_CAUSE_NO_TUNNEL) {
        parcel->back = relay_message_create(message->caller, message->key);
        parcel->back->request = message->request;
        parcel->back->data = message->data;
        parcel->back->end = message->end;
        parcel->back->trailers = message->trailers;
        message->request = NULL;
        byte_queue_init(&message->data, TUNNEL_STREAM_QUEUE_BYTES_MAX);
        message->trailers = (struct header_block){0};
    }
    snprintf(parcel->detail, sizeof(parcel->detail), "%.*s", (int)sizeof(parcel->detail) - 1, detail);
    relay_post_parcels(node, message->caller, message->key, parcel);
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
