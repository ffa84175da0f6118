// event_source: the `source` of an event's payload: which application the object belongs to, how it
// stands, and the commit behind it. In ObjectSource, as today's reporters send it, the manifests
// are among its members; the draft of a later reporter puts them beside it, in the payload. Views
// into the payload; any thread.
#ifndef CULVERT_API_EVENTS_EVENT_SOURCE_H
#define CULVERT_API_EVENTS_EVENT_SOURCE_H

#include <stdbool.h>

#include "base/json/json.h"

enum { EVENT_SOURCE_TEXT_BYTES_MAX = 4096 };

struct event_source {
    bool is_present;    // sensors send none
    bool has_manifests; // ObjectSource: it says itself what is gone
    bool is_deleted;    // then: actualManifest and desiredManifest are both ""
    json_t *actual_manifest, *desired_manifest;
    const char *actual_place, *desired_place; // for errors
    struct str git_manifest;
    struct str cluster; // server URL of the destination
    struct str application_ns, application_name;
    struct str sync_status, health_status, health_message;
    struct str repo_url, path, revision, commit_message, commit_author, commit_date;
};

// Whatever is missing or of another type is empty; texts are cut to EVENT_SOURCE_TEXT_BYTES_MAX at
// a character's edge.
void event_source_read(const json_t *payload, struct event_source *out);
// The draft's: a payload without a source is an Application's own, and only its deletionTimestamp
// calls it deleted.
void event_source_read_draft(const json_t *payload, struct event_source *out);

// The server URL of the cluster that the runtime itself runs in.
bool event_source_is_in_cluster(struct str server);

#endif
