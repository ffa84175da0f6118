// tcp_listener: a listener's base/loop/listener.h that counts the connections it handed over, up to
// a cap that the listeners of all loops may share, and hands each over as a uv_tcp_t. Everything on
// its loop's thread.
#ifndef CULVERT_SERVER_TCP_LISTENER_H
#define CULVERT_SERVER_TCP_LISTENER_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "base/quota.h"

struct tcp_listener;

// tcp (from mem_alloc, tcp->data free to use) belongs to the callee, who calls
// tcp_listener_connection_closed() once it is closed.
typedef void (*tcp_listener_accepted)(void *ctx, uv_tcp_t *tcp);

// address: host:port; an empty host means every address, IPv4 and IPv6; port 0 lets the system
// choose. quota outlives the listener and its connections. NULL on error.
struct tcp_listener *tcp_listener_create(struct loop *loop, const char *address, struct quota *quota,
                                         tcp_listener_accepted on_accepted, void *ctx, struct error *err);
// From now on the handle handed over has this many bytes (at least a uv_tcp_t's), zeroed: a struct
// of the callee's whose first member it is.
void tcp_listener_set_handle_bytes(struct tcp_listener *listener, size_t bytes);
uint16_t tcp_listener_port(const struct tcp_listener *listener);
// A connection that another listener accepted goes on here, beyond the cap if need be. fd belongs
// to the handle, which is the caller's as if it had been handed over. NULL: the system refuses, and
// fd is still the caller's.
uv_tcp_t *tcp_listener_adopt(struct tcp_listener *listener, int fd);
// One of the connections handed over is gone: there is room for another.
void tcp_listener_connection_closed(struct tcp_listener *listener);
// Takes no more connections and gives the address free; what waits in the kernel's queue is reset.
void tcp_listener_stop(struct tcp_listener *listener);
// Stops and frees. NULL is fine.
void tcp_listener_destroy(struct tcp_listener *listener);

#endif
