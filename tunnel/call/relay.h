// relay: the session's end of a call that was made on another loop. It consumes the stream and sends what it tells to
// the call in messages, one a turn; messages report what the caller does. Private to tunnel/. Owned by the node of
// the session, named by the call's key, which no other call of the process ever has.
//
// Messages of one call arrive in order, because one loop posts to one loop. Either end may be gone when one arrives:
// the key is then unknown and the message is dropped.
#ifndef CULVERT_TUNNEL_CALL_RELAY_H
#define CULVERT_TUNNEL_CALL_RELAY_H

#include "tunnel/call/call.h"
#include "tunnel/call/relay_message.h"

struct tunnel_relay;

// Thread-safe. False: the node is gone, the message is freed.
bool relay_message_post(struct tunnel_broker *broker, unsigned node, struct relay_message *message);
void tunnel_relay_destroy(struct tunnel_relay *relay); // cancels its stream

#endif
