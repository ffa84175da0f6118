// config: the agent's settings, one table for file, environment (CULVERT_...) and flags. Read at start; SIGHUP
// reads the token file and the CA file again, the rest wants a restart.
#ifndef CULVERT_AGENT_CONFIG_H
#define CULVERT_AGENT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config/config.h"

struct agent_config {
    char *platform_url;         // wss://host[:port][/prefix]
    char *platform_ca_file;     // empty: the system's CAs
    bool platform_sealed_token; // the token is said so that the platform alone can read it
    char *platform_pin;         // sha256/<base64> of keys, comma-separated; empty: none
    char *proxy_url;            // http://[user:password@]host:port of an HTTP CONNECT proxy; empty: HTTPS_PROXY
    char *proxy_exclude;        // hosts reached directly; empty: NO_PROXY
    char *runtime_name;
    char *runtime_token_file;
    char *instance_id; // empty: the host's name
    char *kubeconfig;  // empty: the pod's service account
    bool kubeconfig_exec;
    int64_t kubeconfig_exec_timeout_ms;
    char *argocd_url, *argocd_token_file, *argocd_ca_file; // empty url: Argo CD's API is not read
    int64_t argocd_timeout_ms, argocd_interval_ms, argocd_refresh_interval_ms, argocd_requests_max;
    int64_t argocd_bytes_max, argocd_nodes_max, argocd_commits_max;
    char *router_services;
    char *router_webhooks;
    char *router_workflows;
    char *router_ca_file; // empty: the system's CAs
    char *tcp_allow;
    int64_t router_streams_max;
    int64_t router_connect_timeout_ms;
    bool reporter_enabled;
    int64_t kubeconfig_retry_interval_ms;
    char *reporter_cluster_name, *reporter_cluster_aliases;
    char *reporter_namespaces; // comma-separated; empty: all
    char *reporter_state_dir;  // empty: nothing is kept
    bool reporter_clusters;
    char *reporter_cluster_secrets; // empty: none may be used
    int64_t reporter_cluster_interval_ms;
    char *reporter_open_paths, *reporter_open_labels, *reporter_open_annotations; // comma-separated
    int64_t reporter_objects_max, reporter_object_burst, reporter_object_interval_ms, reporter_changes_per_second;
    int64_t reporter_probe_interval_ms, reporter_probe_timeout_ms;
    char *operations_allowed; // rights, comma-separated; empty: none
    int64_t operations_held_max, operations_at_once_max, operations_follow_ms;
    char *admin_listen; // empty: no listener
    int64_t shutdown_deadline_ms;
    char *log_level;
};

extern const struct config_table agent_config_table;

#endif
