// modules: the list of all modules, and what they give by kind, as the options of the kits take it.
// The composition root (server/) and tests read it; no kit does.
#ifndef CULVERT_MODULES_MODULES_H
#define CULVERT_MODULES_MODULES_H

#include "modules/module.h"

extern const struct module *const modules[]; // ends with NULL

struct module_tables {
    struct gql_resolver *resolvers;
    size_t resolver_count;
    struct api_route *routes;
    size_t route_count;
    struct report_kinds report_kinds;
    struct sweep *sweeps;
    size_t sweep_count;
};

// list ends with NULL.
void module_tables_init(struct module_tables *tables, const struct module *const *list);
// Those of the kits, behind the modules' own.
void module_tables_add_sweeps(struct module_tables *tables, const struct sweep *sweeps, size_t count);
void module_tables_finish(struct module_tables *tables);

#endif
