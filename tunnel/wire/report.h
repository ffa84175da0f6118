// report: the records that travel on the reports stream (agent -> platform, the endless response
// body of `POST /culvert/reports`) and the acknowledgements that travel back (its request body).
// Pure codec: bytes in,
// bytes out; any thread. A record is  u32 length (big-endian, of what follows) | u8 version = 1 | u8 type |
// u64 sequence | fields, a field being  u8 tag | u32 length | bytes.  Unknown tags are skipped, unknown types are
// ERROR_PROTOCOL. Sequences start at 1 with every boot of the agent and grow by one a record.
#ifndef CULVERT_TUNNEL_WIRE_REPORT_H
#define CULVERT_TUNNEL_WIRE_REPORT_H

#include <stdint.h>

#include "base/error.h"
#include "base/object_ref.h"
#include "base/str.h"
#include "base/strbuf.h"

enum {
    WIRE_REPORT_RECORD_BYTES_MAX = 10 * 1024 * 1024 + 64 * 1024, // a 10 MiB manifest and its keys
    WIRE_REPORT_HASH_BYTES = 32,
    WIRE_REPORT_UNREAD_BYTES_MAX = 128 * 1024,
    WIRE_REPORT_MESSAGE_BYTES_MAX = 4096,
    // A compressed manifest is refused when it unpacks to more than so many times its bytes; below
    // the free bytes the ratio does not count. What compresses better travels plain.
    WIRE_REPORT_RATIO_MAX = 100,
    WIRE_REPORT_RATIO_FREE_BYTES = 64 * 1024,
};

enum wire_report_type {
    WIRE_REPORT_HELLO = 1,          // boot_id; the first record of a stream
    WIRE_REPORT_OBJECT = 2,         // an object as it is now
    WIRE_REPORT_DELETED = 3,        // tombstone: identity and uid, no manifest
    WIRE_REPORT_SNAPSHOT_BEGIN = 4, // every object follows, as OBJECT
    WIRE_REPORT_SNAPSHOT_END = 5,   // count: how many objects exist; absent ones may now be deleted
    WIRE_REPORT_CLUSTER = 6, // manifest: {"name","server","serverVersion","connectionState":{"status","message"},...}
    WIRE_REPORT_DIGEST = 7,  // digest: the agent's word in an exchange of digests; only where the platform offers them
    // manifest: a Kubernetes Event about the object, {"uid","type","reason","message","component",
    // "count","firstAt","lastAt"}; only where the platform takes them
    // (WIRE_HEADER_KUBERNETES_EVENTS)
    WIRE_REPORT_KUBERNETES_EVENT = 8,
};

enum wire_report_encoding { WIRE_REPORT_PLAIN = 0, WIRE_REPORT_ZSTD = 1 };

#define WIRE_HEALTH_AGENT          "AGENT"         // assessed by the agent
#define WIRE_HEALTH_ARGOCD_STATUS  "ARGOCD_STATUS" // read in the status of an Application
#define WIRE_HEALTH_ARGOCD_TREE    "ARGOCD_TREE"   // read in the resource tree of Argo CD's API
#define WIRE_PRESENCE_MISSING      "MISSING"       // the cluster does not have it
#define WIRE_PRESENCE_UNREADABLE   "UNREADABLE"    // the agent may not read it
#define WIRE_PRESENCE_UNKNOWN_KIND "UNKNOWN_KIND"  // the API server does not serve the kind
#define WIRE_MARK_REQUIRES_PRUNING "REQUIRES_PRUNING"
#define WIRE_MARK_HOOK             "HOOK"
// Annotations that an agent adds to the manifest of an Application: the commits that it names, and
// {"message", "suggestion"} where its resources are not read.
#define WIRE_ANNOTATION_COMMITS "app.meta.revisions-metadata"
#define WIRE_ANNOTATION_UNREAD  "culvert.dev/resources-not-read"

// Views into the decoder's buffer (decode) or the caller's memory (encode).
struct wire_report {
    enum wire_report_type type;
    uint64_t sequence;
    struct str boot_id;
    struct object_ref ref;
    struct str cluster;                          // name of the cluster it lives in ("in-cluster")
    struct str application_ns, application_name; // the Argo CD application whose status names it; else empty
    struct str sync_status, health_status;       // Argo CD's spelling; may be empty
    // Details, which an agent sends where the platform offers to take them (WIRE_HEADER_DETAILS);
    // each may be empty.
    struct str health_message; // why it is not healthy, redacted; at most WIRE_REPORT_MESSAGE_BYTES_MAX
    struct str health_source;  // WIRE_HEALTH_*
    // Of an object that an application names and that is not at hand (its manifest is but its
    // identity): WIRE_PRESENCE_*.
    struct str presence;
    struct str resource; // the plural under which the API serves the kind, where presence is WIRE_PRESENCE_UNREADABLE
    struct str marks;    // further marks of status.resources: a comma-separated list of WIRE_MARK_*
    int64_t observed_at_ms;               // agent's wall clock
    uint8_t hash[WIRE_REPORT_HASH_BYTES]; // SHA-256 of the canonical, redacted manifest
    enum wire_report_encoding encoding;
    uint64_t manifest_bytes; // after decoding
    struct str manifest;     // JSON, redacted; encoded as above
    uint64_t count;          // SNAPSHOT_END
    struct str digest;       // DIGEST: tunnel/wire/digest.h
    // SNAPSHOT_END, and DIGEST with a ROOT: kinds that the agent may not read, so that what is held
    // of them, and of what they own, must not be deleted for being absent. A line "<group>/<kind>"
    // each.
    struct str unread;
};

// Appends one record. ERROR_TOO_LARGE when it passes the limit.
MUST_CHECK enum error_code wire_report_encode(const struct wire_report *report, struct strbuf *out, struct error *err);
// Decodes the first record of at..len. ERROR_AGAIN: incomplete (*out_used is then the number of
// bytes wanted in all, when already known, else 0). Every string is bounded: identities to 512
// bytes, UTF-8 is required.
MUST_CHECK enum error_code wire_report_decode(const uint8_t *at, size_t len, struct wire_report *out, size_t *out_used,
                                              struct error *err);

enum wire_ack_type {
    WIRE_ACK = 1,        // everything up to sequence is durable
    WIRE_ACK_RESYNC = 2, // send a complete snapshot
    WIRE_ACK_REJECT = 3, // this one record was refused (reason); counted as acknowledged
    WIRE_ACK_DIGEST = 4, // the platform's word in an exchange of digests, about that record
};
// How the reason of a REJECT begins when the record found no room on the platform: it may be sent
// again later, and is found by a comparison of digests until it is taken.
#define WIRE_REASON_QUOTA "storage quota"

struct wire_ack {
    enum wire_ack_type type;
    uint64_t sequence;
    struct str reason;
    struct str digest; // DIGEST: tunnel/wire/digest.h
};
MUST_CHECK enum error_code wire_ack_encode(const struct wire_ack *ack, struct strbuf *out, struct error *err);
MUST_CHECK enum error_code wire_ack_decode(const uint8_t *at, size_t len, struct wire_ack *out, size_t *out_used,
                                           struct error *err);

#endif
