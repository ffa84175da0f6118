// kubernetes_event_queue: Kubernetes Events that wait to be sent, beside the outbox and of a
// lower class: one entry an Event, the newest count wins; bounded in number, of one object, and
// in rate. What finds no room is dropped, Normal Events first, and counted. An Event waits until
// the platform was sent its object, for EXPIRY_MS at most: most Events of a cluster are about
// objects that are not reported. Owned by kubernetes_events; one thread; no I/O.
//
//   QUEUED --written--> IN_FLIGHT --acknowledged--> removed
//   IN_FLIGHT --it happened again, the stream is lost--> QUEUED
#ifndef CULVERT_AGENT_REPORTS_KUBERNETES_EVENT_QUEUE_H
#define CULVERT_AGENT_REPORTS_KUBERNETES_EVENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/object_ref.h"
#include "base/str.h"

struct kubernetes_event_queue;
struct outbox;

struct kubernetes_event_queue_options {
    const struct outbox *outbox; // which objects the platform has
    size_t count_max;            // Events, 0: 1,000
    unsigned per_second;         // that are sent, and as many at once; 0: 50
};

// What to send. Views, copied by put.
struct kubernetes_event {
    struct object_ref ref; // of the object
    struct str uid;        // of the Event
    struct str text;       // JSON, redacted (tunnel/wire/report.h)
    bool is_warning;
};

struct kubernetes_event_queue *kubernetes_event_queue_create(const struct kubernetes_event_queue_options *options);
void kubernetes_event_queue_destroy(struct kubernetes_event_queue *queue); // NULL is fine

void kubernetes_event_queue_put(struct kubernetes_event_queue *queue, const struct kubernetes_event *event,
                                uint64_t now_ms);
// The Event to write next. False: none is due (*out_wait_ms: when one may be; 0: none waits). The
// views are valid until the next call.
bool kubernetes_event_queue_next(struct kubernetes_event_queue *queue, uint64_t now_ms, struct kubernetes_event *out,
                                 uint64_t *out_wait_ms);
// The one that next gave was written under this sequence.
void kubernetes_event_queue_written(struct kubernetes_event_queue *queue, uint64_t sequence);
// It cannot be written, and is dropped.
void kubernetes_event_queue_skip(struct kubernetes_event_queue *queue);
// Everything up to the sequence is stored, or was refused.
void kubernetes_event_queue_acknowledge(struct kubernetes_event_queue *queue, uint64_t sequence);
// The stream is lost: what was on its way is sent again.
void kubernetes_event_queue_pause(struct kubernetes_event_queue *queue);
void kubernetes_event_queue_clear(struct kubernetes_event_queue *queue);

size_t kubernetes_event_queue_count(const struct kubernetes_event_queue *queue);

#endif
