#include "modules/identity/people.h"

#include <stdio.h>
#include <string.h>

#include "api/access/browser_session_store.h"
#include "api/access/scope.h"
#include "api/access/session_cookie.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "culvert_statements.h"
#include "modules/identity/browser_session_settings.h"
#include "storage/sql/store_call.h"

enum { LIST_MAX = 10000, NAME_BYTES_MAX = 200, EMAIL_BYTES_MAX = 320, SCOPES_BYTES_MAX = 256, NUMBER_BYTES = 24 };
#define KEY_LIFE_SECONDS_MAX 315360000 // ten years

#define ACCOUNT(request) pg_text(str_c((request)->principal.account_id))

static struct pg_batch *batch_of(const struct api_request *request)
{
    return pg_batch_create(request->api->options.pg, request->principal.account_id);
}

static enum error_code check_text(struct str text, const char *name, size_t bytes_max, struct error *err)
{
    if (str_trim(text).len && text.len <= bytes_max) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "%s: %zu bytes, must be 1 to %zu, not only spaces", name, text.len, bytes_max);
}

// ---- lists --------------------------------------------------------------------------------------

static void find_people(struct api_request *request, const json_t *arguments, bool is_service, gql_resolved on_resolved,
                        void *arg)
{
    int64_t page = json_get_int(arguments, "page", 1);
    char offset[NUMBER_BYTES];
    snprintf(offset, sizeof offset, "%lld", page > 1 ? (long long)(page - 1) * LIST_MAX : 0);
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, people_find, .account_id = ACCOUNT(request), .user_id = pg_text(json_get_str(arguments, "id")),
           .is_service = pg_bool(is_service), .offset = pg_text(str_c(offset)), .limit = pg_text(STR("10000")));
    store_submit_node(batch, 0, ERROR_NONE, NULL, api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void people_resolve_users(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    find_people(ctx, arguments, false, on_resolved, arg);
}

void people_resolve_service_users(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    find_people(ctx, arguments, true, on_resolved, arg);
}

void people_resolve_teams(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)arguments;
    struct api_request *request = ctx;
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, teams_list, .account_id = ACCOUNT(request), .limit = pg_text(STR("10000")));
    store_submit_node(batch, 0, ERROR_NONE, NULL, api_resolved_node, api_pending_create(request, on_resolved, arg));
}

static void list_keys(struct api_request *request, struct str user_id, gql_resolved on_resolved, void *arg)
{
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, api_keys_list, .account_id = ACCOUNT(request), .user_id = pg_text(user_id),
           .limit = pg_text(STR("10000")));
    store_submit_node(batch, 0, ERROR_NONE, NULL, api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void people_resolve_api_keys(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    list_keys(ctx, json_get_str(arguments, "userId"), on_resolved, arg);
}

void people_resolve_my_api_keys(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)arguments;
    struct api_request *request = ctx;
    list_keys(request, str_c(request->principal.user_id), on_resolved, arg);
}

static void get_key(struct api_request *request, struct str user_id, const json_t *arguments, gql_resolved on_resolved,
                    void *arg)
{
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, api_key_get, .account_id = ACCOUNT(request), .user_id = pg_text(user_id),
           .token_id = pg_text(json_get_str(arguments, "id")));
    store_submit_node(batch, 0, ERROR_NONE, NULL, api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void people_resolve_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    get_key(ctx, json_get_str(arguments, "userId"), arguments, on_resolved, arg);
}

void people_resolve_my_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    get_key(request, str_c(request->principal.user_id), arguments, on_resolved, arg);
}

// ---- users --------------------------------------------------------------------------------------

void people_resolve_create_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str name = json_get_str(arguments, "name"), email = json_get_str(arguments, "email");
    struct error err;
    enum error_code code = check_text(name, "name", NAME_BYTES_MAX, &err);
    if (code == ERROR_NONE && email.len > EMAIL_BYTES_MAX) code = check_text(email, "email", EMAIL_BYTES_MAX, &err);
    if (code != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    char user_id[ID_ACCOUNT_BYTES];
    id_account(user_id);
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, person_create, .account_id = ACCOUNT(request), .user_id = pg_text(str_c(user_id)),
           .name = pg_text(name), .email = pg_text(email), .role = pg_text(json_get_str(arguments, "role")),
           .is_service = pg_bool(json_get_bool(arguments, "isService", false)));
    store_submit_node(batch, 0, ERROR_NONE, NULL, api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void people_resolve_update_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    bool has_disabled = json_is_boolean(json_object_get(arguments, "isDisabled"));
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, person_update, .account_id = ACCOUNT(request), .user_id = pg_text(json_get_str(arguments, "id")),
           .role = pg_text_or_null(json_get_str(arguments, "role")),
           .is_disabled = has_disabled ? pg_bool(json_get_bool(arguments, "isDisabled", false)) : pg_null());
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "the user does not exist, or is the last admin of the account",
                      api_resolved_node, api_pending_create(request, on_resolved, arg));
}

