// call: the caller's end of one call, on the loop that made it. When the runtime's session lives on the same loop it
// sits right on the session's stream; otherwise it talks to a relay there (tunnel/call/relay.h) by messages, one batch
// a turn. Private part of the calls in broker.h.
#ifndef CULVERT_TUNNEL_CALL_CALL_H
#define CULVERT_TUNNEL_CALL_CALL_H

#include "tunnel/call/stream.h"
#include "tunnel/node.h"

enum { TUNNEL_CALL_QUEUE_BYTES = 64 * 1024, TUNNEL_CALL_WAIT_MS = 3000 };

struct relay_message;

// What a stream tells its call; arg is the call. A relay delivers its events by the same table.
extern const struct tunnel_stream_events tunnel_call_stream_events;
void tunnel_call_tick(struct tunnel_call *call); // only for calls that wait for a tunnel; may free it
struct tunnel_call *tunnel_call_next(const struct tunnel_call *call);
// Nothing of the call has reached an agent: takes all of it that had got that far, and goes where the runtime is now,
// or waits for it. After a few times it fails, with the cause.
void tunnel_call_take_back(struct tunnel_call *call, struct relay_message *message, enum tunnel_cause cause,
                           const char *detail);
// The node is going: the call fails.
void tunnel_call_lose(struct tunnel_call *call);

#endif
