#include "modules/modules.h"

#include "culvert_reads.h"

// The only list: a line here makes a folder of modules/ part of the platform. Housekeeping runs in
// this order. C(noun): the folder defines struct module module_<noun>. TEXT(noun): it has text
// files alone, <noun>.graphql and <noun>.sql (storage/sql/reads.awk).
// clang-format off
#define MODULES(C, TEXT) \
    C(identity) \
    C(runtimes) \
    C(clusters) \
    C(applications) \
    C(resources) \
    C(rollouts) \
    C(workflows) \
    C(images) \
    C(events) \
    C(deployments) \
    C(transitions) \
    C(kubernetes_events) \
    C(operations) \
    C(annotations) \
    C(accounts) \
    C(promotions) \
    TEXT(git_sources) \
    TEXT(components)
// clang-format on

#define NOTHING(noun)
#define DECLARE(noun) extern const struct module module_##noun;
#define ENTRY(noun)   &module_##noun,
#define TEXT_ENTRY(noun)                                                                                               \
    &(const struct module){.name = #noun, .declared = declared_##noun, .declared_count = declared_##noun##_count},

MODULES(DECLARE, NOTHING)

const struct module *const modules[] = {MODULES(ENTRY, TEXT_ENTRY) NULL};
