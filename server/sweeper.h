// sweeper: housekeeping of the database in the background, on one loop of the replica: manifests that no row names any
// more, old tombstones. In small steps, one at a time, so that it never stands in the way of reports; several replicas
// may do it at once.
#ifndef CULVERT_SERVER_SWEEPER_H
#define CULVERT_SERVER_SWEEPER_H

#include "base/loop.h"
#include "storage/pg/pg.h"

struct sweeper;

struct sweeper *sweeper_create(struct loop *loop, struct pg *pg, uint64_t interval_ms);
void sweeper_destroy(struct sweeper *sweeper); // after pg was closed; NULL is fine

#endif
