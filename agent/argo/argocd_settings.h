// argocd_settings: Argo CD's API. Owner: agent/argo.
// Read-only once loaded; any thread.
#ifndef CULVERT_AGENT_ARGO_ARGOCD_SETTINGS_H
#define CULVERT_AGENT_ARGO_ARGOCD_SETTINGS_H

#include "base/config/config.h"

struct argocd_settings {
    char *url;        // empty url: Argo CD's API is not read
    char *token_file; // empty url: Argo CD's API is not read
    char *ca_file;    // empty url: Argo CD's API is not read
    int64_t timeout_ms;
    int64_t interval_ms;
    int64_t refresh_interval_ms;
    int64_t requests_max;
    int64_t bytes_max;
    int64_t nodes_max;
    int64_t commits_max;
};

CONFIG_SECTION(argocd_settings);

#endif
