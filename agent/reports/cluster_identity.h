// cluster_identity: whether clusters that Argo CD knows by another name or address are the agent's
// own one, by what a cluster keeps for life: the uid of its namespace kube-system. For that the
// agent uses the credentials of Argo CD's cluster Secrets, of those alone that its owner has named
// (reporter.cluster_secrets), for one GET of that namespace each. Looked at again from time to
// time: a Secret may come to mean another cluster. Owned by the reporter; one loop.
#ifndef CULVERT_AGENT_CLUSTER_IDENTITY_H
#define CULVERT_AGENT_CLUSTER_IDENTITY_H

#include <jansson.h>
#include <stdint.h>

#include "agent/kube/kube_client.h"
#include "base/error.h"
#include "base/loop/loop.h"

struct cluster_identity;

enum { CLUSTER_IDENTITY_SECRETS_MAX = 100 };

enum cluster_secret_verdict {
    CLUSTER_SECRET_UNREADABLE,   // the Secret could not be read
    CLUSTER_SECRET_GONE,         // there is no such Secret
    CLUSTER_SECRET_UNUSABLE,     // none of Argo CD's, or a credential that is refused
    CLUSTER_SECRET_UNIDENTIFIED, // its cluster does not answer
    CLUSTER_SECRET_OWN,
    CLUSTER_SECRET_OTHER,
};

// What a look at one Secret found. Views.
struct cluster_secret {
    size_t index; // in the setting
    enum cluster_secret_verdict verdict;
    struct str name, server;    // what Argo CD calls it, and where it is; empty: not known
    struct kube_config *config; // of UNIDENTIFIED and OTHER; may be taken over
    const char *problem;        // "": none
};

struct cluster_identity_options {
    struct loop *loop;
    struct kube_client *client; // of the own cluster
    const char *secrets;        // comma-separated names, each may have its namespace in front: argocd/name
    uint64_t interval_ms;       // between two looks at all of them
    // What Argo CD calls a cluster and where it is, and whether that is the own one.
    void (*on_cluster)(void *arg, struct str name, struct str server, bool is_own);
    // The look at one Secret has ended. NULL: not wanted.
    void (*on_secret)(void *arg, const struct cluster_secret *secret);
    void *arg;
};

// *out is NULL where no Secret is named. ERROR_INVALID: an invalid name, or too many names.
MUST_CHECK enum error_code cluster_identity_create(const struct cluster_identity_options *options,
                                                   struct cluster_identity **out, struct error *err);
void cluster_identity_destroy(struct cluster_identity *identity);       // NULL is fine; no callbacks
size_t cluster_identity_count(const struct cluster_identity *identity); // of Secrets; NULL: 0
void cluster_identity_tick(struct cluster_identity *identity, uint64_t now_ms);
// Appends which Secrets could not be used, and why (findings.h).
void cluster_identity_findings(const struct cluster_identity *identity, json_t *findings);

#endif
