#include <string.h>

#include "base/mem.h"
#include "modules/runtimes/runtime_error_store.h"
#include "modules/runtimes/runtimes.h"

static void on_put(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    pending->on_resolved(pending->arg, err, err ? NULL : json_integer((json_int_t)count));
}

// An installer has the key of an admin; the runtime's own token speaks for itself only.
static bool may_report(const struct api_request *request, struct str runtime)
{
    const struct api_principal *who = &request->principal;
    if (who->kind == PRINCIPAL_RUNTIME) return str_eq(str_c(who->runtime), runtime);
    return who->kind == PRINCIPAL_USER && who->role == PRINCIPAL_ADMIN;
}

static enum error_code check(const struct api_request *request, struct str runtime, const json_t *list,
                             struct error *err)
{
    if (!may_report(request, runtime))
        return error_set(err, ERROR_FORBIDDEN,
                         "reportRuntimeErrors requires an admin of the account or the token of the runtime");
    if (json_array_size(list) > RUNTIME_ERRORS_MAX)
        return error_set(err, ERROR_INVALID, "reportErrorsArgs.errors: %zu errors, the limit is %d",
                         json_array_size(list), RUNTIME_ERRORS_MAX);
    size_t i;
    json_t *each;
    json_array_foreach(list, i, each)
    {
        struct str message = json_get_str(each, "message");
        if (message.len && memchr(message.at, '\0', message.len))
            return error_set(err, ERROR_INVALID, "reportErrorsArgs.errors[%zu].message: contains a NUL character", i);
    }
    return ERROR_NONE;
}

void runtimes_resolve_report_runtime_errors(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const json_t *args = json_get_object(arguments, "reportErrorsArgs"), *list = json_get_array(args, "errors");
    struct str runtime = json_get_str(args, "runtime");
    struct error err;
    if (check(request, runtime, list, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    struct runtime_error *errors = mem_array(json_array_size(list) + 1, sizeof *errors);
    size_t count = 0, i;
    json_t *each;
    json_array_foreach(list, i, each)
    {
        if (!json_is_object(each)) continue; // the schema lets null stand in the list
        errors[count++] = (struct runtime_error){
            .is_warning = str_eq(json_get_str(each, "level"), STR("WARNING")),
            .message = json_get_str(each, "message"),
        };
    }
    if (count)
        runtime_error_store_put(request->api->options.pg, request->principal.account_id, runtime,
                                RUNTIME_ERROR_INSTALLATION, errors, count, on_put,
                                api_pending_create(request, on_resolved, arg));
    mem_free(errors);
    if (!count) on_resolved(arg, NULL, json_integer(0));
}
