// outbox: what is still to be told about each object. One slot an object (cluster, group, kind,
// namespace, name), the newest state wins, so its size is bounded by the number of objects and
// the latest state is never dropped. Manifests are kept compressed and only until they are
// written; what remains of an object is its identity and two hashes. A slot that changes more
// often than the platform needs to know (10 changes in 10 s) is told once a second. All objects
// together are a digest tree (tunnel/wire/digest_tree.h), kept up to date with each change. Owned
// by the reporter; one thread; no I/O.
//
//   IDLE --change--> QUEUED --written--> IN_FLIGHT --acknowledged, refused--> IDLE
//   IN_FLIGHT --change, tombstone when the stream is lost--> QUEUED
//   QUEUED --the next exchange will find it--> IDLE
//   IN_FLIGHT --the stream is lost--> IDLE
//
// A tombstone is never idle: its slot goes when it is acknowledged. What the platform has is a
// state of its own:
//
//   UNSYNCED --written--> SYNCED --stream lost--> MAYBE_SYNCED --exchange of digests--> SYNCED or UNSYNCED
//   SYNCED --refused--> REFUSED --change, wanted--> UNSYNCED
//   any --a snapshot begins--> UNSYNCED
#ifndef CULVERT_AGENT_OUTBOX_H
#define CULVERT_AGENT_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/object_ref.h"
#include "base/str.h"
#include "tunnel/wire/digest_tree.h"

struct outbox;

enum outbox_state {
    OUTBOX_IDLE,      // nothing to tell
    OUTBOX_QUEUED,    // a record is to be written
    OUTBOX_IN_FLIGHT, // written, not acknowledged
};

enum outbox_sync {
    OUTBOX_UNSYNCED,
    OUTBOX_SYNCED,       // the platform holds the object: an OBJECT was written since the mark
    OUTBOX_MAYBE_SYNCED, // it may: nothing is queued, or was before; the next exchange of digests finds out
    OUTBOX_REFUSED,      // it refused this very hash
};

// What becomes of a change.
enum outbox_mode {
    OUTBOX_TELLS,  // it is queued
    OUTBOX_ASKS,   // an object seen for the first time is unsure: the platform will be asked what it has
    OUTBOX_CLOSED, // there is no stream: the same, and beyond a quarter of bytes_max for every change
};

struct outbox_options {
    const char *cluster_name; // of all objects, NULL: in-cluster; outlives it
    size_t objects_max;       // 0: 200,000
    size_t bytes_max;         // of retained manifests, 0: 64 MiB; beyond it outbox_is_full()
    unsigned burst;           // changes of one object before it is slowed, 0: 10
    uint64_t interval_ms;     // between its changes from then on, 0: 1,000
    // Changes of all objects together in a second, with as many at once; 0: no limit. What the
    // platform was never told (a snapshot) is not held back by it.
    unsigned changes_per_second;
};

// What to tell. Views, copied.
struct outbox_object {
    struct str cluster; // its name; empty: options.cluster_name
    struct object_ref ref;
    struct str application_ns, application_name, sync_status, health_status;
    // Details of a record (tunnel/wire/report.h). A slot keeps them as long as its manifest.
    struct str health_message, health_source, presence, resource, marks;
    struct str manifest; // redacted JSON, plain
    uint8_t hash[ID_SHA256_BYTES];
    int64_t observed_at_ms;
};

struct outbox_slot {
    struct outbox_object object; // owned texts; manifest is compressed, empty once written
    size_t manifest_bytes;       // before compression
    bool is_plain;               // the manifest is not compressed: the platform would refuse its ratio
    bool deleted;                // a tombstone is queued or in flight; the slot goes when it is acknowledged
    enum outbox_state state;
    uint64_t sequence; // of the last record written, 0: none
    enum outbox_sync sync;
    bool maybe_known; // the platform may have some state of it: gone, it needs a tombstone
    bool counted;     // its entry is in the tree
    bool wanted;      // the platform found that it has something else, or nothing, and was not sent it yet
    uint8_t entry[DIGEST_ENTRY_BYTES];
    bool listed;           // seen by the running snapshot
    uint64_t queued_at_ms; // monotonic
    // The outbox's own: its place in the queue or among those in flight, and the token bucket.
    struct outbox_slot *next, *previous;
    char *key;
    unsigned tokens;
    uint64_t tokens_at_ms;
    uint64_t due_at_ms;
};

