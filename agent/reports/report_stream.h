// report_stream: one life of the reports stream, from HELLO to its end: turns what the outbox holds into records,
// numbers them, frames snapshots and reads acknowledgements. No I/O of its own: bytes go to a sink, so that it can be
// tested without a tunnel. Owned by the reporter; its loop.
//
// A snapshot: SNAPSHOT_BEGIN, then every object as its list brings it, SNAPSHOT_END once all lists are complete and
// all they held has been written. Changes in between are ordinary records. END's count is the number of objects whose
// last record since BEGIN is an OBJECT that was not refused: what the platform holds with a sequence at or behind the
// mark. Where the platform compares, the words of resync.h go out in front of anything else, and a snapshot only when
// it asks for one.
#ifndef CULVERT_AGENT_REPORT_STREAM_H
#define CULVERT_AGENT_REPORT_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/reports/outbox.h"
#include "agent/reports/resync.h"
#include "base/str.h"

struct kubernetes_event_queue;
struct report_stream;

struct report_sink {
    // Takes the bytes (at most 64 KiB); false: stop until report_stream_writable().
    bool (*write)(void *arg, const void *at, size_t len);
    // The platform broke the protocol: end the stream.
    void (*fail)(void *arg);
    void *arg;
    bool compares;      // the platform offers exchanges of digests
    bool takes_details; // and takes the details of records
    bool takes_kubernetes_events;
};

struct report_stream_options {
    struct outbox *outbox;
    struct resync *resync;                 // NULL: the platform does not compare
    struct kubernetes_event_queue *events; // written when no report is due; NULL: none
    struct report_sink sink;
    const char *boot_id, *cluster_name; // outlive it
    uint64_t *sequence;                 // the last one used in this boot
    void *arg;
    void (*on_resync)(void *arg);                     // the platform wants a complete snapshot
    void (*on_no_room)(void *arg, struct str reason); // it refused a record for want of room
    // What the lists that are complete did not hold: is it still there, as far as is known? And the kinds of which
    // nothing can be concluded, as WIRE_REPORT names them.
    bool (*is_there)(void *arg, const struct outbox_object *object);
    void (*unread)(void *arg, struct strbuf *out);
};

struct report_stream *report_stream_create(const struct report_stream_options *options);
void report_stream_destroy(struct report_stream *stream); // NULL is fine

// Marks the outbox and writes SNAPSHOT_BEGIN before anything else.
void report_stream_begin_snapshot(struct report_stream *stream);
bool report_stream_in_snapshot(const struct report_stream *stream);
// The newest state of a cluster (JSON), to go out with the next pump.
void report_stream_cluster(struct report_stream *stream, struct str manifest);
// Writes what is due until the sink is full. lists_complete: every list of the snapshot is. *out_wait_ms: when
// something will be due that is not now, 0: nothing.
void report_stream_pump(struct report_stream *stream, bool lists_complete, uint64_t now_ms, uint64_t *out_wait_ms);
void report_stream_writable(struct report_stream *stream);
void report_stream_ack_bytes(struct report_stream *stream, const uint8_t *at, size_t len);
// For how long a record has waited for its acknowledgement, at least; 0: none does.
uint64_t report_stream_waits_ms(const struct report_stream *stream, uint64_t now_ms);

#endif
