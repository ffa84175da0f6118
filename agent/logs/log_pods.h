// log_pods: what documents of the Kubernetes API have of the pods whose logs are wanted: the label
// selector of a workload, the containers of a pod and whether each has a log, the workloads of an
// Application. Pure.
#ifndef CULVERT_AGENT_LOG_PODS_H
#define CULVERT_AGENT_LOG_PODS_H

#include <jansson.h>

#include "agent/logs/log_query.h"
#include "base/strbuf.h"

// The workload's spec.selector as the value of labelSelector in a query. False: it has none, or
// one that cannot be written (which would match every pod).
bool log_pods_add_selector(const json_t *workload, struct strbuf *out);

// One container of a pod. Views into the pod.
struct log_container {
    struct str ns, pod, name;
    struct str instance; // id of the container that has the log; empty: there is none yet
    struct str waits;    // why there is none: reason of its state
    bool is_running;
};
// Calls on_container for every container of the pod that the query wants: init, then regular, then
// ephemeral ones. Returns whether the pod has not ended.
bool log_pods_each_container(const struct log_query *query, const json_t *pod,
                             void (*on_container)(void *arg, const struct log_container *container), void *arg);

// Calls on_workload for each resource of an Application that has pods, at most once each.
void log_pods_each_workload(const json_t *application,
                            void (*on_workload)(void *arg, const struct log_kind *kind, struct str ns, struct str name),
                            void *arg);

#endif