struct outbox *outbox_create(const struct outbox_options *options); // NULL: defaults
void outbox_destroy(struct outbox *outbox);                         // NULL is fine
// Forgets everything: the next stream begins with a snapshot.
void outbox_clear(struct outbox *outbox);
// The stream is gone: what was on its way may or may not have arrived. What is queued stays so.
// Mode: CLOSED.
void outbox_pause(struct outbox *outbox);
void outbox_set_mode(struct outbox *outbox, enum outbox_mode mode);
// A snapshot begins: nothing counts as told, refused or listed any more; every object is expected
// to be put again.
void outbox_mark(struct outbox *outbox);

enum outbox_put {
    OUTBOX_PUT_QUEUED,
    OUTBOX_PUT_UNCHANGED, // the platform has it, or has refused it
    OUTBOX_PUT_UNSURE,    // it may
    OUTBOX_PUT_REFUSED,   // too many objects
};
enum outbox_put outbox_put(struct outbox *outbox, const struct outbox_object *object, uint64_t now_ms);
// The object is gone: that of this cluster, group, kind, namespace and name. Nothing happens when
// it was never told.
void outbox_delete(struct outbox *outbox, const struct outbox_object *identity, uint64_t now_ms);
// After complete lists: deletes every object that the snapshot has not put, unless it is still
// there: that may be known of one whose kind can no longer be listed. Returns how many.
size_t outbox_delete_unlisted(struct outbox *outbox, uint64_t now_ms,
                              bool (*is_there)(void *arg, const struct outbox_object *object), void *arg);
const struct outbox_slot *outbox_find(const struct outbox *outbox, const struct outbox_object *identity);

// The slot to write next, or NULL: none is due (*out_wait_ms: when one will be, 0 if the queue is
// empty).
struct outbox_slot *outbox_next(struct outbox *outbox, uint64_t now_ms, uint64_t *out_wait_ms);
// It was written under this sequence (a tombstone, too): gives its manifest's memory back.
void outbox_written(struct outbox *outbox, struct outbox_slot *slot, uint64_t sequence);
// Everything up to the sequence is durable. Frees acknowledged tombstones.
void outbox_acknowledge(struct outbox *outbox, uint64_t sequence);
// The record was refused: its content is not sent again until it changes.
void outbox_refuse(struct outbox *outbox, uint64_t sequence);

// ---- exchanges of digests
// -------------------------------------------------------------------------------------

const struct digest_tree *outbox_tree(const struct outbox *outbox);
void outbox_each_entry(const struct outbox *outbox, void (*on_each)(void *arg, const uint8_t *entry), void *arg);
// The exchange, which began in mode TELLS, is over: the platform lacks the objects of these keys
// (sorted) and has all others. on_wanted is called for each whose content is not on its way
// already; it must not call back in. Mode: TELLS. Returns how many.
size_t outbox_settle(struct outbox *outbox, const uint8_t (*keys)[DIGEST_KEY_BYTES], size_t count,
                     void (*on_wanted)(void *arg, const struct outbox_slot *slot), void *arg);

size_t outbox_count(const struct outbox *outbox);  // slots
size_t outbox_queued(const struct outbox *outbox); // records to write
size_t outbox_in_flight(const struct outbox *outbox);
size_t outbox_bytes(const struct outbox *outbox);        // retained manifests
uint64_t outbox_slowed(const struct outbox *outbox);     // changes ever that had to wait for a token of their object
uint64_t outbox_coalesced(const struct outbox *outbox);  // states ever that a newer one replaced before they were told
size_t outbox_synced_count(const struct outbox *outbox); // objects the platform holds since the mark
size_t outbox_wanted(const struct outbox *outbox);       // objects that an exchange found and that are not acknowledged
// Is there an object that lives, was not refused and has not been written since the mark?
bool outbox_has_unsynced(const struct outbox *outbox);
bool outbox_is_full(const struct outbox *outbox);
uint64_t outbox_oldest_ms(const struct outbox *outbox, uint64_t now_ms); // age of the first record in the queue

#endif
