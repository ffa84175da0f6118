#include "modules/applications/applications.h"

#include "api/live/live_window.h"
#include "api/resolvers.h"
#include "culvert_reads.h"
#include "modules/module.h"

static const struct live_window_type window = {
    .list = "applications",
    .group = "argoproj.io",
    .kind = "Application",
    .id_sql = "a.runtime || '/' || a.namespace || '/' || a.name",
};

static const struct live_window_type one = {
    .list = "applications",
    .object = "application",
    .group = "argoproj.io",
    .kind = "Application",
    .id_sql = "a.runtime || '/' || a.namespace || '/' || a.name",
    .always = "includeComponents",
};

static const struct gql_resolver resolvers[] = {
    {GQL_SUBSCRIPTION, "applicationsWindow", .access = API_RUNTIMES_TOO, .resolve_selected = live_window_resolve,
     .with = &window},
    {GQL_SUBSCRIPTION, "application", .access = API_RUNTIMES_TOO, .resolve_selected = live_window_resolve,
     .with = &one},
};

const struct module module_applications = {
    .name = "applications",
    MODULE_LIST(resolvers, resolvers),
    .declared = declared_applications,
    .declared_count = declared_applications_count,
    .report_kinds = &report_kind_application,
    .report_kinds_count = 1,
};
