// farewell: the end of a connection that was refused in the middle of what the client sends. Closing a socket with
// unread input makes the kernel send a reset, which may overtake the answer: so the sending side is shut, and what
// still comes is read and dropped, up to a bound, until the client closes. Works on a copy of the descriptor, because
// the original belongs to somebody else. Everything on its loop.
#ifndef CULVERT_SERVER_HTTP_FAREWELL_H
#define CULVERT_SERVER_HTTP_FAREWELL_H

#include <uv.h>

struct farewell;

enum { FAREWELL_BYTES_MAX = 8 * 1024 * 1024, FAREWELL_MS = 2000 };

// Copies the descriptor; nothing happens before farewell_start(). NULL when there is no descriptor left.
struct farewell *farewell_create(uv_loop_t *uv, int fd);
// Shuts the sending side. on_over(arg), never inside this call: the handles are closed, the object is gone.
void farewell_start(struct farewell *farewell, void (*on_over)(void *arg), void *arg);
// Ends it now: on_over comes soon. NULL, or one that has not been started, is only freed.
void farewell_stop(struct farewell *farewell);

#endif
