// event_versions: the `appVersions` of an event's payload: the version that an application's chart
// names, and the texts of its files about dependencies; bounded, with their known members only.
// Pure; any thread.
#ifndef CULVERT_API_EVENTS_EVENT_VERSIONS_H
#define CULVERT_API_EVENTS_EVENT_VERSIONS_H

#include "base/arena.h"
#include "base/json/json.h"

enum { EVENT_VERSION_BYTES_MAX = 256, EVENT_VERSION_FILE_BYTES_MAX = 64 * 1024 };

// JSON object text in the arena: {appVersion, dependencies {lock, deps, requirements}}; empty when
// it says nothing. A file that is longer than the bound is left out: half of one would be read as
// something else.
struct str event_versions_text(const json_t *payload, struct arena *arena);

#endif
