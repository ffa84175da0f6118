// operation_rights: what the cluster's owner lets users of the platform do (operations.allowed):
// rights, each for all objects or for those that a pattern matches. Whatever the platform sends,
// nothing else is run. Read at start; constant afterwards; any thread.
#ifndef CULVERT_AGENT_OPERATION_RIGHTS_H
#define CULVERT_AGENT_OPERATION_RIGHTS_H

#include "agent/operations/operation.h"
#include "base/strbuf.h"

struct operation_rights;

// "refresh, sync:argocd/team-a-*": names of rights, comma-separated, each with an optional pattern
// of the object's namespace/name, in which * stands for any characters.
MUST_CHECK enum error_code operation_rights_create(struct str text, struct operation_rights **out, struct error *err);
void operation_rights_destroy(struct operation_rights *rights); // NULL is fine
bool operation_rights_is_empty(const struct operation_rights *rights);
// ERROR_FORBIDDEN: the message names the setting and the entry that would allow it.
MUST_CHECK enum error_code operation_rights_check(const struct operation_rights *rights,
                                                  const struct operation *operation, struct error *err);
// Logs of pods are no operation; they are read while they are asked for (agent/logs/).
bool operation_rights_allow_logs(const struct operation_rights *rights, struct str ns, struct str pod);
bool operation_rights_has_logs(const struct operation_rights *rights); // of any pod
// Rules of a ClusterRole in YAML for what is allowed; nothing when nothing is.
void operation_rights_print_rbac(const struct operation_rights *rights, struct strbuf *out);

#endif
