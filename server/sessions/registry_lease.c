#include "server/sessions/registry_lease.h"

#include <assert.h>

enum { RENEWALS_PER_TTL = 3, MARGIN_PARTS = 15, MARGIN_MS_MIN = 200 };

void registry_lease_init(struct registry_lease *lease, uint64_t ttl_ms)
{
    *lease = (struct registry_lease){.ttl_ms = ttl_ms, .margin_ms = ttl_ms / MARGIN_PARTS};
    if (lease->margin_ms < MARGIN_MS_MIN) lease->margin_ms = MARGIN_MS_MIN;
}

bool registry_lease_is_due(const struct registry_lease *lease, uint64_t now_ms)
{
    if (lease->asking) return false;
    if (!lease->asked_at_ms) return true;
    uint64_t wait_ms = lease->refused ? REGISTRY_LEASE_RETRY_MS : lease->ttl_ms / RENEWALS_PER_TTL;
    return now_ms >= lease->asked_at_ms + wait_ms;
}

void registry_lease_ask(struct registry_lease *lease, uint64_t now_ms)
{
    assert(!lease->asking && now_ms >= lease->asked_at_ms);
    lease->asking = true;
    lease->asked_at_ms = now_ms;
}

void registry_lease_granted(struct registry_lease *lease)
{
    assert(lease->asking);
    lease->asking = false;
    lease->refused = false;
    lease->held_until_ms = lease->asked_at_ms + lease->ttl_ms - lease->margin_ms;
}

void registry_lease_refused(struct registry_lease *lease)
{
    assert(lease->asking);
    lease->asking = false;
    lease->refused = true;
}

uint64_t registry_lease_held_until(const struct registry_lease *lease)
{
    return lease->held_until_ms;
}

bool registry_lease_is_held(const struct registry_lease *lease, uint64_t now_ms)
{
    return now_ms < lease->held_until_ms;
}
