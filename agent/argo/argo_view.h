// argo_view: what the reporter takes from Argo CD's API where a token for it is configured:
// verdicts of health, children of resources, commits of releases. It joins argo_api, argo_trees and
// argo_commits with what the collector knows. Owned by the reporter; one loop.
#ifndef CULVERT_AGENT_ARGO_VIEW_H
#define CULVERT_AGENT_ARGO_VIEW_H

#include <jansson.h>
#include <stdint.h>

#include "agent/argo/argo_trees.h"
#include "agent/reports/collector.h"

struct argo_view;

struct argo_view_options {
    const char *url; // NULL or "": none; argo_view_create() gives NULL then
    const char *token_file, *ca_file;
    uint64_t timeout_ms, interval_ms, refresh_ms, bytes_max;
    unsigned requests_max;
    uint64_t nodes_max, commits_max;
    // Where the objects of this Application are followed; NULL: nowhere.
    struct collector *(*collector_of)(void *arg, struct str ns, struct str name);
    void *arg;
};

// *out is NULL where no url is set.
MUST_CHECK enum error_code argo_view_create(struct loop *loop, const struct argo_view_options *options,
                                            struct argo_view **out, struct error *err);
void argo_view_destroy(struct argo_view *view); // NULL is fine
// collector NULL: nothing is watched now.
void argo_view_tick(struct argo_view *view, struct collector *collector, uint64_t now_ms);
// The collector is about to go.
void argo_view_let_go(struct argo_view *view);

// Of a resource that is about to be reported: own is the verdict of the agent's rule (NULL: none).
// Notes both, and that the tree of its Application is to be read. *out_message is set where the
// verdict is Argo CD's, and valid until the next tick. view may be NULL.
const char *argo_view_verdict(struct argo_view *view, struct inventory_resource *resource, const json_t *object,
                              const char *own, struct str *out_message);
// What the tree knows of it; NULL: nothing.
const struct argo_node *argo_view_node(struct argo_view *view, const struct inventory_resource *resource);
// argo_commits_of(), and the tree of the Application is to be read. NULL: none.
json_t *argo_view_application(struct argo_view *view, const json_t *application);
// An Application is gone.
void argo_view_forget(struct argo_view *view, struct str ns, struct str name);
void argo_view_findings(const struct argo_view *view, json_t *findings);

#endif
