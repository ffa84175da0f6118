// Products, promotions and their releases are not made here: the shapes are those that clients
// decode, the lists are empty, and an operator that polls for tasks stays idle.
#include "api/resolvers.h"
#include "modules/module.h"

static void resolve_empty_slice(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct store_page page;
    (void)ctx;
    if (!api_page_or_answer(arguments, &page, on_resolved, arg)) return;
    on_resolved(arg, NULL, api_empty_slice());
}

static void resolve_empty_list(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)ctx;
    (void)arguments;
    on_resolved(arg, NULL, json_array());
}

static void resolve_null(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)ctx;
    (void)arguments;
    on_resolved(arg, NULL, NULL);
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "promotions", resolve_empty_slice, .access = API_USERS},
    {GQL_QUERY, "productReleases", resolve_empty_slice, .access = API_USERS},
    {GQL_QUERY, "promotionTemplateByRuntime", resolve_null, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "promotionTemplate", resolve_null, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "productComponentsList", resolve_empty_list, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "productReleaseTasks", resolve_empty_list, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "productReleaseRunHooksTasks", resolve_empty_list, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "productReleaseCommitStatuses", resolve_empty_list, .access = API_RUNTIMES_TOO},
};

const struct module module_promotions = {
    .name = "promotions",
    MODULE_LIST(resolvers, resolvers),
};
