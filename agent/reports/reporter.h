// reporter: what the cluster looks like, told to the platform. It watches the Kubernetes API, redacts, keeps one
// slot an object in its outbox and writes report records (tunnel/wire/report.h) onto the reports stream whenever
// one is open. Owned by the agent; lives on its loop; every function is called on that loop.
#ifndef CULVERT_AGENT_REPORTER_H
#define CULVERT_AGENT_REPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/reports/report_stream.h"
#include "agent/reports/reporter_options.h"
#include "base/error.h"
#include "base/loop/loop.h"
#include "base/strbuf.h"

struct agent_stream;
struct kube_client;
struct reporter;

// NULL with *err when the options cannot work (unreadable kubeconfig or state folder). They are copied.
struct reporter *reporter_create_with(struct loop *loop, const struct reporter_options *options, struct error *err);
// NULL is fine. The loop's handles are gone after a few of its turns, as loop_destroy() makes them.
void reporter_destroy(struct reporter *reporter);

// The platform opened `POST /culvert/reports`; the caller has answered its head with 200 already. Records go out as the
// response body with agent_stream_write(). The stream is valid until reporter_stream_closed(); an older stream that is
// still open is replaced by the newer one. compares: the platform offers exchanges of digests (tunnel/wire/digest.h);
// takes_details: it takes the details of records (tunnel/wire/report.h);
// takes_kubernetes_events: it takes Kubernetes Events.
void reporter_stream_open(struct reporter *reporter, struct agent_stream *stream, bool compares, bool takes_details,
                          bool takes_kubernetes_events);
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
