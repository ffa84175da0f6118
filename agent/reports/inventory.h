// inventory: which objects of the cluster are to be reported, and why. An object is reported when
// its kind always is (applications, rollouts, workflows, ...), when an application's
// status.resources names it, or when an object that is reported owns it. Of what is not reported
// only identity, uid and owner are kept (a Pod may be seen before the ReplicaSet that makes it
// interesting). No I/O, no manifests; one owner, one thread. Callbacks must not call back in.
#ifndef CULVERT_AGENT_INVENTORY_H
#define CULVERT_AGENT_INVENTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/reports/destinations.h"
#include "base/object_ref.h"

struct inventory;

enum { INVENTORY_RESOURCES_MAX = 500000, INVENTORY_KINDS_MAX = 200 }; // the first: by default

// One group and kind. Lives as long as the inventory.
struct inventory_kind {
    char *group, *version, *kind; // the version in which it was first named
    bool always;                  // every object of it is reported
    size_t claims;                // how many entries of status.resources name objects of it
    bool absent_due;              // among them are objects of which is to be reported that they are not at hand
    struct inventory_resource *first;
    void *user; // the collector's
};

struct inventory_resource {
    struct inventory_kind *kind;
    char *ns, *name; // ns is "" outside namespaces
    char *uid;       // NULL: not seen
    char *owner_uid; // of the controller; NULL: none
    // The application whose status names it (or its owner), with what that says; NULL: none.
    struct inventory_application *application;
    char *sync_status, *health_status, *health_message; // owned; NULL: not said
    size_t claims;                                      // entries of all applications that name it
    // Those of them that are from Argo CD's resource tree.
    size_t tree_claims;
    // The reporter's: the verdict of the agent's own rules and the one that was reported (static
    // texts), and a hash of its resourceVersion then; of one that is absent a hash of the uid.
    const char *assessed, *shown;
    uint64_t version;
    uint64_t round;                 // the inventory's own: which reading of an application last named it
    bool requires_pruning, is_hook; // what that says of it besides
    bool reported;
    bool absent;            // it was reported as one that is not at hand, the collector's
    bool fetching, in_line; // the fetches': its content is wanted; it has a place in their line
    unsigned attempts;      // theirs, too
    uint64_t generation;    // of the list that last held it
    // The collector's: the resourceVersion that was fetched, and the list's generation then.
    uint64_t fetched_version, fetched_generation;
    char *key;
    struct inventory_resource *next, *previous;            // of the same kind
    struct inventory_resource *sibling, *sibling_previous; // of the same owner
};

struct inventory_events {
    // Report its content as it is now.
    void (*on_report)(void *arg, struct inventory_resource *resource, json_t *object);
    // It is reported no longer: deleted, or nobody's any more.
    void (*on_gone)(void *arg, const struct inventory_resource *resource);
    // It is to be reported (again) but its content is not at hand.
    void (*on_stale)(void *arg, struct inventory_resource *resource);
    // An Application deploys to another cluster: entries of its status.resources; or no more, or it
    // is gone: elsewhere is empty, entries NULL. Borrowed. NULL: not wanted.
    void (*on_elsewhere)(void *arg, struct str ns, struct str name, struct str elsewhere, const json_t *entries);
    // About to be freed: forget the pointer.
    void (*on_forget)(void *arg, struct inventory_resource *resource);
};

// resources_max: of all that is seen, reported or not; 0: the default. destinations outlives it;
// NULL: this cluster has only the names that every cluster has.
struct inventory *inventory_create(const struct inventory_events *events, void *arg, size_t resources_max,
                                   struct destinations *destinations);
void inventory_destroy(struct inventory *inventory); // NULL is fine; no callbacks

// Finds or makes; NULL at the limit.
struct inventory_kind *inventory_kind_of(struct inventory *inventory, struct str group, struct str version,
                                         struct str kind);
struct inventory_kind *inventory_next_kind(const struct inventory *inventory, size_t *cursor);

// An object as listed, watched or fetched. May change object (through on_report). An
// Application's status is read.
void inventory_seen(struct inventory *inventory, struct inventory_kind *kind, uint64_t generation, json_t *object);
void inventory_deleted(struct inventory *inventory, struct inventory_kind *kind, struct str ns, struct str name);
// What Argo CD's resource tree of an Application holds besides what its status names: entries like
// those of status.resources, instead of those that were given before. Borrowed.
void inventory_tree(struct inventory *inventory, struct str ns, struct str name, const json_t *entries);
// An Application of another cluster whose resources are objects of this one: entries of its
// status.resources. NULL: it names none any more. Borrowed.
void inventory_application(struct inventory *inventory, struct str ns, struct str name, const json_t *entries);
void inventory_forget_applications(struct inventory *inventory); // none is there any more
// Application objects that are seen name nothing: they are of another Argo CD, and those that are
// given with inventory_application() may have their names. Before the first object.
void inventory_ignore_applications(struct inventory *inventory);
bool inventory_has_application(const struct inventory *inventory, struct str ns, struct str name);
// A list is complete: what it did not hold is gone. ns NULL: the list was of all namespaces.
void inventory_sweep(struct inventory *inventory, struct inventory_kind *kind, const char *ns, uint64_t generation);
// Objects that applications name and that were not seen: all of the kind are to be looked at
// (absent_due).
void inventory_doubt(struct inventory_kind *kind);
// NULL: there is none.
struct inventory_resource *inventory_find(const struct inventory *inventory, const struct object_ref *ref);
struct object_ref inventory_ref(const struct inventory_resource *resource); // views into it
// Its name and namespace; empty for none.
struct str inventory_application_ns(const struct inventory_resource *resource);
struct str inventory_application_name(const struct inventory_resource *resource);
size_t inventory_application_count(const struct inventory *inventory);
size_t inventory_count(const struct inventory *inventory);
// How often something found no room: an object, a kind, an entry of an application's resources.
uint64_t inventory_left_out(const struct inventory *inventory);

#endif
