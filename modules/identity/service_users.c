// Users that are programs, and the end of users.
#include <string.h>

#include "api/resolvers.h"
#include "base/mem.h"
#include "culvert_statements.h"
#include "modules/identity/people.h"
#include "storage/sql/store_call.h"

enum { NAME_BYTES_MAX = 200 };

#define ACCOUNT(request) pg_text(str_c((request)->principal.account_id))

static struct pg_batch *batch_of(const struct api_request *request)
{
    return pg_batch_create(request->api->options.pg, request->principal.account_id);
}

// ---- ends ---------------------------------------------------------------------------------------

static void on_deleted(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    struct error missing;
    if (!err && count == 0) {
        error_set(&missing, ERROR_NOT_FOUND, "the user does not exist, is the caller, or is the last admin");
        err = &missing;
    }
    pending->on_resolved(pending->arg, err, err ? NULL : json_integer((json_int_t)count));
}

static void delete_person(struct api_request *request, const json_t *arguments, bool is_service,
                          gql_resolved on_resolved, void *arg)
{
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, person_delete, .account_id = ACCOUNT(request), .user_id = pg_text(json_get_str(arguments, "id")),
           .name = pg_text(json_get_str(arguments, "name")), .caller = pg_text(str_c(request->principal.user_id)),
           .is_service = pg_bool(is_service));
    store_submit_count(batch, 0, on_deleted, api_pending_create(request, on_resolved, arg));
}

void people_resolve_delete_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct error err;
    if (!json_get_str(arguments, "id").len == !json_get_str(arguments, "name").len) {
        error_set(&err, ERROR_INVALID, "one of id and name must be given");
        on_resolved(arg, &err, NULL);
        return;
    }
    delete_person(ctx, arguments, false, on_resolved, arg);
}

void people_resolve_delete_service_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    delete_person(ctx, arguments, true, on_resolved, arg);
}

// ---- service users ------------------------------------------------------------------------------

static enum error_code check_name(struct str name, struct error *err)
{
    if (str_trim(name).len && name.len <= NAME_BYTES_MAX) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "name: %zu bytes, must be 1 to %d, not only spaces", name.len, NAME_BYTES_MAX);
}

// Its teams, then its node, which is the answer.
static void submit_service_user(struct api_request *request, struct pg_batch *batch, struct str user_id,
                                const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    const json_t *list = json_get_array(arguments, "teamIds");
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    struct pg_param teams = text ? pg_text(str_c(text)) : pg_null();
    struct pg_param is_admin = pg_bool(json_get_bool(arguments, "isAdmin", false));
    pg_add(batch, person_leave_teams, .account_id = ACCOUNT(request), .user_id = pg_text(user_id), .team_ids = teams,
           .is_admin = is_admin);
    pg_add(batch, person_join_teams, .account_id = ACCOUNT(request), .user_id = pg_text(user_id), .team_ids = teams,
           .is_admin = is_admin);
    pg_add(batch, service_user_get, .account_id = ACCOUNT(request), .user_id = pg_text(user_id), .is_admin = is_admin);
    mem_free(text);
    store_submit_node(batch, 3, ERROR_NOT_FOUND, "the service user does not exist, or is the last admin",
                      api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void people_resolve_create_service_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str name = json_get_str(arguments, "name");
    struct error err;
    if (check_name(name, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    char user_id[ID_ACCOUNT_BYTES];
    id_account(user_id);
    bool is_admin = json_get_bool(arguments, "isAdmin", false);
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, person_create, .account_id = ACCOUNT(request), .user_id = pg_text(str_c(user_id)),
           .name = pg_text(name), .email = pg_text(STR("")), .role = pg_text(is_admin ? STR("ADMIN") : STR("MEMBER")),
           .is_service = pg_bool(true));
    submit_service_user(request, batch, str_c(user_id), arguments, on_resolved, arg);
}

void people_resolve_update_service_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str id = json_get_str(arguments, "id"), name = json_get_str(arguments, "name");
    struct error err;
    if (name.len && check_name(name, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, service_user_change, .account_id = ACCOUNT(request), .user_id = pg_text(id),
           .name = pg_text_or_null(name), .is_admin = pg_bool(json_get_bool(arguments, "isAdmin", false)));
    submit_service_user(request, batch, id, arguments, on_resolved, arg);
}
