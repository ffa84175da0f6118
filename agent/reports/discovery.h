// discovery: under which plural name the API serves a kind, and whether it lives in namespaces. Asked for once per
// group and version, kept for ten minutes. Asked by polling: the answer comes with a later call. Owned by the
// collector. Source: Kubernetes API, APIResourceList at /api/v1 and /apis/<group>/<version>.
#ifndef CULVERT_AGENT_DISCOVERY_H
#define CULVERT_AGENT_DISCOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/kube/kube_client.h"

struct discovery;

enum discovery_answer {
    DISCOVERY_ASKING,  // call again
    DISCOVERY_FAILING, // the same: so far the API server did not say, and is asked ever more slowly
    DISCOVERY_FOUND,   //
    DISCOVERY_UNKNOWN, // the API server says: not served, or not to be listed and watched; asked again in a minute
};

struct discovery *discovery_create(struct kube_client *client);
void discovery_destroy(struct discovery *discovery); // NULL is fine
// *out_plural lives until the next call with a later now_ms.
enum discovery_answer discovery_find(struct discovery *discovery, const char *group, const char *version,
                                     const char *kind, uint64_t now_ms, const char **out_plural, bool *out_namespaced);

#endif
