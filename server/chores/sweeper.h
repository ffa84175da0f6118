// sweeper: housekeeping of the database in the background, on one loop of the replica: manifests
// that no row names any more, old tombstones, history that its account keeps no longer, partitions
// whose time is over (and those that the time to come needs). In small steps, one at a time, so
// that it never stands in the way of reports; several replicas may do it at once.
#ifndef CULVERT_SERVER_CHORES_SWEEPER_H
#define CULVERT_SERVER_CHORES_SWEEPER_H

#include "base/loop/loop.h"
#include "storage/pg/pg.h"

struct sweeper;

struct sweeper_options {
    struct pg *pg;
    uint64_t interval_ms;
    unsigned events_keep_days;  // at least 7
    unsigned history_keep_days; // at least 7; an account may have its own
};

struct sweeper *sweeper_create(struct loop *loop, const struct sweeper_options *options);
void sweeper_destroy(struct sweeper *sweeper); // after pg was closed; NULL is fine

#endif
