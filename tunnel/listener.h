// listener: the tunnel door's listening socket, one a node, all on the same address by SO_REUSEPORT (libwebsockets 4.1
// cannot share a port: its second bind fails in silence). Accepts, sets the options of the socket and hands the
// descriptor over. On its loop's thread. Stops reading the queue while its owner is full or descriptors have run out,
// in place of spinning.
#ifndef CULVERT_TUNNEL_LISTENER_H
#define CULVERT_TUNNEL_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/str.h"

struct tunnel_listener;

enum { LISTENER_REMOTE_BYTES = 64 };

struct tunnel_listener_options {
    struct str address; // host:port, numeric host; an empty host means all addresses, both families
    unsigned user_timeout_ms;
    void *ctx;
    bool (*has_room)(void *ctx);
    void (*on_accept)(void *ctx, int fd, const char *remote); // owns fd
};

MUST_CHECK enum error_code tunnel_listener_create(uv_loop_t *loop, const struct tunnel_listener_options *options,
                                                  struct tunnel_listener **out, struct error *err);
void tunnel_listener_resume(struct tunnel_listener *listener);  // there is room again
void tunnel_listener_destroy(struct tunnel_listener *listener); // frees itself in a later turn; NULL is fine

#endif
