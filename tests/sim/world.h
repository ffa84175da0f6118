// world: one run: a cluster, the agent's reporter, the platform, and by chance what goes wrong
// between them for some time; then everything works again, and both must come to hold the same.
#ifndef CULVERT_TESTS_SIM_WORLD_H
#define CULVERT_TESTS_SIM_WORLD_H

#include <stdint.h>

#include "base/loop/loop.h"
#include "tests/sim/store.h"

struct world_options {
    const char *kubeconfig, *state_folder;
    struct store_mutations mutations;
};

struct world_counts { // over all runs
    uint64_t changes, sessions, restarts, kills, cuts, seconds;
};

// NULL: all held; else the first violation (valid until the next run).
const char *world_run(struct loop *loop, uint64_t seed, const struct world_options *options,
                      struct world_counts *counts);

#endif
