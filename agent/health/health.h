// health: what Argo CD would call the health of a Kubernetes object, assessed from the object itself. The rules are
// those of Argo CD 3 (its gitops-engine for built-in kinds, its resource customizations for widespread custom
// resources), as a table from kind to function; messages are our own and name reasons that Argo CD's status leaves out
// (a container that was OOMKilled, an exit code, a probe that fails). Assessed before redaction, which may take what
// the rules look at; the message may quote the object and is to be scrubbed. Pure; any thread.
#ifndef CULVERT_AGENT_HEALTH_H
#define CULVERT_AGENT_HEALTH_H

#include <jansson.h>

#include "base/str.h"
#include "base/strbuf.h"

enum { HEALTH_MESSAGE_BYTES_MAX = 1024 };

struct health {
    const char *status;    // "Healthy", "Progressing", "Degraded", "Suspended", "Unknown"; NULL: no rule for the kind
    struct strbuf message; // UTF-8, at most HEALTH_MESSAGE_BYTES_MAX; may be empty
};

void health_init(struct health *health);
void health_finish(struct health *health);
// group and kind name the object, which need not carry them (objects of lists do not). Never fails: what has no rule
// has no status.
void health_assess(struct health *health, struct str group, struct str kind, const json_t *object);

#endif
