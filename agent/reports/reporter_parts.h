// reporter_parts: what a reporter is made of, how its parts are made, and what they call back: the
// way from an object of a cluster to the outbox. The inside of reporter.h, for reporter.c alone.
#ifndef CULVERT_AGENT_REPORTS_REPORTER_PARTS_H
#define CULVERT_AGENT_REPORTS_REPORTER_PARTS_H

#include "agent/argo/argo_view.h"
#include "agent/kube/kube_probe.h"
#include "agent/reports/catch_up.h"
#include "agent/reports/cluster_identity.h"
#include "agent/reports/cluster_report.h"
#include "agent/reports/collector.h"
#include "agent/reports/kubernetes_events.h"
#include "agent/reports/managed_clusters.h"
#include "agent/reports/object_report.h"
#include "agent/reports/overflow.h"
#include "agent/reports/report_stream.h"
#include "agent/reports/reporter_metrics.h"
#include "agent/reports/reporter_options.h"
#include "agent/reports/resync.h"
#include "base/id.h"
#include "base/loop/timer.h"

// Stream, its exchange of digests and clusters are made when a stream opens and die when it
// closes. Collector and outbox stay for a while, so that the next stream needs no more than a
// comparison; with a platform that does not compare they die, too, and the snapshot of the next
// stream tells what happened in between.
struct reporter {
    struct loop *loop;
    struct reporter_options options; // texts owned
    struct kube_config kube;
    struct kube_client *client;
    struct kube_probe *probe;
    struct destinations *destinations;
    struct argo_view *argo;            // NULL: no token for Argo CD's API
    struct cluster_identity *identity; // NULL: no cluster Secret may be used
    struct managed_clusters *managed;  // NULL: no other cluster may be read
    struct kubernetes_events *events;  // NULL: Kubernetes Events are not reported
    uint64_t unanswered_since_ms;      // the probe's, as it was last seen; 0: the API server answered
    struct redaction *redaction;
    struct outbox *outbox;
    struct object_report objects; // its takes_details: of the last stream's platform; the outbox was filled for it
    struct collector *collector;
    struct cluster_report *clusters;
    struct report_stream *stream;
    struct resync *digests; // NULL: the platform does not compare
    struct agent_stream *tunnel_stream;
    char boot_id[ID_UUID_BYTES];
    uint64_t sequence;
    struct catch_up catch_up;
    char refusal[256]; // why it refused something that it may take later, until it has taken all; "": it has
    uint64_t closed_at_ms;
    size_t fetched; // of what the platform wanted
    bool held_back; // the outbox was full: watches wait
    char *unread;   // kinds that the last comparison left out, a line each; NULL: none
    // Of the last stream's platform.
    bool takes_kubernetes_events;
    struct overflow overflow;
    struct timer tick, turn, probe_tick;
    struct reporter_metrics metrics;
};

// Writes in the loop's next turn: a burst of changes becomes one write, and nothing is called back
// into.
void reporter_request_turn(struct reporter *reporter);

// Everything of the configuration that can be wrong is found here, not when the first stream opens.
// On an error what was made stays, for reporter_free_parts() and the reporter's own end.
enum error_code reporter_start_parts(struct reporter *reporter, struct error *err);
void reporter_free_parts(struct reporter *reporter);
enum error_code reporter_open_collector(struct reporter *reporter, struct error *err);

// Where the objects of this cluster are followed; NULL: nowhere.
struct collector *reporter_collector_of_cluster(const struct reporter *reporter, struct str cluster);
void reporter_gather_unread(const struct reporter *reporter, struct strbuf *out);

// For the stream and the report of clusters; arg: the reporter.
bool reporter_is_there(void *arg, const struct outbox_object *object);
void reporter_unread(void *arg, struct strbuf *out);
void reporter_on_cluster(void *arg, struct str manifest);
void reporter_cluster_counts(void *arg, size_t *out_applications, size_t *out_resources, size_t *out_kinds);
void reporter_cluster_findings(void *arg, json_t *out);
void reporter_on_named(void *arg, struct str name, struct str server);

#endif
