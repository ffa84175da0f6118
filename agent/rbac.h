// rbac: the Kubernetes manifests that give the agent its rights, in presets, as `culvert-agent --print-rbac PRESET`
// prints them. Every preset only reads: get, list and watch; what operations.allowed permits comes
// on top.
// deploy/agent-rbac.yaml is what the default preset prints.
// Pure.
#ifndef CULVERT_AGENT_RBAC_H
#define CULVERT_AGENT_RBAC_H

#include <stdbool.h>

#include "agent/operations/operation_rights.h"
#include "base/str.h"
#include "base/strbuf.h"

// The presets' names, separated by "|"; the default is RBAC_DEFAULT.
#define RBAC_PRESETS "applications|common|all-but-secrets|all"
#define RBAC_DEFAULT "common"

enum { RBAC_BYTES_MAX = 64 * 1024 };

// Appends the YAML. rights: NULL for none. kubernetes_events: with the rule that they need.
// False: there is no such preset.
bool rbac_print(struct str preset, const struct operation_rights *rights, bool kubernetes_events, struct strbuf *out);

#endif
