// rollout_store: rollouts as the clusters reported them, with their revisions (replica sets) and analysis runs. Reads
// only: reports write.
#ifndef CULVERT_MODULES_ROLLOUTS_ROLLOUT_STORE_H
#define CULVERT_MODULES_ROLLOUTS_ROLLOUT_STORE_H

#include "storage/sql/store.h"

// filter_json: RolloutFilterArgs, checked for types by the API. node: type Rollout, by runtime, cluster, namespace,
// name.
void rollout_store_list(struct pg *pg, const char *account_id, struct str filter_json, const struct store_page *page,
                        store_slice_done on_done, void *arg);
// ns and cluster may be empty: any, the first one.
void rollout_store_get(struct pg *pg, const char *account_id, struct str runtime, struct str cluster, struct str ns,
                       struct str name, store_node_done on_done, void *arg);

enum { ROLLOUT_STEPS_MAX = 10000 };
struct rollout_place {
    struct str runtime, cluster, ns, name; // all but runtime may be empty
};
// node: {status}, which may be null. step: its index, or -1 for the one that the rollout is at.
void rollout_store_step_status(struct pg *pg, const char *account_id, const struct rollout_place *place, int step,
                               store_node_done on_done, void *arg);

#endif
