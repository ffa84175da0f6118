// cloud_event_store: events that a runtime's event sources handed on (CloudEvents 1.0), each once. They lie in one
// partition a week and go with it.
#ifndef CULVERT_MODULES_EVENTS_CLOUD_EVENT_STORE_H
#define CULVERT_MODULES_EVENTS_CLOUD_EVENT_STORE_H

#include "storage/sql/store.h"

// Views; json is the whole event, at most MANIFEST_BYTES_MAX (storage/manifests/manifest_blob.h).
struct cloud_event {
    struct str id, source, type, subject; // id and source name the event; subject may be empty
    struct str time;                      // RFC 3339, or empty
    struct str json;
};

// count 0: it was there already. ERROR_NOT_FOUND: the runtime was deleted.
void cloud_event_store_put(struct pg *pg, const char *account_id, struct str runtime, const struct cloud_event *event,
                           store_count_done on_done, void *arg);
// Makes the partitions of the weeks to come and drops those that ended more than keep_days (>= 7) ago, of all accounts.
// count: dropped ones. Any replica, as often as it likes.
void cloud_event_store_partitions(struct pg *pg, unsigned keep_days, store_count_done on_done, void *arg);

#endif
