// sweeper: housekeeping of the database in the background, on one loop of the replica: runs the
// sweeps that stores and modules give (storage/sql/sweep.h), in small steps, one at a time, so that
// it never stands in the way of reports; several replicas may do it at once.
#ifndef CULVERT_SERVER_CHORES_SWEEPER_H
#define CULVERT_SERVER_CHORES_SWEEPER_H

#include "base/loop/loop.h"
#include "storage/sql/sweep.h"

struct sweeper;

struct sweeper_options {
    struct pg *pg;
    uint64_t interval_ms;
    const struct sweep *sweeps; // in this order; outlive the sweeper
    size_t sweep_count;
    struct sweep_keep keep;
};

struct sweeper *sweeper_create(struct loop *loop, const struct sweeper_options *options);
void sweeper_destroy(struct sweeper *sweeper); // after pg was closed; NULL is fine

#endif
