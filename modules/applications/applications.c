#include <string.h>

#include "api/resolvers.h"
#include "base/mem.h"
#include "culvert_reads.h"
#include "modules/applications/application_store.h"
#include "modules/applications/applications.h"
#include "modules/module.h"

static void resolve_application_sets(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct store_page page;
    if (!api_page_or_answer(arguments, &page, on_resolved, arg)) return;
    application_set_store_list(request->api->options.pg, request->principal.account_id,
                               json_get_str(arguments, "runtime"), &page, api_resolved_slice,
                               api_pending_create(request, on_resolved, arg));
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "applicationSets", resolve_application_sets, .access = API_USERS},
};

const struct module module_applications = {
    .name = "applications",
    MODULE_LIST(resolvers, resolvers),
    .declared = declared_applications,
    .declared_count = declared_applications_count,
    .report_kinds = &report_kind_application,
    .report_kinds_count = 1,
};
