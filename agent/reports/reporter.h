// reporter: what the cluster looks like, told to the platform. It watches the Kubernetes API, redacts, keeps one
// slot an object in its outbox and writes report records (tunnel/wire/report.h) onto the reports stream whenever
// one is open. Owned by the agent; lives on its loop; every function is called on that loop.
#ifndef CULVERT_AGENT_REPORTER_H
#define CULVERT_AGENT_REPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/argo/argo_view.h"
#include "agent/reports/report_stream.h"
#include "base/error.h"
#include "base/loop/loop.h"
#include "base/strbuf.h"
#include "tunnel/wire/redaction.h"

struct agent_stream;
struct kube_client;
struct kube_transport;
struct reporter;

struct reporter_options {
    const char *kubeconfig;                 // path; NULL or "": the pod's service account
    const struct kube_transport *transport; // NULL: HTTP; agent/kube/kube_client.h
    bool exec_forbidden;                    // the kubeconfig's exec plugin is not run
    uint64_t exec_timeout_ms;               // of one run of it; 0: kube_exec.h's default
    const char *cluster_name;               // NULL or "": in-cluster
    const char *namespaces;                 // comma-separated; NULL or "": all
    const char *state_folder;               // where the redaction key is kept; NULL or "": a key of this process
    // What leaves beside the table; its texts need to live only during the call.
    struct redaction_options redaction;
    const char *cluster_aliases; // other names of the own one, see destinations.h
    // Argo CD's cluster Secrets that may be used (cluster_identity.h), and how often.
    const char *cluster_secrets;
    uint64_t cluster_interval_ms;
    bool managed_clusters;         // read those of them that are other clusters (managed_clusters.h)
    size_t managed_objects_max;    // of each; 0: as many as of the own one
    bool clusters;                 // read Argo CD's cluster Secrets for names and addresses
    struct argo_view_options argo; // its texts need to live only during the call
    struct outbox_options outbox;
    // Of the watches, see watch.h; 0: their defaults.
    uint64_t watch_seconds, silence_ms, absent_retry_ms;
    unsigned page_limit;
    uint64_t probe_interval_ms, probe_timeout_ms; // see kube_probe.h; 0: its defaults
    uint64_t limit_retry_ms;                      // after objects found no room all is listed again; 0: 600,000
};

// NULL with *err when the options cannot work (unreadable kubeconfig or state folder). They are copied.
struct reporter *reporter_create_with(struct loop *loop, const struct reporter_options *options, struct error *err);
// NULL is fine. The loop's handles are gone after a few of its turns, as loop_destroy() makes them.
void reporter_destroy(struct reporter *reporter);

// The platform opened `POST /culvert/reports`; the caller has answered its head with 200 already. Records go out as the
// response body with agent_stream_write(). The stream is valid until reporter_stream_closed(); an older stream that is
// still open is replaced by the newer one. compares: the platform offers exchanges of digests (tunnel/wire/digest.h);
// takes_details: it takes the details of records (tunnel/wire/report.h).
void reporter_stream_open(struct reporter *reporter, struct agent_stream *stream, bool compares, bool takes_details);
// The same for any sink: what it takes is what a stream takes.
void reporter_sink_open(struct reporter *reporter, const struct report_sink *sink);
// Bytes of the request body: acknowledgements, cut anywhere. The caller gives the window back.
void reporter_on_ack_bytes(struct reporter *reporter, const uint8_t *at, size_t len);
// There is room again after agent_stream_write() returned false.
void reporter_stream_writable(struct reporter *reporter);
// The stream is gone; what was not acknowledged is sent again on the next one.
void reporter_stream_closed(struct reporter *reporter);
// The client that it reads the cluster with; lives as long as the reporter.
struct kube_client *reporter_kube_client(const struct reporter *reporter);
// Which Applications deploy to this cluster; the reporter's.
const struct destinations *reporter_destinations(const struct reporter *reporter);
size_t reporter_outbox_depth(const struct reporter *reporter); // objects that wait to be written
// Age of the oldest change that the platform has not acknowledged, and for how long some of the cluster has not been
// watched, or has been left out, or its API server has not answered. The longer of the two is the metric
// culvert_agent_report_lag_seconds, and the runtime's lagSeconds at the platform.
void reporter_lag(const struct reporter *reporter, uint64_t *out_behind_ms, uint64_t *out_blind_ms);

// Whether the cluster can be read: its API answers, accepts the credential, and Applications may be listed (the last
// only while the cluster is watched). false: *why is what is wrong and what helps, in one line.
// true: *why may have a warning, that the platform refuses reports for want of room.
bool reporter_is_ready(const struct reporter *reporter, struct strbuf *why);

#endif
