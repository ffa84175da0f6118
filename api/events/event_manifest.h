// event_manifest: manifests out of events as they may be kept: reporters send whole objects, of
// which the platform keeps what an agent would have let through (tunnel/wire/redaction.h), and
// digests of the rest. Pure; any thread.
#ifndef CULVERT_API_EVENTS_EVENT_MANIFEST_H
#define CULVERT_API_EVENTS_EVENT_MANIFEST_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/json/json.h"
#include "base/json/json_canonical.h"
#include "tunnel/wire/redaction.h"

// The rules, and whose values it is about: the live, the desired and the manifest in Git of one
// object have the same digests where their values are the same.
struct event_filter {
    const struct redaction *redaction;
    struct redaction_object object;
};

// True: the text is canonical JSON, which can be redacted as it stands; nobody has to take it
// apart. parts (may be NULL): members of it that are looked for on the way.
bool event_manifest_is_canonical(struct str text, struct json_canonical_part *parts, size_t part_count);

// `value` (a string that holds JSON, or an object), redacted and canonical, in the arena. At most
// EVENT_DOCUMENT_BYTES_MAX, else ERROR_TOO_LARGE.
MUST_CHECK enum error_code event_manifest_take(const struct event_filter *filter, json_t *value, const char *place,
                                               struct arena *arena, struct str *out, struct error *err);

// The same of canonical text.
MUST_CHECK enum error_code event_manifest_redact(const struct event_filter *filter, struct str text, const char *place,
                                                 struct arena *arena, struct str *out, struct error *err);

// The manifest that `value` should have; empty when there is none, or when it cannot be read and
// therefore not be redacted.
MUST_CHECK enum error_code event_manifest_desired(const struct event_filter *filter, json_t *value, const char *place,
                                                  struct arena *arena, struct str *out, struct error *err);

// The manifest as it stands in Git, JSON or YAML, as JSON; empty as above.
MUST_CHECK enum error_code event_manifest_git(const struct event_filter *filter, struct str text, const char *place,
                                              struct arena *arena, struct str *out, struct error *err);

// A text beside the manifests (a message, an address) without the credentials in it; in the arena.
struct str event_manifest_scrub(struct str text, struct arena *arena);

#endif
