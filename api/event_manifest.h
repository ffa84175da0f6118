// event_manifest: manifests out of events as they may be kept. Whatever the reporter left in, at any depth: the values
// under a Secret's `data` and `stringData` become null, the annotation last-applied-configuration (a copy of the whole
// object) and managedFields go. Pure; any thread.
#ifndef CULVERT_API_EVENT_MANIFEST_H
#define CULVERT_API_EVENT_MANIFEST_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/json_canonical.h"

// In place. is_secret: treat the outermost object as a Secret, whatever it calls itself.
void event_manifest_redact(json_t *manifest, bool is_secret);

// Canonical JSON text in the arena (at most EVENT_DOCUMENT_BYTES_MAX, else ERROR_TOO_LARGE).
MUST_CHECK enum error_code event_manifest_text(const json_t *manifest, const char *place, struct arena *arena,
                                               struct str *out, struct error *err);

// True: the text is what the three functions around this one would make of it: canonical JSON with nothing to take out.
// Nobody has to take it apart. parts (may be NULL): members of it that are looked for on the way.
bool event_manifest_is_clean(struct str text, struct json_canonical_part *parts, size_t part_count);

// The manifest that `value` (string or object) should have, redacted and canonical; empty when there is none, when it
// is a Secret, or when it cannot be read and therefore not be redacted.
MUST_CHECK enum error_code event_manifest_desired(json_t *value, const char *place, struct arena *arena,
                                                  struct str *out, struct error *err);

// The manifest as it stands in Git: YAML as it is, JSON redacted and canonical; empty when there is none, or when it is
// or seems to hold a Secret.
MUST_CHECK enum error_code event_manifest_git(struct str text, const char *place, struct arena *arena, struct str *out,
                                              struct error *err);

#endif
