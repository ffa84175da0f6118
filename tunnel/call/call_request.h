// call_request: a request that owns all it points to, for a call that waits or crosses to another loop or replica.
// A value; its owner finishes it. Any thread, one at a time.
#ifndef CULVERT_TUNNEL_CALL_CALL_REQUEST_H
#define CULVERT_TUNNEL_CALL_CALL_REQUEST_H

#include "base/arena.h"
#include "tunnel/broker.h"

struct call_request {
    struct arena *arena; // may grow: what is made of the request may lie there, too
    size_t bytes;        // that the copy takes
    struct tunnel_request request;
};

// ERROR_TOO_LARGE: more than a head may be; *out is left as it was.
MUST_CHECK enum error_code call_request_copy(const struct tunnel_request *from, struct call_request *out,
                                             struct error *err);
void call_request_finish(struct call_request *request); // zeroed is fine

#endif
