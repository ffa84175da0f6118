// module: what one noun gives to the platform. Its folder holds all that is its own: schema part,
// statements, mutations, what reports of its kinds write. A module includes base/, storage/, api/,
// tunnel/broker.h, this header and its own folder, never another module. Constant data; any thread.
#ifndef CULVERT_MODULES_MODULE_H
#define CULVERT_MODULES_MODULE_H

#include "api/graphql/execution.h"
#include "api/http/route.h"
#include "base/config/config.h"
#include "storage/reports/report_kind.h"
#include "storage/sql/sweep.h"

// An array and its length, in the initializer of a module: MODULE_LIST(routes, my_routes).
#define MODULE_LIST(member, array) .member = (array), .member##_count = sizeof(array) / sizeof *(array)

// What a module does not have stays NULL and 0. modules/<name>/<name>.graphql, its part of the
// schema, is joined with the others at build.
struct module {
    const char *name; // of its folder
    // Root fields of queries and mutations, and who may use them.
    const struct gql_resolver *resolvers;
    size_t resolvers_count;
    // Those that its .sql file declares: declared_<name> of culvert_reads.h.
    const struct gql_resolver *declared;
    size_t declared_count;
    // Paths of REST beside GraphQL.
    const struct api_route *routes;
    size_t routes_count;
    // Its section of the settings (base/config/config.h, CONFIG_SECTION), as resolvers and routes
    // find it in api_options.config. They are printed in the order of modules.c.
    const struct config_section *settings;
    // What reports write: the rows of objects, and what is kept besides.
    const struct report_kind *report_kinds;
    size_t report_kinds_count;
    const struct report_beside *report_besides;
    size_t report_besides_count;
    // Housekeeping.
    const struct sweep *sweeps;
    size_t sweeps_count;
};

#endif
