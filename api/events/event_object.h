// event_object: the Kubernetes object that an event is about, as its reporter wrapped it
// (api/events/event_document.h). What most reporters write is canonical: of such an object only the
// members that name it are taken apart, and its text can be redacted as it came
// (api/events/event_manifest.h). Pure; any thread.
#ifndef CULVERT_API_EVENTS_EVENT_OBJECT_H
#define CULVERT_API_EVENTS_EVENT_OBJECT_H

#include "base/arena.h"
#include "base/json/json.h"

struct event_object {
    json_t *json;    // owned: all of it, or beside a text only apiVersion, kind, metadata and maybe status
    struct str text; // in the arena: canonical and not redacted; empty when it did not come canonical
};

// The object that value is or holds, as event_document_unwrap() takes it, with the same errors.
// with_status: its status is wanted. event_object_finish() ends it, also after an error.
MUST_CHECK enum error_code event_object_read(json_t *value, const char *place, bool with_status, struct arena *arena,
                                             struct event_object *out, struct error *err);
void event_object_finish(struct event_object *object);

#endif
