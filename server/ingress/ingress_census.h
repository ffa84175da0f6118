// ingress_census: how many connections are open for each key (a client's address, an account), against a cap. Grows
// with the connections that are open, which are capped themselves; a key without any is forgotten. A value of the
// door; one loop.
#ifndef CULVERT_SERVER_INGRESS_CENSUS_H
#define CULVERT_SERVER_INGRESS_CENSUS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct ingress_census_entry;

struct ingress_census {
    size_t cap; // connections a key; 0: no cap, and nothing is counted
    uint64_t seed;
    struct ingress_census_entry **buckets;
    size_t bucket_count, entry_count;
};

void ingress_census_init(struct ingress_census *census, size_t cap);
void ingress_census_finish(struct ingress_census *census);
// Counts one more. False: the key is at its cap, nothing was counted.
bool ingress_census_enter(struct ingress_census *census, struct str key);
void ingress_census_leave(struct ingress_census *census, struct str key);
size_t ingress_census_count(const struct ingress_census *census, struct str key);
// The key of a client's address (numeric, without port). Who has IPv6 has a /64 at least: it counts as one client.
void ingress_census_network(const char *address, char out[INET6_ADDRSTRLEN]);

#endif
