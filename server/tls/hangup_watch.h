// hangup_watch: notices that a peer has ended its direction of a TCP connection, or reset it, while
// nobody reads the connection (libuv's stream watches nothing then). It polls a copy of the
// descriptor, so it costs one. One loop. What has ended its direction may be reset still.
#ifndef CULVERT_SERVER_HANGUP_WATCH_H
#define CULVERT_SERVER_HANGUP_WATCH_H

#include <stdbool.h>
#include <uv.h>

struct hangup_watch;

// ended: that direction is known to be over. on_hangup runs later, once for its end, once for a
// reset. NULL: no descriptor is left; then the next read or write tells.
struct hangup_watch *hangup_watch_create(uv_tcp_t *tcp, bool ended, void (*on_hangup)(void *arg, bool reset),
                                         void *arg);
// Also inside on_hangup. Frees itself in a later turn. NULL is fine.
void hangup_watch_destroy(struct hangup_watch *watch);

#endif
