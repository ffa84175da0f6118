// reporter_settings: the cluster that is reported. Owner: agent/reports.
// Read-only once loaded; any thread.
#ifndef CULVERT_AGENT_REPORTS_REPORTER_SETTINGS_H
#define CULVERT_AGENT_REPORTS_REPORTER_SETTINGS_H

#include "base/config/config.h"

struct reporter_settings {
    char *kubeconfig; // empty: the pod's service account
    bool kubeconfig_exec;
    int64_t kubeconfig_exec_timeout_ms;
    int64_t kubeconfig_retry_interval_ms;
    bool enabled;
    char *cluster_name;
    char *cluster_aliases;
    char *namespaces; // comma-separated; empty: all
    char *state_dir;  // empty: nothing is kept
    bool clusters;
    char *cluster_secrets; // empty: none may be used
    int64_t cluster_interval_ms;
    bool managed_clusters;
    int64_t managed_objects_max;
    char *open_paths;       // comma-separated
    char *open_labels;      // comma-separated
    char *open_annotations; // comma-separated
    int64_t objects_max;
    int64_t object_burst;
    int64_t object_interval_ms;
    int64_t changes_per_second;
    bool kubernetes_events;
    int64_t kubernetes_events_max;
    int64_t kubernetes_events_per_second;
    int64_t probe_interval_ms;
    int64_t probe_timeout_ms;
};

CONFIG_SECTION(reporter_settings);

#endif
