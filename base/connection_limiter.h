// connection_limiter: how many connections of the process are open for each key (a client's
// address, an account), against a cap. Shared by its loops, so that a cap means what it says
// however many there are: thread-safe, a mutex held for a look at one bucket, once when a
// connection comes and once when it goes. Grows with the connections that are open, which are
// capped themselves; a key without any is forgotten.
#ifndef CULVERT_BASE_CONNECTION_LIMITER_H
#define CULVERT_BASE_CONNECTION_LIMITER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct connection_limiter;

// NULL when cap is 0: there is none, and nothing is counted. Every function takes NULL for that.
struct connection_limiter *connection_limiter_create(size_t cap);
void connection_limiter_destroy(struct connection_limiter *limiter);
// Counts one more. False: the key is at its cap, nothing was counted.
bool connection_limiter_enter(struct connection_limiter *limiter, struct str key);
void connection_limiter_leave(struct connection_limiter *limiter, struct str key); // for each that entered
size_t connection_limiter_count(struct connection_limiter *limiter, struct str key);
size_t connection_limiter_keys(struct connection_limiter *limiter);
// The key of a client's address (numeric, without port). Who has IPv6 has a /64 at least: it counts
// as one client.
void connection_limiter_network(const char *address, char out[INET6_ADDRSTRLEN]);

#endif
