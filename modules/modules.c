#include "modules/modules.h"

// The only list: a line here makes a folder of modules/ part of the platform. Chores run in this
// order.
// clang-format off
#define MODULES(X) \
    X(identity) \
    X(runtimes) \
    X(clusters) \
    X(applications) \
    X(resources) \
    X(rollouts) \
    X(workflows) \
    X(images) \
    X(events) \
    X(deployments) \
    X(annotations)
// clang-format on

#define DECLARE(noun) extern const struct module module_##noun;
#define ENTRY(noun)   &module_##noun,

MODULES(DECLARE)

const struct module *const modules[] = {MODULES(ENTRY) NULL};
