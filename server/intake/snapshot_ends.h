// snapshot_ends: the ends of snapshots while a broker lies between intake and event handler. The end of one must follow
// what belongs to it, so it is held until all of that is durable; and whoever applies it writes what it came to into
// the database (storage/reports/snapshot_verdict_store.h), where it is looked up here. One loop's; intake's.
#ifndef CULVERT_SERVER_INTAKE_SNAPSHOT_ENDS_H
#define CULVERT_SERVER_INTAKE_SNAPSHOT_ENDS_H

#include "base/loop/loop.h"
#include "server/intake/source.h"
#include "storage/pg/pg.h"
#include "storage/reports/report.h"
#include "storage/reports/snapshot_verdict_store.h"

struct snapshot_ends;

// As snapshot_verdict_find of storage/reports/snapshot_verdict_store.h.
typedef void snapshot_ends_find(struct pg *pg, const struct runtime_key *key, uint64_t epoch, uint64_t sequence,
                                snapshot_verdict_done on_done, void *arg);

struct snapshot_ends_options {
    struct pg *pg;
    snapshot_ends_find *find;
    struct source_table *sources; // outlives this
    // The session may end inside these.
    void (*submit)(void *ctx, struct source *source, const struct report *end);
    void (*on_resync)(void *ctx, struct source *source); // the snapshot came to nothing: another one is needed
    void *ctx;
};

struct snapshot_ends *snapshot_ends_create(struct loop *loop, const struct snapshot_ends_options *options);
void snapshot_ends_stop(struct snapshot_ends *ends);    // asks no more; NULL is fine
void snapshot_ends_destroy(struct snapshot_ends *ends); // after the pg was closed; NULL is fine

// Before a report is submitted. False: it is the end of a snapshot and held; the session must wait with it.
bool snapshot_ends_take(struct snapshot_ends *ends, struct source *source, const struct report *report);
// A broker has the end: the verdict will be looked up.
void snapshot_ends_await(struct snapshot_ends *ends, struct source *source);
// Everything before it is durable: the end that was held is submitted.
void snapshot_ends_release(struct snapshot_ends *ends, struct source *source);

#endif
