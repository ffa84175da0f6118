// cloud_event: the body of POST /2.0/api/events/event-payload, one event in the JSON format of CloudEvents 1.0
// (sections 2 and 3, structured mode), as event sources hand on what they heard. Pure; any thread.
#ifndef CULVERT_MODULES_EVENTS_CLOUD_EVENT_H
#define CULVERT_MODULES_EVENTS_CLOUD_EVENT_H

#include "base/arena.h"
#include "base/error.h"
#include "modules/events/cloud_event_store.h"

enum { CLOUD_EVENT_ATTRIBUTE_BYTES_MAX = 1024 };

// Views of *out point into the arena. Its json is canonical and without secrets: texts under keys that speak of tokens,
// passwords, cookies, signatures and the like are null, at any depth; `data_base64` that holds JSON became `data`.
// ERROR_INVALID and ERROR_TOO_LARGE name the member, and repeat no content.
MUST_CHECK enum error_code cloud_event_parse(struct str json, struct arena *arena, struct cloud_event *out,
                                             struct error *err);

#endif
