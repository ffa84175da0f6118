// cluster_report: what is reported about clusters: the one the agent lives in, with its version, whether the API
// answers and what keeps the agent from reading it (findings), and, if asked for and allowed, the names and addresses
// of the clusters that Argo CD's cluster Secrets declare (never what else those Secrets hold). Once a minute while a
// stream is open, and as soon as the API or the findings become others. Owned by the reporter.
#ifndef CULVERT_AGENT_CLUSTER_REPORT_H
#define CULVERT_AGENT_CLUSTER_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/kube/kube_client.h"
#include "agent/kube/kube_probe.h"
#include "base/str.h"

struct cluster_report;

struct cluster_report_options {
    struct kube_client *client;
    const struct kube_probe *probe; // version, and whether the API answers
    const char *cluster_name;       // of the own cluster, "in-cluster" by default
    bool managed;                   // read Argo CD's cluster Secrets, too
    void *arg;
    // A state that differs from the last one told: JSON, valid during the call.
    void (*on_cluster)(void *arg, struct str manifest);
    // Argo CD calls the cluster at this address so. NULL: of no interest.
    void (*on_named)(void *arg, struct str name, struct str server);
    // Figures of the moment.
    void (*counts)(void *arg, size_t *out_applications, size_t *out_resources, size_t *out_kinds);
    // Appends what keeps the agent from reading (findings.h) to an array. NULL: nothing does.
    void (*findings)(void *arg, json_t *out);
};

struct cluster_report *cluster_report_create(const struct cluster_report_options *options);
void cluster_report_destroy(struct cluster_report *report); // NULL is fine
void cluster_report_tick(struct cluster_report *report, uint64_t now_ms);

#endif