// ---- credentials, shown once --------------------------------------------------------------------

// In the request's arena.
struct creation {
    struct api_pending *pending;
    const char *member; // under which the node stands; NULL: the node itself
    char text[TOKEN_TEXT_BYTES];
};

static void on_created(void *arg, const struct error *err, struct str node)
{
    struct creation *creation = arg;
    struct api_pending *pending = creation->pending;
    struct error bad;
    json_t *made, *value = NULL;
    err = api_decode_node(err, node, &made, &bad);
    if (!err && creation->member) {
        value = json_pack("{s:o, s:s}", creation->member, made, "token", creation->text);
    } else if (!err) {
        value = made;
        json_object_set_new(value, "token", json_string(creation->text));
    }
    explicit_bzero(creation->text, sizeof creation->text);
    pending->on_resolved(pending->arg, err, value);
}

static struct creation *creation_create(struct api_request *request, const char *member, gql_resolved on_resolved,
                                        void *arg)
{
    struct creation *creation = arena_alloc(request->arena, sizeof *creation);
    *creation = (struct creation){.pending = api_pending_create(request, on_resolved, arg), .member = member};
    return creation;
}

void people_resolve_create_sign_in_link(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct creation *creation = creation_create(request, NULL, on_resolved, arg);
    struct token link;
    sign_in_link_generate(&link, creation->text);
    sign_in_link_store_create(
        request->api->options.pg, request->principal.account_id, json_get_str(arguments, "userName"), &link,
        (uint64_t)browser_session_settings_of(request->api->options.config)->link_life_ms, on_created, creation);
}

static enum error_code take_scopes(const json_t *arguments, char out[SCOPES_BYTES_MAX], struct error *err)
{
    const json_t *list = json_get_array(arguments, "scopes"), *scope;
    size_t i, len = 1;
    unsigned had = 0;
    snprintf(out, SCOPES_BYTES_MAX, "[");
    json_array_foreach(list, i, scope)
    {
        unsigned bit = scope_bit(json_str(scope));
        if (!bit || had & bit)
            return error_set(err, ERROR_INVALID, "scopes[%zu]: must be read, write, calls or admin, each once", i);
        had |= bit;
        len +=
            (size_t)snprintf(out + len, SCOPES_BYTES_MAX - len, "%s\"%.*s\"", i ? "," : "", STR_ARG(json_str(scope)));
    }
    snprintf(out + len, SCOPES_BYTES_MAX - len, "]");
    return ERROR_NONE;
}

static void create_key(struct api_request *request, struct str user_id, const json_t *arguments,
                       gql_resolved on_resolved, void *arg)
{
    struct str name = json_get_str(arguments, "name");
    const json_t *life = json_object_get(arguments, "expiresInSeconds");
    char scopes[SCOPES_BYTES_MAX], life_text[NUMBER_BYTES];
    struct error err;
    enum error_code code = check_text(name, "name", NAME_BYTES_MAX, &err);
    if (code == ERROR_NONE) code = take_scopes(arguments, scopes, &err);
    json_int_t life_s = json_integer_value(life);
    if (code == ERROR_NONE && json_is_integer(life) && (life_s < 1 || life_s > KEY_LIFE_SECONDS_MAX))
        code = error_set(&err, ERROR_INVALID, "expiresInSeconds: must be between 1 and %d", KEY_LIFE_SECONDS_MAX);
    if (code != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    struct creation *creation = creation_create(request, "key", on_resolved, arg);
    struct token token;
    token_generate(&token, creation->text);
    snprintf(life_text, sizeof life_text, "%lld", (long long)life_s);
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, api_key_make, .account_id = ACCOUNT(request), .user_id = pg_text(user_id), .name = pg_text(name),
           .token_id = pg_text(str_c(token.id)), .secret_sha256 = pg_bytea(token.secret_sha256, ID_SHA256_BYTES),
           .scopes = pg_text(str_c(scopes)), .life_s = life_s ? pg_text(str_c(life_text)) : pg_null());
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "the user does not exist or is disabled", on_created, creation);
}

