// reporter_options: what a reporter is made with.
#ifndef CULVERT_AGENT_REPORTS_REPORTER_OPTIONS_H
#define CULVERT_AGENT_REPORTS_REPORTER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/argo/argo_view.h"
#include "agent/reports/outbox.h"
#include "tunnel/wire/redaction.h"

struct kube_transport;

struct reporter_options {
    const char *kubeconfig;                 // path; NULL or "": the pod's service account
    const struct kube_transport *transport; // NULL: HTTP; agent/kube/kube_client.h
    bool exec_forbidden;                    // the kubeconfig's exec plugin is not run
    uint64_t exec_timeout_ms;               // of one run of it; 0: kube_exec.h's default
    const char *cluster_name;               // NULL or "": in-cluster
    const char *namespaces;                 // comma-separated; NULL or "": all
    const char *state_folder;               // where the redaction key is kept; NULL or "": a key of this process
    // What leaves beside the table; its texts need to live only during the call.
    struct redaction_options redaction;
    const char *cluster_aliases; // other names of the own one, see destinations.h
    // Argo CD's cluster Secrets that may be used (cluster_identity.h), and how often.
    const char *cluster_secrets;
    uint64_t cluster_interval_ms;
    bool managed_clusters;      // read those of them that are other clusters (managed_clusters.h)
    size_t managed_objects_max; // of each; 0: as many as of the own one
    // Kubernetes Events of reported objects (kubernetes_events.h); 0: its defaults.
    bool kubernetes_events;
    size_t kubernetes_events_max;
    unsigned kubernetes_events_per_second;
    bool clusters;                 // read Argo CD's cluster Secrets for names and addresses
    struct argo_view_options argo; // its texts need to live only during the call
    struct outbox_options outbox;
    // Of the watches, see watch.h; 0: their defaults.
    uint64_t watch_seconds, silence_ms, absent_retry_ms;
    unsigned page_limit;
    uint64_t probe_interval_ms, probe_timeout_ms; // see kube_probe.h; 0: its defaults
    uint64_t limit_retry_ms;                      // after objects found no room all is listed again; 0: 600,000
};

#endif
