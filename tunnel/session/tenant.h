// tenant: what the sessions of one account have together on one loop, so that no account uses up
// what is there for all. Private to tunnel/. Owned by its node, on the node's loop; there while one
// of its sessions is.
#ifndef CULVERT_TUNNEL_SESSION_TENANT_H
#define CULVERT_TUNNEL_SESSION_TENANT_H

#include <stdint.h>

enum { TUNNEL_TENANT_BUCKETS = 256, TUNNEL_TENANT_ID_BYTES = 64 };

struct tunnel_tenant {
    struct tunnel_tenant *next;
    unsigned sessions;
    unsigned stream_count;   // of calls
    uint64_t buffered_bytes; // received by its sessions, not yet consumed
    uint64_t window_bytes;   // windows granted above a stream's first
    char account_id[TUNNEL_TENANT_ID_BYTES];
};

struct tunnel_tenants {
    struct tunnel_tenant *buckets[TUNNEL_TENANT_BUCKETS];
};

// For one more session; for each there is a leave.
struct tunnel_tenant *tunnel_tenants_enter(struct tunnel_tenants *tenants, const char *account_id);
void tunnel_tenants_leave(struct tunnel_tenants *tenants, struct tunnel_tenant *tenant);

#endif
