// report_store: what clusters reported, applied once and in order. The entry of every report, whichever mouth it came
// through. One call = one transaction: entity row, manifest blob, history, per-runtime position. A row yields only to
// a newer (epoch, sequence) from a tunnel, or a newer observation time over HTTP; replays change nothing.
#ifndef CULVERT_STORAGE_REPORT_STORE_H
#define CULVERT_STORAGE_REPORT_STORE_H

#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/str.h"
#include "storage/pg/pg.h"

enum report_type {
    REPORT_OBJECT,         // as it is now
    REPORT_DELETED,        // is gone
    REPORT_SNAPSHOT_BEGIN, // tunnel only: (epoch, sequence) is the mark
    REPORT_SNAPSHOT_END,   // what is older than the mark is deleted if `count` objects are not
    REPORT_CLUSTER,        // a managed cluster and its connection state (manifest)
};
enum report_source { REPORT_FROM_TUNNEL, REPORT_FROM_HTTP };

// Views: the caller keeps the memory until report_store_apply returns (it copies).
struct report {
    enum report_type type;
    enum report_source source;
    struct str account_id, runtime; // from the credential alone
    uint64_t epoch, sequence;       // tunnel
    struct str group, version, kind, ns, name, uid;
    struct str cluster; // name, "in-cluster" by default
    struct str application_ns, application_name;
    struct str sync_status, health_status,
        health_message; // as Argo CD spells them; stores normalise (SYNCED, OUT_OF_SYNC, ...)
    int64_t observed_at_ms;
    uint8_t content_hash[ID_SHA256_BYTES];
    struct str manifest;                                                             // live, JSON text, plain
    struct str desired_manifest;                                                     // HTTP only, may be empty
    struct str git_manifest;                                                         // HTTP only, may be empty
    struct str repo_url, path, revision, commit_message, commit_author, commit_date; // HTTP source, may be empty
    struct str errors;                                                               // JSON array text or empty
    uint64_t count;                                                                  // SNAPSHOT_END
};

// How one report ended.
enum report_result {
    REPORT_APPLIED,
    REPORT_UNCHANGED, // older or the same: nothing to do
    REPORT_RESYNC,    // SNAPSHOT_END whose count did not match: nothing was deleted, ask for a new snapshot
    REPORT_REFUSED,   // bad record: kept out, the others went in (reason in detail)
};
struct report_outcome {
    enum report_result result;
    const char *detail; // constant or valid during the callback
};

// outcomes[i] belongs to reports[i]. With err nothing was applied and everything may be tried again.
typedef void (*report_store_done)(void *arg, const struct error *err, const struct report_outcome *outcomes,
                                  size_t count);

// All reports of one call belong to one account. One bad record never sinks its batch.
// Large batches are parsed and compressed on libuv's thread pool, so that the loop goes on.
void report_store_apply(struct pg *pg, const struct report *reports, size_t count, report_store_done on_done,
                        void *arg);

// Housekeeping for all accounts, now and then, by one replica or several: manifests that no row names any more and old
// tombstones. count: the manifests removed; `limit` of them means that there may be more.
typedef void (*report_store_swept)(void *arg, const struct error *err, uint64_t count);
void report_store_sweep(struct pg *pg, unsigned limit, report_store_swept on_done, void *arg);

#endif
