// logs: pod logs as answers to calls, streamed from the Kubernetes API. Of a Pod, of a workload's
// pods, or of all workloads of an Application; with `follow` new pods and restarted containers are
// found by looking again. What the client does not take is not read from the API (the stream's
// window), and a client that leaves ends every request at once. Nothing of a log is kept, changed
// or redacted. Owned by the agent; one loop.
//
//   LOOKING --first look at the pods--> STREAMING --all logs have ended--> ENDED
#ifndef CULVERT_AGENT_LOGS_H
#define CULVERT_AGENT_LOGS_H

#include "agent/kube/kube_client.h"
#include "agent/operations/operation_rights.h"
#include "agent/tunnel/session.h"

struct logs;

struct destinations;

struct logs_options { // everything outlives the logs
    const struct operation_rights *rights;
    // Which destinations of Applications mean this cluster; NULL: kubernetes.default.svc, in-cluster.
    const struct destinations *destinations;
    size_t calls_max;      // concurrent answers
    size_t containers_max; // of one answer
    uint64_t look_ms;      // follow: between two looks at the pods
};

struct logs_request {  // views during logs_start()
    struct str query;  // of the path
    struct str accept; // application/x-ndjson, else text/plain
    struct str user;   // who asks, for the log
};

// The client is owned from here on; NULL: there is no cluster.
struct logs *logs_create(struct loop *loop, struct kube_client *client, const struct logs_options *options);
void logs_destroy(struct logs *logs); // after its streams; NULL is fine
// Takes the stream over.
void logs_start(struct logs *logs, struct agent_stream *stream, const struct logs_request *request);

#endif
