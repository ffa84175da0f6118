// redaction: what of a Kubernetes object may leave its cluster, and what the platform keeps of an
// object that another reporter sent whole. One table (tunnel/wire/redaction_table.c) lists the open
// paths of each known kind, each with the type of its value; of other kinds only metadata,
// condition types, statuses and reasons, and images are open. Every other value is replaced in its
// place by a keyed digest ("hmac-sha256:" and 32 hex digits): the same value in the same place of
// the same object gives the same digest, so that a change is seen and two manifests can be compared
// line by line, but without the key nothing can be guessed back. Pure: text in, text out. Immutable
// once created; any thread.
#ifndef CULVERT_WIRE_REDACTION_H
#define CULVERT_WIRE_REDACTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/object_ref.h"
#include "base/str.h"
#include "base/strbuf.h"

enum {
    REDACTION_KEY_BYTES = 32,
    REDACTION_DIGEST_BYTES = 45, // text with its NUL
    // What the digests of one object may add to its text. Beyond it objects and arrays become one
    // digest as a whole, and what is shorter than a digest becomes "redacted".
    REDACTION_GROWTH_BYTES_MAX = 512 * 1024,
};

struct metric;
struct redaction;

// What the owner of a cluster opens beside the table; views that need to live only during the call.
struct redaction_options {
    // Comma-separated Kind[.group]:path, as in
    // Deployment.apps:spec.template.spec.containers.env.value. Elements of arrays have no name in a
    // path; a member whose name has a dot is written ["as.this"]. `*` as kind: every kind. What
    // lies below the path leaves as it is, but for credentials that redaction_scrub() knows.
    struct str open_paths;
    // Comma-separated keys, `*` at the end for all that begin so: their values leave.
    struct str open_labels, open_annotations;
    // Count values that became digests, and texts out of which something was taken; may be NULL.
    struct metric *digested, *scrubbed;
};

enum { REDACTION_OPEN_MAX = 200, REDACTION_OPEN_BYTES_MAX = 512 }; // entries; bytes of each

// options may be NULL. ERROR_INVALID names the entry that cannot be used; nothing of a Secret can
// be opened.
MUST_CHECK enum error_code redaction_create(const uint8_t key[REDACTION_KEY_BYTES],
                                            const struct redaction_options *options, struct redaction **out,
                                            struct error *err);
void redaction_destroy(struct redaction *redaction); // NULL is fine; overwrites the key

// Whose values these are: part of what is digested, so that equal values of two objects do not show
// as equal.
struct redaction_object {
    struct str owner; // account and runtime where several share a key; may be empty
    struct object_ref ref;
};

// json: one object as json_canonical() writes it (compact, keys sorted); anything else that is
// valid JSON is redacted as well, but a text with repeated or unsorted keys stays so. Appends the
// redacted object to *out, again canonical; out's maximum must leave room for 2 * json.len +
// REDACTION_GROWTH_BYTES_MAX + 64 KiB. ERROR_INVALID: not an object; ERROR_TOO_LARGE: nested too
// deep, or out is full. After an error out's content must not be used.
MUST_CHECK enum error_code redaction_apply(const struct redaction *redaction, const struct redaction_object *object,
                                           struct str json, struct strbuf *out, struct error *err);

// The same, and reports the result for each value, in the order of the text.
enum redaction_verdict {
    REDACTION_LEAVES,    // as it is
    REDACTION_SCRUBBED,  // a text without the credentials in it, or cut
    REDACTION_DIGESTED,  // a value
    REDACTION_COLLAPSED, // an object or array as a whole
    REDACTION_DROPPED,   // no trace of it
};
struct redaction_observer {
    // path as in redaction_options; json: what leaves, empty when dropped. Views end with the call.
    void (*on_value)(void *arg, struct str path, enum redaction_verdict verdict, struct str json);
    void *arg;
};
MUST_CHECK enum error_code redaction_explain(const struct redaction *redaction, const struct redaction_object *object,
                                             struct str json, const struct redaction_observer *observer,
                                             struct strbuf *out, struct error *err);

#endif
