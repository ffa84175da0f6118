// kubernetes_events: Kubernetes Events of the objects that are reported, as the cluster notes
// them: an image that cannot be pulled, a probe that fails. Watches events (core/v1, where those
// of events.k8s.io are, too), takes credentials out of their texts, and queues them for the
// reports stream. Owned by the reporter; the loop of its client; time comes from
// kubernetes_events_tick().
// Source: Kubernetes API, Event v1 core: `series` supersedes `count`, eventTime the older times.
#ifndef CULVERT_AGENT_REPORTS_KUBERNETES_EVENTS_H
#define CULVERT_AGENT_REPORTS_KUBERNETES_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/reports/kubernetes_event_queue.h"

struct kube_client;
struct kubernetes_events;

struct kubernetes_events_options {
    struct kube_client *client;  // outlives the watches: until kubernetes_events_let_go()
    const struct outbox *outbox; // outlives it
    const char *namespaces;      // comma-separated; "": all
    size_t count_max;            // kubernetes_event_queue.h
    unsigned per_second;
    uint64_t watch_seconds, silence_ms, absent_retry_ms; // watch.h
    unsigned page_limit;
};

struct kubernetes_events *kubernetes_events_create(const struct kubernetes_events_options *options);
// All functions accept NULL: Events are not reported.
void kubernetes_events_destroy(struct kubernetes_events *events);
// may_begin: the platform takes Events, and all that is reported has been listed.
void kubernetes_events_tick(struct kubernetes_events *events, bool may_begin, uint64_t now_ms);
// The stream is lost: what was not acknowledged is sent again.
void kubernetes_events_pause(struct kubernetes_events *events);
// Ends the watches and forgets what waits.
void kubernetes_events_let_go(struct kubernetes_events *events);
void kubernetes_events_findings(const struct kubernetes_events *events, json_t *findings);
struct kubernetes_event_queue *kubernetes_events_queue(struct kubernetes_events *events);

#endif
