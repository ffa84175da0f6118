#include "tunnel/session/tenant.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

// Ids of accounts are random, and only those with a runtime token get here.
static struct tunnel_tenant **tenant_place(struct tunnel_tenants *tenants, const char *account_id)
{
    uint64_t hash = hash_end(hash_text(HASH_BEGIN, str_c(account_id)));
    struct tunnel_tenant **at = &tenants->buckets[hash % TUNNEL_TENANT_BUCKETS];
    while (*at && strcmp((*at)->account_id, account_id) != 0)
        at = &(*at)->next;
    return at;
}

struct tunnel_tenant *tunnel_tenants_enter(struct tunnel_tenants *tenants, const char *account_id)
{
    struct tunnel_tenant **at = tenant_place(tenants, account_id);
    if (!*at) {
        *at = mem_zalloc(sizeof(**at));
        snprintf((*at)->account_id, sizeof((*at)->account_id), "%s", account_id);
    }
    (*at)->sessions++;
    return *at;
}

void tunnel_tenants_leave(struct tunnel_tenants *tenants, struct tunnel_tenant *tenant)
{
    assert(tenant->sessions > 0);
    if (--tenant->sessions > 0) return;
    assert(tenant->buffered_bytes == 0 && tenant->window_bytes == 0 && tenant->stream_count == 0);
    *tenant_place(tenants, tenant->account_id) = tenant->next;
    mem_free(tenant);
}
