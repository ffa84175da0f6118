// event_source: the `source` of an event's payload (ObjectSource): which application the object belongs to, how it
// stands, and the commit behind it. Views into the payload; any thread.
#ifndef CULVERT_API_EVENT_SOURCE_H
#define CULVERT_API_EVENT_SOURCE_H

#include <stdbool.h>

#include "base/json.h"

enum { EVENT_SOURCE_TEXT_BYTES_MAX = 4096 };

struct event_source {
    bool is_present; // sensors send none
    bool is_deleted; // actualManifest and desiredManifest are both ""
    json_t *actual_manifest, *desired_manifest;
    struct str git_manifest;
    struct str cluster; // server URL of the destination
    struct str application_ns, application_name;
    struct str sync_status, health_status, health_message;
    struct str repo_url, path, revision, commit_message, commit_author, commit_date;
};

// Whatever is missing or of another type is empty; texts are cut to EVENT_SOURCE_TEXT_BYTES_MAX at a character's edge.
void event_source_read(const json_t *payload, struct event_source *out);

// The server URL of the cluster that the runtime itself runs in.
bool event_source_is_in_cluster(struct str server);

#endif
