// argo_trees: the resource trees of Applications as Argo CD's API gives them: the health of each
// resource by Argo CD's own rules, custom ones in Lua included, and children of resources. A tree
// is read when its Application or one of its resources changes, and from time to time. Kept while
// it can be read; bounded in nodes. Owned by the reporter; one loop.
#ifndef CULVERT_AGENT_ARGO_TREES_H
#define CULVERT_AGENT_ARGO_TREES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/argo/argo_api.h"
#include "base/object_ref.h"
#include "base/str.h"

struct argo_trees;

struct argo_node {
    const char *status;     // "Healthy", "Progressing", ...; NULL: Argo CD does not assess it
    char *message;          // NULL: none
    char *uid, *created_at; // NULL: not known
    char *owner_kind, *owner_api, *owner_name, *owner_uid; // of its first parent; NULL: none
    // argo_version_of() the object that was assessed, and whether the agent's own rule had another
    // verdict of it.
    uint64_t version;
    bool overrules;
    struct argo_tree *tree;
    uint64_t round;
    char *key;
    struct argo_node *next; // of the same tree
};

struct argo_trees_options {
    struct argo_api *api;
    uint64_t interval_ms; // least time between two reads of a tree that changes
    uint64_t refresh_ms;  // a tree that does not is read so often
    size_t nodes_max;     // of all trees
    // A tree has been read; nodes are borrowed. Returns how many of them are older than what is
    // known of their objects:
    // it is read again soon.
    size_t (*on_tree)(void *arg, struct str ns, struct str name, const json_t *nodes);
    void *arg;
};

struct argo_trees *argo_trees_create(const struct argo_trees_options *options);
void argo_trees_destroy(struct argo_trees *trees);               // NULL is fine; no callbacks
void argo_trees_tick(struct argo_trees *trees, uint64_t now_ms); // a few times a second
// The Application, or a resource of it, has changed.
void argo_trees_touch(struct argo_trees *trees, struct str ns, struct str name);
void argo_trees_forget(struct argo_trees *trees, struct str ns, struct str name); // it is gone
struct argo_node_key {
    struct str application_ns, application_name; // whose tree it is in
    struct object_ref ref;
};
// NULL: not known. Until the next tick.
struct argo_node *argo_trees_find(const struct argo_trees *trees, const struct argo_node_key *key);
// Appends how many Applications the token may not read.
void argo_trees_findings(const struct argo_trees *trees, json_t *findings);
uint64_t argo_version_of(struct str resource_version); // 0: none

// The verdict that is shown. own: of the agent's rule, NULL: it has none; version: of the object
// that was assessed. What Argo CD made of that very version wins, also over the agent's rule; what
// it made of an older one counts where the agent has no rule, or is known to judge otherwise.
const char *argo_node_verdict(struct argo_node *node, const char *own, uint64_t version);

#endif