void people_resolve_create_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    create_key(ctx, json_get_str(arguments, "userId"), arguments, on_resolved, arg);
}

void people_resolve_create_my_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    create_key(request, str_c(request->principal.user_id), arguments, on_resolved, arg);
}

// ---- ends ---------------------------------------------------------------------------------------

// What is not there is as what another account has.
static void on_changed(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    struct error missing;
    if (!err && count == 0) {
        error_set(&missing, ERROR_NOT_FOUND, "%s", pending->name);
        err = &missing;
    }
    pending->on_resolved(pending->arg, err, err ? NULL : json_integer((json_int_t)count));
}

static void submit_change(struct api_request *request, struct pg_batch *batch, const char *missing,
                          gql_resolved on_resolved, void *arg)
{
    struct api_pending *pending = api_pending_create(request, on_resolved, arg);
    snprintf(pending->name, sizeof pending->name, "%s", missing);
    store_submit_count(batch, 0, on_changed, pending);
}

static void revoke_key(struct api_request *request, struct str user_id, const json_t *arguments,
                       gql_resolved on_resolved, void *arg)
{
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, api_key_end, .account_id = ACCOUNT(request), .user_id = pg_text(user_id),
           .token_id = pg_text(json_get_str(arguments, "id")));
    submit_change(request, batch, "there is no valid API key with this id", on_resolved, arg);
}

void people_resolve_revoke_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    revoke_key(ctx, json_get_str(arguments, "userId"), arguments, on_resolved, arg);
}

void people_resolve_revoke_my_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    revoke_key(request, str_c(request->principal.user_id), arguments, on_resolved, arg);
}

// ---- teams --------------------------------------------------------------------------------------

void people_resolve_create_team(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str name = json_get_str(arguments, "name");
    struct error err;
    if (check_text(name, "name", NAME_BYTES_MAX, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    char team_id[ID_ACCOUNT_BYTES];
    id_account(team_id);
    char *users = json_dumps(json_object_get(arguments, "userIds"), JSON_COMPACT);
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, team_create, .account_id = ACCOUNT(request), .team_id = pg_text(str_c(team_id)),
           .name = pg_text(name));
    pg_add(batch, team_fill, .account_id = ACCOUNT(request), .team_id = pg_text(str_c(team_id)),
           .user_ids = pg_text(str_c(users && *users == '[' ? users : "[]")));
    mem_free(users);
    pg_add(batch, team_get, .account_id = ACCOUNT(request), .team_id = pg_text(str_c(team_id)));
    store_submit_node(batch, 2, ERROR_NONE, NULL, api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void people_resolve_delete_team(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, team_delete, .account_id = ACCOUNT(request), .team_id = pg_text(json_get_str(arguments, "id")));
    submit_change(request, batch, "the team does not exist", on_resolved, arg);
}

static void submit_team(struct api_request *request, struct pg_batch *batch, struct str team_id,
                        gql_resolved on_resolved, void *arg)
{
    pg_add(batch, team_get, .account_id = ACCOUNT(request), .team_id = pg_text(team_id));
    store_submit_node(batch, 1, ERROR_NOT_FOUND, "the team does not exist", api_resolved_node,
                      api_pending_create(request, on_resolved, arg));
}

void people_resolve_rename_team(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str team_id = json_get_str(arguments, "id"), name = json_get_str(arguments, "name");
    struct error err;
    if (check_text(name, "name", NAME_BYTES_MAX, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, team_rename, .account_id = ACCOUNT(request), .team_id = pg_text(team_id), .name = pg_text(name));
    submit_team(request, batch, team_id, on_resolved, arg);
}

void people_resolve_add_team_member(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str team_id = json_get_str(arguments, "teamId");
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, team_add, .account_id = ACCOUNT(request), .team_id = pg_text(team_id),
           .user_id = pg_text(json_get_str(arguments, "userId")));
    submit_team(request, batch, team_id, on_resolved, arg);
}

void people_resolve_remove_team_member(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str team_id = json_get_str(arguments, "teamId");
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, team_remove, .account_id = ACCOUNT(request), .team_id = pg_text(team_id),
           .user_id = pg_text(json_get_str(arguments, "userId")));
    submit_team(request, batch, team_id, on_resolved, arg);
}
