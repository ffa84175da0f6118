// registry_lease: what a replica may believe about its own lease, by its own monotonic clock alone,
// so that replicas whose wall clocks differ by minutes agree. Pure: times come as arguments
// (milliseconds, monotonic). A value owned by the caller that renews.
//
// PostgreSQL sets the lease's end to its own now + TTL while it handles a renewal. That is later
// than the moment at which the renewal was sent; so sent + TTL lies before the moment from which
// others see the lease as run out, and a replica that stops at sent + TTL - margin has stopped in
// time, whatever became of the answer.
#ifndef CULVERT_SERVER_REGISTRY_LEASE_H
#define CULVERT_SERVER_REGISTRY_LEASE_H

#include <stdbool.h>
#include <stdint.h>

enum { REGISTRY_LEASE_RETRY_MS = 500 };

struct registry_lease {
    uint64_t ttl_ms, margin_ms;
    uint64_t asked_at_ms; // the renewal under way, or the last one
    uint64_t held_until_ms;
    bool asking, refused; // refused: the last one failed, the next comes soon
};

void registry_lease_init(struct registry_lease *lease, uint64_t ttl_ms);
// Should a renewal be sent now? A third of the TTL after the last one; soon after one that failed.
bool registry_lease_is_due(const struct registry_lease *lease, uint64_t now_ms);
void registry_lease_ask(struct registry_lease *lease, uint64_t now_ms); // right before it is sent
void registry_lease_granted(struct registry_lease *lease);              // PostgreSQL has committed it
void registry_lease_refused(struct registry_lease *lease);              // failed, or unknown
// Until when sessions of this replica may get calls; 0: not yet. It never goes back.
uint64_t registry_lease_held_until(const struct registry_lease *lease);
bool registry_lease_is_held(const struct registry_lease *lease, uint64_t now_ms);

#endif
