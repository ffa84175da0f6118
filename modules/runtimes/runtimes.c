#include "modules/runtimes/runtimes.h"
#include <stdio.h>

#include "culvert_statements.h"
#include "modules/module.h"
#include "storage/reports/storage_usage_store.h"
#include "storage/sql/store_call.h"

static void resolve_limits_status(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)arguments;
    struct api_request *request = ctx;
    storage_usage_store_get_limits_status(request->api->options.pg, request->principal.account_id, api_resolved_node,
                                          api_pending_create(request, on_resolved, arg));
}

// ---- migrateRuntime, shouldBeImplicitConfigurationRuntime --------------------------------------

static void on_migrated(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    struct error missing;
    if (!err && count == 0) {
        error_set(&missing, ERROR_NOT_FOUND, "runtime \"%s\" does not exist", pending->name);
        err = &missing;
    }
    pending->on_resolved(pending->arg, err, NULL);
}

static void resolve_migrate_runtime(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str name = json_get_str(arguments, "runtimeName");
    struct api_pending *pending = api_pending_create(request, on_resolved, arg);
    snprintf(pending->name, sizeof pending->name, "%.*s", STR_ARG(str_first(name, 200)));
    const char *account_id = request->principal.account_id;
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, account_id);
    pg_add(batch, runtime_migrate, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(name));
    store_submit_count(batch, 0, on_migrated, pending);
}

static void on_others_counted(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    pending->on_resolved(pending->arg, err, err ? NULL : json_boolean(count == 0));
}

static void resolve_implicit_configuration(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)arguments;
    struct api_request *request = ctx;
    const char *account_id = request->principal.account_id;
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, account_id);
    pg_add(batch, runtime_count_others, .account_id = pg_text(str_c(account_id)),
           .runtime = pg_text(api_own_runtime(request)));
    store_submit_number(batch, 0, on_others_counted, api_pending_create(request, on_resolved, arg));
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "runtime", runtimes_resolve_runtime, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "runtimes", runtimes_resolve_runtimes, .access = API_USERS},
    {GQL_QUERY, "runtimeTokens", runtimes_resolve_runtime_tokens, .access = API_ADMINS},
    {GQL_QUERY, "limitsStatus", resolve_limits_status, .access = API_USERS},
    {GQL_MUTATION, "createRuntime", runtimes_resolve_create_runtime, .access = API_ADMINS},
    {GQL_MUTATION, "deleteRuntime", runtimes_resolve_delete_runtime, .access = API_ADMINS},
    {GQL_MUTATION, "deleteManagedRuntime", runtimes_resolve_delete_runtime, .access = API_ADMINS},
    {GQL_MUTATION, "createRuntimeToken", runtimes_resolve_create_runtime_token, .access = API_ADMINS},
    {GQL_MUTATION, "rotateRuntimeToken", runtimes_resolve_rotate_runtime_token, .access = API_ADMINS},
    {GQL_MUTATION, "revokeRuntimeToken", runtimes_resolve_revoke_runtime_token, .access = API_ADMINS},
    {GQL_QUERY, "enrollmentTokens", runtimes_resolve_enrollment_tokens, .access = API_ADMINS},
    {GQL_MUTATION, "createEnrollmentToken", runtimes_resolve_create_enrollment_token, .access = API_ADMINS},
    {GQL_MUTATION, "revokeEnrollmentToken", runtimes_resolve_revoke_enrollment_token, .access = API_ADMINS},
    {GQL_QUERY, "shouldBeImplicitConfigurationRuntime", resolve_implicit_configuration, .access = API_RUNTIMES_TOO},
    {GQL_MUTATION, "migrateRuntime", resolve_migrate_runtime, .access = API_ADMINS},
    {GQL_MUTATION, "reportRuntimeErrors", runtimes_resolve_report_runtime_errors, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "runtimeStoreKey", runtimes_resolve_store_key, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "getSealingKey", runtimes_resolve_get_sealing_key, .access = API_RUNTIMES_TOO},
    {GQL_MUTATION, "saveSealingKey", runtimes_resolve_save_sealing_key, .access = API_RUNTIMES_TOO},
};

static const struct api_route routes[] = {
    {"/2.0/api/events/error", "POST", API_RUNTIME, API_EVENTS_BODY, runtimes_event_source_error},
};

const struct module module_runtimes = {
    .name = "runtimes",
    MODULE_LIST(resolvers, resolvers),
    MODULE_LIST(routes, routes),
};
