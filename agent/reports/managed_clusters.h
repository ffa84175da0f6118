// managed_clusters: the other clusters that this cluster's Argo CD manages ("hub and spoke"),
// read with the credentials in Argo CD's cluster Secrets, of those alone that the agent's owner
// has named (reporter.cluster_secrets) where reporter.managed_clusters allows it. Each has a
// client, a probe and a collector of its own, so that one that hangs, is too large or refuses the
// credential holds up no other. Their Applications are objects of the own cluster, whose
// collector hands on what they name. Owned by the reporter; one loop.
//
// A cluster is read once its kube-system has been found to have another uid than the own one:
//
//   Secret usable, cluster answers          -> read
//   cluster does not answer (any more)      -> what was known stays; its Applications have a note
//   Secret unusable, unreadable             -> the same
//   Secret gone, or it is the own cluster   -> forgotten: its objects are reported as deleted
#ifndef CULVERT_AGENT_MANAGED_CLUSTERS_H
#define CULVERT_AGENT_MANAGED_CLUSTERS_H

#include "agent/reports/cluster_identity.h"
#include "agent/reports/collector.h"
#include "base/loop/loop.h"
#include "base/strbuf.h"

struct managed_clusters;

struct managed_clusters_events {
    // See collector.h; cluster is its name in Argo CD.
    void (*on_report)(void *arg, struct str cluster, struct inventory_resource *resource, json_t *object);
    void (*on_absent)(void *arg, struct str cluster, struct inventory_resource *resource, const char *presence,
                      const char *plural);
    void (*on_gone)(void *arg, struct str cluster, const struct inventory_resource *resource);
    bool (*may_read)(void *arg);
    // Which clusters are read, or why one is not, has changed: the Applications are to be listed
    // again. Must not call back in.
    void (*on_changed)(void *arg);
};

struct managed_clusters_options {
    struct loop *loop;
    const struct managed_clusters_events *events;
    void *arg;
    const char *own_name; // no other cluster may have it; outlives this
    size_t secrets;       // how many are named
    size_t resources_max; // of the inventory of each
    uint64_t watch_seconds, silence_ms, absent_retry_ms;
    unsigned page_limit;
    uint64_t probe_interval_ms, probe_timeout_ms;
};

struct managed_clusters *managed_clusters_create(const struct managed_clusters_options *options);
void managed_clusters_destroy(struct managed_clusters *set); // NULL is fine; no callbacks
// Watching begins, or what is known of objects is forgotten (no callbacks).
void managed_clusters_open(struct managed_clusters *set);
void managed_clusters_let_go(struct managed_clusters *set);
void managed_clusters_tick(struct managed_clusters *set, uint64_t now_ms);

// What the look at a Secret found (cluster_identity.h). May take its configuration over.
void managed_clusters_secret(struct managed_clusters *set, const struct cluster_secret *secret);
// collector_events.on_elsewhere of the own cluster.
void managed_clusters_application(struct managed_clusters *set, struct str ns, struct str name, struct str elsewhere,
                                  const json_t *entries);

// NULL: this destination is none of them; "": it is read; else why it is not.
const char *managed_clusters_problem(const struct managed_clusters *set, struct str elsewhere);
// Of the cluster of this name; NULL: there is none, or nothing of it is known.
struct collector *managed_clusters_find(const struct managed_clusters *set, struct str cluster);
// Of the cluster where the resources of this Application are.
struct collector *managed_clusters_of_application(const struct managed_clusters *set, struct str ns, struct str name);
// See collector.h; of all of them.
void managed_clusters_relist(struct managed_clusters *set);
void managed_clusters_resume(struct managed_clusters *set);
// Kinds of which nothing may be concluded: of a cluster that is not read, all that is named there.
void managed_clusters_unread(const struct managed_clusters *set, struct strbuf *out);
// Appends what is wrong (findings.h), each with the name of its cluster.
void managed_clusters_findings(const struct managed_clusters *set, json_t *findings);

#endif
