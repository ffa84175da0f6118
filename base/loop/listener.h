// listener: one listening TCP socket of a loop. Every loop has its own on the same address (SO_REUSEPORT), and the
// kernel spreads connections over them. Sockets are handed over ready: non-blocking, TCP_NODELAY, keep-alive,
// TCP_USER_TIMEOUT. While its owner is full, or the process has no descriptor left, it leaves new connections in the
// kernel's queue instead of spinning. Everything on its loop's thread.
#ifndef CULVERT_BASE_LOOP_LISTENER_H
#define CULVERT_BASE_LOOP_LISTENER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "base/str.h"

struct listener;

enum { LISTENER_REMOTE_BYTES = 64 };

struct listener_options {
    struct str address; // host:port, numeric host or "localhost"; no host: every address, IPv4 and IPv6; port 0: any
    unsigned user_timeout_ms; // how long sent bytes may stay unacknowledged
    unsigned unsent_bytes;    // what the kernel may hold unsent (TCP_NOTSENT_LOWAT); 0: as much as it likes
    void *ctx;
    // Asked before each accept. After false nothing is accepted until listener_resume(), or until it is asked again a
    // moment later: what other loops of the process gave back is room, too.
    bool (*has_room)(void *ctx);
    // Owns fd. remote: address:port of the peer, an IPv6 address in brackets. May stop and destroy the listener.
    void (*on_accept)(void *ctx, int fd, const char *remote);
};

// Copies options; the address is not kept. ERROR_INVALID: no address; ERROR_IO: the system refused it.
MUST_CHECK enum error_code listener_create(struct loop *loop, const struct listener_options *options,
                                           struct listener **out, struct error *err);
// Could this process alone listen there? ERROR_CONFLICT: another one does. (SO_REUSEPORT would let both, and the kernel
// would deal connections out to either.) A moment later it may be otherwise.
MUST_CHECK enum error_code listener_probe(struct str address, struct error *err);
// The connection limiter's key (base/connection_limiter.h) of a peer as on_accept was told it.
void listener_network(const char *remote, char out[INET6_ADDRSTRLEN]);
uint16_t listener_port(const struct listener *listener);
void listener_resume(struct listener *listener); // there is room again; harmless when there is none
// Takes no more connections and gives the address free; what waits in the kernel's queue is reset.
void listener_stop(struct listener *listener);
// Stops, and frees itself in a later turn of the loop. NULL is fine.
void listener_destroy(struct listener *listener);

#endif
