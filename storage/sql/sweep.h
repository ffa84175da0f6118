// sweep: housekeeping of one kind of rows, for all accounts, as small steps: each one short
// transaction, one at a time. Modules and stores give tables of them; server/chores/sweeper.h runs
// them. Several replicas may do so at once. Constant data.
#ifndef CULVERT_STORAGE_SQL_SWEEP_H
#define CULVERT_STORAGE_SQL_SWEEP_H

#include "storage/sql/store.h"

enum sweep_when {
    SWEEP_OFTEN, // every 15 s
    SWEEP_FIRST, // at the beginning of a round, and when the platform starts: what the time to come needs
    SWEEP_ROUND, // in a round
};

// Which counter the rows of a step are added to.
enum sweep_counter {
    SWEEP_COUNTS_NOTHING,
    SWEEP_COUNTS_ROWS,       // culvert_swept_rows_total
    SWEEP_COUNTS_HISTORY,    // culvert_swept_history_rows_total, by the sweep's name
    SWEEP_COUNTS_PARTITIONS, // culvert_dropped_partitions_total
    SWEEP_COUNTS_MERGED,     // culvert_merged_transitions_total
    SWEEP_COUNTS_SETTLED,    // culvert_settled_deployments_total
};

// What settings say of how long things are kept.
struct sweep_keep {
    unsigned events_days;          // at least 7
    unsigned history_days;         // at least 7; an account may have its own
    unsigned transitions_days;     // at least 7
    unsigned transitions_per_hour; // of one object; at least 10
    int64_t transitions_per_account;
    unsigned kubernetes_events_days; // at least 1
    int64_t kubernetes_events_per_account;
};

// Where a sweep goes on that takes an account, or a part of it, a step. Zeros begin.
struct sweep_place {
    char account_id[64];
    unsigned slice; // of an account; one more than there are is the next account's first
};
// next: where to go on; NULL: that was all.
typedef void (*sweep_walked)(void *arg, const struct error *err, uint64_t count, const struct sweep_place *next);

// One of step and walk.
struct sweep {
    const char *name; // in metrics and logs
    enum sweep_when when;
    enum sweep_counter counter;
    unsigned rows; // of a step at most: as many as that, and there may be more; 0: there is one step
    void (*step)(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep, store_count_done on_done,
                 void *arg);
    void (*walk)(struct pg *pg, unsigned rows, const struct sweep_place *place, sweep_walked on_done, void *arg);
};

#endif
