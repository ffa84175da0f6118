// report: one statement about one object of a cluster, as every mouth (tunnel, HTTP) hands it in. A value of views.
#ifndef CULVERT_STORAGE_REPORTS_REPORT_H
#define CULVERT_STORAGE_REPORTS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/object_ref.h"
#include "base/str.h"

enum report_type {
    REPORT_OBJECT,         // as it is now
    REPORT_DELETED,        // is gone
    REPORT_SNAPSHOT_BEGIN, // tunnel only: (epoch, sequence) is the mark
    REPORT_SNAPSHOT_END,   // what is older than the mark is deleted if `count` objects are not, but for what is unread
    REPORT_CLUSTER,        // a managed cluster and its connection state (manifest)
    REPORT_KEPT_OUT,       // tunnel only: an object that is refused as it came, which is only noted
    // Tunnel only: a Kubernetes Event (manifest) about the object.
    REPORT_KUBERNETES_EVENT,
};
enum report_source { REPORT_FROM_TUNNEL, REPORT_FROM_HTTP };

// Views: the memory is whoever made the report's.
struct report {
    enum report_type type;
    enum report_source source;
    struct str account_id, runtime; // from the credential alone
    uint64_t epoch, sequence;       // tunnel
    struct object_ref ref;
    struct str cluster; // name, "in-cluster" by default
    // HTTP only, may be empty, and what is no number or no time counts as that: the object's metadata.resourceVersion
    // and creationTimestamp, by which words about one object are put in order that carry no time of their own.
    struct str resource_version, created_at;
    struct str application_ns, application_name;
    struct str sync_status, health_status,
        health_message; // as Argo CD spells them; stores normalise (SYNCED, OUT_OF_SYNC, ...)
    // Tunnel only, may be empty (tunnel/wire/report.h): where the health comes from, why the object is not at hand
    // though an application names it, the plural of its kind, and what the application says of it besides.
    struct str health_source, presence, api_resource, marks;
    int64_t observed_at_ms;
    uint8_t content_hash[ID_SHA256_BYTES]; // tunnel: the object's entry in the digest tree
    struct str manifest;                   // live, JSON text, plain
    struct str packed_manifest;            // tunnel: the zstd frame that was unpacked into it, or empty
    struct str desired_manifest;           // HTTP only, may be empty
    struct str git_manifest;               // HTTP only, may be empty
    struct str repo_url, path, revision, commit_message, commit_author, commit_date; // HTTP source, may be empty
    struct str errors;                                                               // JSON array text or empty
    struct str app_versions; // HTTP, of an Application: JSON object text {appVersion, dependencies} or empty
    struct str unread;       // SNAPSHOT_END: kinds that the agent may not read, a line "<group>/<kind>" each
    uint64_t count;          // SNAPSHOT_END
    bool is_kept;            // its memory stays as it is until whoever was handed the report has told how it ended
};

// How one report ended.
enum report_result {
    REPORT_APPLIED,
    REPORT_UNCHANGED,  // older or the same: nothing to do
    REPORT_RESYNC,     // SNAPSHOT_END whose count did not match: nothing was deleted, ask for a new snapshot
    REPORT_REFUSED,    // bad record: kept out, the others went in (reason in detail)
    REPORT_OVER_QUOTA, // the account or the runtime stores as much as it may: kept out until there is room (reason)
};
struct report_outcome {
    enum report_result result;
    const char *detail; // constant or valid during the callback
};

// Bytes of all its texts together.
size_t report_text_bytes(const struct report *report);
// *out becomes the report with its texts at `to`, which has room for report_text_bytes(); a text of no bytes is
// STR_EMPTY. Returns the first byte after them. Nobody keeps the copy: is_kept is false.
char *report_copy_into(struct report *out, const struct report *report, char *to);

#endif
