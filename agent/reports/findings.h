// findings: what keeps the agent from reading its cluster, for people: each with its cause and its cure. JSON objects
// {"code", "level": "ERROR" or "WARNING", "message", "suggestion"}, which travel with the report about the cluster and
// are the runtime's errors at the platform. At most FINDINGS_MAX; one loop.
#ifndef CULVERT_AGENT_FINDINGS_H
#define CULVERT_AGENT_FINDINGS_H

#include <jansson.h>

#include "agent/kube/kube_problem.h"

enum { FINDINGS_MAX = 30 };

enum finding_level { FINDING_WARNING, FINDING_ERROR };

// Nothing happens when there are FINDINGS_MAX already. Texts are cut at 1 KB.
void findings_add(json_t *findings, const char *code, enum finding_level level, const char *message,
                  const char *suggestion);
// Of a problem that is one.
void findings_add_problem(json_t *findings, const struct kube_problem *problem);
// A kind that may not be listed and watched. was_readable: the right has been taken away (an error), or is needed.
// ns NULL: in the whole cluster.
void findings_add_right(json_t *findings, const char *group, const char *plural, const char *ns, bool was_readable);

#endif
