// listener: one listening TCP socket of a loop. Every loop has its own on the same address (SO_REUSEPORT), and the
// kernel spreads connections over them. Sockets are handed over ready: TCP_NODELAY, keep-alive, TCP_USER_TIMEOUT. At
// the owner's cap, or when the process has no descriptor left, it leaves new connections in the kernel's queue instead
// of spinning. Everything on its loop's thread.
#ifndef CULVERT_SERVER_LISTENER_H
#define CULVERT_SERVER_LISTENER_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/loop.h"

struct listener;

// tcp (from mem_alloc, tcp->data free to use) belongs to the callee, who calls listener_connection_closed() once it is
// closed.
typedef void (*listener_accepted)(void *ctx, uv_tcp_t *tcp);

// address: host:port; an empty host means every address, IPv4 and IPv6; port 0 lets the system choose.
// connections_max: 0 means no cap. NULL on error.
struct listener *listener_create(struct loop *loop, const char *address, size_t connections_max,
                                 listener_accepted on_accepted, void *ctx, struct error *err);
// From now on the handle handed over has this many bytes (at least a uv_tcp_t's), zeroed: a struct of the callee's
// whose first member it is.
void listener_set_handle_bytes(struct listener *listener, size_t bytes);
uint16_t listener_port(const struct listener *listener);
// One of the connections handed over is gone: there is room for another.
void listener_connection_closed(struct listener *listener);
// Takes no more connections and gives the address free; what waits in the kernel's queue is reset.
void listener_stop(struct listener *listener);
// Stops, and frees itself in a later turn of the loop. NULL is fine.
void listener_destroy(struct listener *listener);

#endif
