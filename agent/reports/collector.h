// collector: follows the cluster with one watch a kind and says which objects are to be reported.
// Kinds come in tiers (applications, what they name, ReplicaSets, Pods), listed one after the
// other, so that owners are known before what they own. Applications, application sets, rollouts,
// analysis runs and workflows are always reported, the rest as inventory.h says. Owned by the
// reporter, and kept for a while between streams; the loop of its client.
#ifndef CULVERT_AGENT_COLLECTOR_H
#define CULVERT_AGENT_COLLECTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/kube/kube_client.h"
#include "agent/reports/inventory.h"
#include "base/strbuf.h"

struct collector;

struct collector_events {
    // Content as it is now; object is the callee's to change.
    void (*on_report)(void *arg, struct inventory_resource *resource, json_t *object);
    // An application names it, or it was reported, and its content is not at hand: presence is
    // one of WIRE_PRESENCE_* (tunnel/wire/report.h), plural under what the API serves its kind,
    // or NULL where that is not known, or would not help.
    void (*on_absent)(void *arg, struct inventory_resource *resource, const char *presence, const char *plural);
    void (*on_gone)(void *arg, const struct inventory_resource *resource);
    // See inventory.h. May be NULL.
    void (*on_elsewhere)(void *arg, struct str ns, struct str name, struct str elsewhere, const json_t *entries);
    bool (*may_read)(void *arg); // back-pressure; collector_resume() when it turns true again
};

struct collector_options {
    struct kube_client *client;
    const char *namespaces; // comma-separated; NULL or "": all
    const struct collector_events *events;
    void *arg;
    // Of the watches, see watch.h; 0: their defaults.
    uint64_t watch_seconds, silence_ms, absent_retry_ms;
    unsigned page_limit;
    size_t resources_max;              // of the inventory
    struct destinations *destinations; // of the inventory
    // A cluster that an Argo CD elsewhere manages: its Applications come with
    // collector_application(), and no kind is reported for itself.
    bool is_managed;
};

enum { COLLECTOR_NAMESPACES_MAX = 64 };

// NULL with *err when the list of namespaces is wrong.
struct collector *collector_create(const struct collector_options *options, struct error *err);
void collector_destroy(struct collector *collector);               // NULL is fine; not inside its callbacks
void collector_tick(struct collector *collector, uint64_t now_ms); // a few times a second
void collector_relist(struct collector *collector);                // everything is reported again
// One object's content is fetched and reported again; nothing happens when there is none, or it
// is not reported.
void collector_fetch(struct collector *collector, const struct object_ref *ref);
// inventory_application().
void collector_application(struct collector *collector, struct str ns, struct str name, const json_t *entries);
void collector_forget_applications(struct collector *collector);
bool collector_has_application(const struct collector *collector, struct str ns, struct str name);
// The nodes of an Application's resource tree as Argo CD's API gives them. What neither its status
// names nor a watch of ours brings is reported, too, as far as it may be read. Borrowed.
void collector_tree(struct collector *collector, struct str ns, struct str name, const json_t *nodes);
// NULL when it does not exist. Valid until the next call.
const struct inventory_resource *collector_find(const struct collector *collector, const struct object_ref *ref);
void collector_resume(struct collector *collector);
// The API server answers again after it did not, from since_ms (monotonic) on: what was silent
// since is watched anew.
void collector_renew(struct collector *collector, uint64_t since_ms);
// Every list is that may be read, and what was to be fetched by then has been. Applications must
// be: they say what else is to be reported.
bool collector_is_complete(const struct collector *collector);
size_t collector_application_count(const struct collector *collector);
size_t collector_resource_count(const struct collector *collector);
size_t collector_kind_count(const struct collector *collector);
uint64_t collector_left_out(const struct collector *collector); // how often something found no room in the inventory
uint64_t collector_restarts(const struct collector *collector); // of watches, since it was made
// Whether the cluster holds this object, as far as is known, and it is to be reported.
bool collector_reports(const struct collector *collector, const struct object_ref *ref);
// Kinds of which nothing can be concluded because they, or some namespace or object of them,
// cannot be read: a line "<group>/<kind>" each.
void collector_unread(const struct collector *collector, struct strbuf *out);
// The same as if none of its kinds could be read; nothing where no application names any.
void collector_unread_all(const struct collector *collector, struct strbuf *out);
// Appends the rights that are missing to findings (findings.h): what may not be read any more
// first, then what an application names and never could be read.
void collector_findings(const struct collector *collector, json_t *findings);
// Whether Applications may not be read, so that nothing can be concluded.
bool collector_lacks_applications(const struct collector *collector);
// For how long some of the cluster that ought to be seen has not been: a watch is without its API
// server, or was forbidden what it was allowed before; applications may not be read at all;
// nobody says how a kind is called.
uint64_t collector_blind_ms(const struct collector *collector, uint64_t now_ms);

#endif
