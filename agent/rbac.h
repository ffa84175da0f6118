// rbac: the Kubernetes manifests that give the agent its rights, in presets, as `culvert-agent --print-rbac PRESET`
// prints them. Every preset only reads: get, list and watch. deploy/agent-rbac.yaml is what the default preset prints.
// Pure.
#ifndef CULVERT_AGENT_RBAC_H
#define CULVERT_AGENT_RBAC_H

#include <stdbool.h>

#include "base/str.h"
#include "base/strbuf.h"

// The presets' names, separated by "|"; the default is RBAC_DEFAULT.
#define RBAC_PRESETS "applications|common|all-but-secrets|all"
#define RBAC_DEFAULT "common"

enum { RBAC_BYTES_MAX = 64 * 1024 };

// Appends the YAML. False: there is no such preset.
bool rbac_print(struct str preset, struct strbuf *out);

#endif
