// kube_probe: whether the Kubernetes API server answers, can read its storage, and of what
// version it is: GET /version every few seconds with a bounded timeout, then GET of one object
// that need not exist. A server that hangs lets connections stand, and one without etcd also
// answers /version, so that their watches look merely quiet; a GET without a resourceVersion is a
// quorum read of etcd, whether it is answered with 200 or 404. The probe has connections of its
// own, so that any number of watches cannot hold it up. Owned by the reporter; one loop; time
// comes from kube_probe_tick().
//
//     IDLE --tick, interval--> VERSION --answered--> READ --answered--> IDLE
//                                 \---a problem------------------------^
#ifndef CULVERT_AGENT_KUBE_PROBE_H
#define CULVERT_AGENT_KUBE_PROBE_H

#include <jansson.h>
#include <stdint.h>

#include "agent/kube/kube_config.h"
#include "agent/kube/kube_problem.h"
#include "base/loop/loop.h"

struct kube_probe;

struct kube_probe_options {
    struct loop *loop;
    struct kube_config *config;       // outlives the probe
    uint64_t interval_ms, timeout_ms; // of each of the two; 0: 3,000 and 4,000
    const char *ns;                   // one in which Applications may be read; NULL: "argocd"
};

// NULL with *err when libcurl cannot be used.
struct kube_probe *kube_probe_create(const struct kube_probe_options *options, struct error *err);
void kube_probe_destroy(struct kube_probe *probe); // NULL is fine
void kube_probe_tick(struct kube_probe *probe, uint64_t now_ms);

// What the last probe found; KUBE_PROBLEM_NONE also before the first one has ended.
const struct kube_problem *kube_probe_problem(const struct kube_probe *probe);
// When the first of the probes that found a problem that blinds was sent; 0: the last one was answered.
uint64_t kube_probe_blind_since_ms(const struct kube_probe *probe);
// The last /version that could be read, NULL: none yet. Valid until the next tick.
const json_t *kube_probe_version(const struct kube_probe *probe);
// Grows whenever the problem or the version becomes another; 0: no probe has ended yet.
uint64_t kube_probe_changes(const struct kube_probe *probe);

#endif
