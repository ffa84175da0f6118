// kube_fetch: one small document of the Kubernetes API, read whole and decoded. Owned by whoever started it; the loop
// of its client.
#ifndef CULVERT_AGENT_KUBE_FETCH_H
#define CULVERT_AGENT_KUBE_FETCH_H

#include <jansson.h>

#include "agent/kube/kube_client.h"

struct kube_fetch;

enum { KUBE_FETCH_BYTES_MAX = 10 * 1024 * 1024, KUBE_FETCH_TIMEOUT_MS = 30000 };

// on_done runs once: value is the decoded body of a 200, borrowed and the callee's to change, else NULL; err is NULL
// when there was a complete answer. The fetch is gone when it returns. NULL when too many requests are open.
struct kube_fetch *kube_fetch_start(struct kube_client *client, const char *path,
                                    void (*on_done)(void *arg, int status, json_t *value, const struct error *err),
                                    void *arg);
void kube_fetch_cancel(struct kube_fetch *fetch); // no callback follows; NULL is fine

#endif
