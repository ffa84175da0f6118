// stream_kept: the request of a stream, kept for as long as it is certain that the agent did nothing with it, so that
// the call can be opened again on another session (RFC 9113 section 8.7). Private to tunnel/; the stream owns what it
// keeps, on the session's loop.
//
// Kept is the head. The body lies in the stream's queue until its first byte leaves; from then on, or once the agent
// has answered anything, nothing is kept. A node keeps as many bytes of heads as it may buffer of answers; a stream
// that finds no room has nothing to give back, and its call fails as it would without all this.
#ifndef CULVERT_TUNNEL_CALL_STREAM_KEPT_H
#define CULVERT_TUNNEL_CALL_STREAM_KEPT_H

#include "tunnel/call/relay_message.h"
#include "tunnel/call/stream.h"

void stream_kept_take(struct tunnel_stream *stream, struct call_request *request); // owns it from now on
void stream_kept_drop(struct tunnel_stream *stream);
// The request with all that was written of its body, for who opens it again. NULL: it is not kept any more.
struct relay_message *stream_kept_give_back(struct tunnel_stream *stream);

#endif
