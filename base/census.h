// census: how many connections of the process are open for each key (a client's address, an account), against a cap.
// Shared by its loops, so that a cap means what it says however many there are: thread-safe, a mutex held for a look at
// one bucket, once when a connection comes and once when it goes. Grows with the connections that are open, which are
// capped themselves; a key without any is forgotten.
#ifndef CULVERT_BASE_CENSUS_H
#define CULVERT_BASE_CENSUS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct census;

// NULL when cap is 0: there is none, and nothing is counted. Every function takes NULL for that.
struct census *census_create(size_t cap);
void census_destroy(struct census *census);
// Counts one more. False: the key is at its cap, nothing was counted.
bool census_enter(struct census *census, struct str key);
void census_leave(struct census *census, struct str key); // for each that entered
size_t census_count(struct census *census, struct str key);
size_t census_keys(struct census *census);
// The key of a client's address (numeric, without port). Who has IPv6 has a /64 at least: it counts as one client.
void census_network(const char *address, char out[INET6_ADDRSTRLEN]);

#endif
