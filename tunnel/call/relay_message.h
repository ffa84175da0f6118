// relay_message: what a caller sends about its call to the loop of the session (tunnel/call/relay.h): all that one turn
// has brought. Private to tunnel/. Owns what it holds; belongs to who made it until it is posted, and to the other loop
// from then on.
#ifndef CULVERT_TUNNEL_CALL_RELAY_MESSAGE_H
#define CULVERT_TUNNEL_CALL_RELAY_MESSAGE_H

#include "base/loop/byte_queue.h"
#include "tunnel/call/call_request.h"
#include "tunnel/session/header_block.h"

struct relay_message {
    unsigned caller; // the caller's node
    uint64_t key;
    uint64_t session;             // with `open`
    struct call_request *request; // with `open`
    bool open, end, cancel;
    struct byte_queue data;
    struct header_block trailers; // with `end`
    size_t consumed;
};

struct relay_message *relay_message_create(unsigned caller, uint64_t key);
void relay_message_free(struct relay_message *message);
// What `from` holds of the request, but its first skip_bytes, goes behind what `to` holds. False: it is more than a
// queue may hold.
bool relay_message_append(struct relay_message *to, const struct relay_message *from, size_t skip_bytes);

#endif
