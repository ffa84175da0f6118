// cluster: a Kubernetes cluster in memory, as the transport of an agent's kube_client: lists and
// watches of a few kinds with resource versions, answers that come late, in pieces, broken off or
// as errors, watches that end or have expired (410). What exists is the truth that everything else
// is measured by. One thread.
#ifndef CULVERT_TESTS_SIM_CLUSTER_H
#define CULVERT_TESTS_SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/kube/kube_client.h"
#include "base/str.h"

enum { CLUSTER_OBJECTS_MAX = 48 };

struct cluster_object {
    bool exists;
    unsigned kind; // index of cluster_kinds
    char ns[16], name[24], uid[32];
    uint64_t version; // of its last change; "generation" in its manifest
};

struct cluster_kind {
    const char *kind, *plural;
};
extern const struct cluster_kind cluster_kinds[]; // of argoproj.io/v1alpha1
enum { CLUSTER_KINDS = 3 };

struct cluster;

struct cluster *cluster_create(unsigned names); // so many names that objects may have
void cluster_destroy(struct cluster *cluster);
const struct kube_transport *cluster_transport(struct cluster *cluster);

// One object, chosen by chance, comes, changes or goes.
void cluster_change(struct cluster *cluster);
// Whether requests may be answered with errors, broken off and so on.
void cluster_set_faults(struct cluster *cluster, bool faults);
void cluster_break_watches(struct cluster *cluster);        // all, without an answer
void cluster_deny(struct cluster *cluster, unsigned kinds); // a bit each: may not be read
void cluster_compact(struct cluster *cluster);              // changes so far can be watched no more

const struct cluster_object *cluster_objects(const struct cluster *cluster, size_t *out_count);
const struct cluster_object *cluster_find(const struct cluster *cluster, struct str kind, struct str ns,
                                          struct str name); // NULL: it never was
bool cluster_is_alive(const struct cluster *cluster, struct str uid);

#endif
