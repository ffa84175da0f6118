// live_updates: tells whoever listens on Redis what has just been committed. One message a transaction on the channel
// culvert:changes:<account id>: {"changes":[{"group","version","kind","runtime","namespace","name","event"}]}. A
// reference, never state: a reader that missed one reads the database. Redis away: nothing is sent and nothing waits.
#ifndef CULVERT_SERVER_INTAKE_LIVE_UPDATES_H
#define CULVERT_SERVER_INTAKE_LIVE_UPDATES_H

#include <stddef.h>

#include "storage/redis/redis.h"
#include "storage/reports/report_store.h"

// On redis' loop, after COMMIT.
void live_updates_publish(struct redis *redis, const struct report *reports, const struct report_outcome *outcomes,
                          size_t count);

#endif
