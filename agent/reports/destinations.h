// destinations: which destinations of Applications are this cluster, and which are other clusters.
// This cluster is known as kubernetes.default.svc, by the API server's address in the agent's own
// kubeconfig, as in-cluster, by reporter.cluster_name, by reporter.cluster_aliases, by what was
// found to have its API server's identity, and by the names that Argo CD's cluster Secrets give
// these addresses. Applications of other destinations are counted, so that a finding names what no
// agent reads. Owned by the reporter; one loop.
#ifndef CULVERT_AGENT_DESTINATIONS_H
#define CULVERT_AGENT_DESTINATIONS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"

struct destinations;

enum { DESTINATIONS_ALIASES_MAX = 64, DESTINATIONS_NAMES_MAX = 1000, DESTINATIONS_ELSEWHERE_MAX = 1000 };

struct destinations_options {
    const char *server;  // of the kubeconfig
    const char *name;    // reporter.cluster_name
    const char *aliases; // comma-separated names and https:// addresses; NULL or "": none
};

// NULL with *err when an alias is neither a name nor an address.
struct destinations *destinations_create(const struct destinations_options *options, struct error *err);
void destinations_destroy(struct destinations *destinations); // NULL is fine

// Of spec.destination: server wins where it is not empty. NULL knows the cluster's own names only.
bool destinations_is_own(const struct destinations *destinations, struct str server, struct str name);
// Argo CD calls the cluster at this address so. True: from now on that name is this cluster's.
bool destinations_learn(struct destinations *destinations, struct str name, struct str server);

// The cluster at this address was found to be the own one, or another, by its API server's identity
// (cluster_identity.h). True: what the agent takes for its own has changed.
bool destinations_identify(struct destinations *destinations, struct str name, struct str server, bool is_own);

// Whether two addresses are the same but for a trailing slash, the default port and case.
bool destinations_is_same(struct str one, struct str other);
// Asks about other clusters that the agent may read: NULL: this is none; "": it is read; else why
// it is not. NULL: there are none.
void destinations_read_by(struct destinations *destinations, const char *(*problem_of)(void *arg, struct str elsewhere),
                          void *arg);

// An Application deploys elsewhere, or no more. Beyond DESTINATIONS_ELSEWHERE_MAX different
// ones the last are not named.
void destinations_enter(struct destinations *destinations, struct str elsewhere);
void destinations_leave(struct destinations *destinations, struct str elsewhere);
// {"message", "suggestion"} (application_notes.h) for an Application of this destination; NULL: its
// resources are read. The caller's (json_decref).
json_t *destinations_unread(const struct destinations *destinations, struct str server, struct str name);
// Appends a finding (findings.h) for each of the first few other clusters, and one for the rest.
void destinations_findings(const struct destinations *destinations, json_t *findings);

#endif
