// lingering_close: the end of a connection that was refused in the middle of what the client sends. Closing a socket
// with unread input makes the kernel send a reset, which may overtake the answer: so the sending side is shut, and what
// still comes is read and dropped, up to a bound, until the client closes. Works on a copy of the descriptor, because
// the original belongs to somebody else. Everything on its loop.
#ifndef CULVERT_SERVER_HTTP_LINGERING_CLOSE_H
#define CULVERT_SERVER_HTTP_LINGERING_CLOSE_H

#include <uv.h>

struct lingering_close;

enum { LINGERING_CLOSE_BYTES_MAX = 8 * 1024 * 1024, LINGERING_CLOSE_MS = 2000 };

// Copies the descriptor; nothing happens before lingering_close_start(). NULL when there is no descriptor left.
struct lingering_close *lingering_close_create(uv_loop_t *uv, int fd);
// Shuts the sending side. on_over(arg), never inside this call: the handles are closed, the object is gone.
void lingering_close_start(struct lingering_close *lingering_close, void (*on_over)(void *arg), void *arg);
// Ends it now: on_over comes soon. NULL, or one that has not been started, is only freed.
void lingering_close_stop(struct lingering_close *lingering_close);

#endif
