// relay: the session's end of a call that was made on another loop. It consumes the stream and sends what it tells to
// the call in letters, one a turn; it is told by letters what the caller does. Private to tunnel/. Owned by the node of
// the session, named by the call's key, which no other call of the process ever has.
//
// Letters of one call arrive in order, because one loop posts to one loop. Either end may be gone when one arrives: the
// key is then unknown and the letter is dropped.
#ifndef CULVERT_TUNNEL_RELAY_H
#define CULVERT_TUNNEL_RELAY_H

#include "tunnel/call.h"
#include "tunnel/header_block.h"

struct tunnel_relay;

// From the caller. Owns what it points to.
struct relay_letter {
    unsigned caller; // the caller's node
    uint64_t key;
    uint64_t session;             // with `open`
    struct call_request *request; // with `open`
    bool open, end, cancel;
    struct byte_queue data;
    struct header_block trailers; // with `end`
    size_t consumed;
};

struct relay_letter *relay_letter_create(unsigned caller, uint64_t key);
void relay_letter_free(struct relay_letter *letter);
// Thread-safe. False: the node is gone, the letter is freed.
bool relay_letter_post(struct tunnel_broker *broker, unsigned node, struct relay_letter *letter);
void tunnel_relay_destroy(struct tunnel_relay *relay); // cancels its stream

#endif
