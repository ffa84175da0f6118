#include <string.h>

#include "api/resolvers.h"
#include "culvert_statements.h"
#include "modules/module.h"
#include "storage/sql/store_call.h"

enum { URL_BYTES_MAX = 2048 };

static enum error_code check_url(struct str url, const char *name, struct error *err)
{
    if (url.len == 0) return error_set(err, ERROR_INVALID, "%s: must not be empty", name);
    if (url.len > URL_BYTES_MAX)
        return error_set(err, ERROR_INVALID, "%s: %zu bytes, the limit is %d", name, url.len, URL_BYTES_MAX);
    for (size_t i = 0; i < url.len; i++)
        if ((unsigned char)url.at[i] <= ' ' || url.at[i] == 0x7f)
            return error_set(err, ERROR_INVALID, "%s: contains a space or a control character at byte %zu", name, i);
    if (!str_starts(url, STR("https://")) && !str_starts(url, STR("http://")))
        return error_set(err, ERROR_INVALID, "%s: must begin with https:// or http://", name);
    if (memchr(url.at, '@', url.len))
        return error_set(err, ERROR_INVALID, "%s: must not hold a user name or a password", name);
    return ERROR_NONE;
}

// ---- updateCsdpSettings ------------------------------------------------------------------------

static void on_put(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    struct error locked;
    if (!err && count == 0) {
        error_set(&locked, ERROR_CONFLICT,
                  "the shared configuration repository is locked, because a runtime has connected; delete all "
                  "runtimes of the account before it is changed");
        err = &locked;
    }
    pending->on_resolved(pending->arg, err, NULL);
}

static void resolve_update_settings(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str url = json_get_str(arguments, "gitApiUrl"), repo = json_get_str(arguments, "sharedConfigRepo");
    struct error err;
    enum error_code code = check_url(url, "gitApiUrl", &err);
    if (code == ERROR_NONE) code = check_url(repo, "sharedConfigRepo", &err);
    if (code != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    const char *account_id = request->principal.account_id;
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, account_id);
    pg_add(batch, account_settings_put, .account_id = pg_text(str_c(account_id)),
           .git_provider = pg_text(json_get_str(arguments, "gitProvider")), .git_api_url = pg_text(url),
           .repo = pg_text(repo));
    store_submit_count(batch, 0, on_put, api_pending_create(request, on_resolved, arg));
}

static void resolve_reset_settings(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const char *account_id = request->principal.account_id;
    (void)arguments;
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, account_id);
    pg_add(batch, account_settings_reset, .account_id = pg_text(str_c(account_id)));
    store_submit_count(batch, 0, on_put, api_pending_create(request, on_resolved, arg));
}

// ---- suggestIscRepo ----------------------------------------------------------------------------

static void on_suggested(void *arg, const struct error *err, struct str node)
{
    struct api_pending *pending = arg;
    struct error bad;
    json_t *row = NULL;
    err = api_decode_node(err, node, &row, &bad);
    json_t *repo = err ? NULL : json_incref(json_object_get(row, "repo"));
    json_decref(row);
    pending->on_resolved(pending->arg, err, repo);
}

static void resolve_suggest_repo(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str repo = json_get_str(arguments, "suggestedSharedConfigRepo");
    struct error err;
    enum error_code code = check_url(repo, "suggestedSharedConfigRepo", &err);
    if (code != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    const char *account_id = request->principal.account_id;
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, account_id);
    pg_add(batch, account_settings_suggest, .account_id = pg_text(str_c(account_id)), .repo = pg_text(repo));
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "the account does not exist", on_suggested,
                      api_pending_create(request, on_resolved, arg));
}

static void resolve_cli_release(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)ctx;
    (void)arguments;
    on_resolved(arg, NULL, NULL);
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "latestCliRelease", resolve_cli_release, .access = API_USERS},
    {GQL_MUTATION, "updateCsdpSettings", resolve_update_settings, .access = API_ADMINS},
    {GQL_MUTATION, "resetSharedConfigRepo", resolve_reset_settings, .access = API_ADMINS},
    {GQL_MUTATION, "suggestIscRepo", resolve_suggest_repo, .access = API_ADMINS},
};

const struct module module_accounts = {
    .name = "accounts",
    MODULE_LIST(resolvers, resolvers),
};
