// events: bodies of POST /2.0/api/{events,applications,resources}, as the reporters of existing
// runtimes send them, into reports. Pure; any thread. Three shapes (the body is plain JSON here;
// gzip is undone before):
//   {"data":{"timestamp","object":"<base64>","source":{...},"errors":[...],"appVersions":{}}}  Argo CD's event reporter
//   {"data":{"object":"<JSON>"}}                                                                 sensors of Argo Events
//   {"data":"<the payload of the first shape as JSON>"}                                          their older trigger
// and two of a draft reporter, each at a path of its own and without a `data` around it:
//   {"timestamp","actualManifest","errors":[...],...}                                            an Application
//   {"timestamp","actualManifest","desiredManifest","source":{...},...}                          what one manages
// In each, `object` and `data` may be an object, JSON in a string, or base64 of JSON in a string.
#ifndef CULVERT_API_EVENTS_EVENTS_H
#define CULVERT_API_EVENTS_EVENTS_H

#include "base/arena.h"
#include "base/error.h"
#include "storage/reports/report_store.h"
#include "tunnel/wire/redaction.h"

enum events_form { EVENTS_WRAPPED, EVENTS_DRAFT };

enum {
    EVENTS_BODY_BYTES_MAX = 10 * 1024 * 1024,
    EVENTS_ARENA_BYTES = 40 * 1024 * 1024, // room the arena must still have
    EVENTS_IDENTITY_BYTES_MAX = 512,
};

// One body is one report (source REPORT_FROM_HTTP). Views of *out point into the arena, nothing
// into json; account_id and runtime are the credential's, whatever the body says. REPORT_DELETED: a
// source whose actual and desired manifests are both "", or, without a source and in drafts, an
// object with a deletionTimestamp.
//   manifest      actualManifest or else object (drafts: desiredManifest): canonical JSON, redacted, as are the desired
//                 manifest and the one in Git (api/events/event_manifest.h)
//   cluster       "in-cluster" or the destination's server URL; a root Application lives in the runtime's own cluster,
//                 though its source names the destination of what it deploys
//   texts         (commit and health messages, addresses, errors) without the credentials in them
//   observed_at   timestamp; reporters send local time as UTC, so what is more than a day ahead becomes received_at_ms
//   errors        at most 32 entries, their known members only, texts cut
// ERROR_INVALID and ERROR_TOO_LARGE name the member, and repeat no content.
MUST_CHECK enum error_code events_parse(enum events_form form, const struct redaction *redaction, struct str json,
                                        struct str account_id, struct str runtime, int64_t received_at_ms,
                                        struct arena *arena, struct report *out, struct error *err);

#endif
