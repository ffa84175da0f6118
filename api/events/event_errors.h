// event_errors: the `errors` of an event's payload (ObjectError): bounded, with their known members
// only. Pure; any thread.
#ifndef CULVERT_API_EVENTS_EVENT_ERRORS_H
#define CULVERT_API_EVENTS_EVENT_ERRORS_H

#include "base/arena.h"
#include "base/json/json.h"

enum { EVENT_ERRORS_COUNT_MAX = 32, EVENT_ERRORS_MESSAGE_BYTES_MAX = 1024, EVENT_ERRORS_BYTES_MAX = 60 * 1024 };

// JSON array text in the arena: {type, level, message, lastSeen, sourceReference {group, version,
// kind, namespace, name}}; empty when there are none. What is over a bound is left out.
struct str event_errors_text(const json_t *payload, struct arena *arena);

#endif
