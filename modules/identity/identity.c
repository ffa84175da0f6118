#include "api/access/identity_store.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "modules/identity/audit.h"
#include "modules/identity/browser_session_settings.h"
#include "modules/identity/device_sign_in.h"
#include "modules/identity/oidc_sign_in.h"
#include "modules/identity/people.h"
#include "modules/identity/rule_decisions.h"
#include "modules/identity/rule_simulation.h"
#include "modules/identity/rules.h"
#include "modules/identity/sign_in.h"
#include "modules/identity/token_exchange.h"
#include "modules/module.h"

static void resolve_me(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)arguments;
    struct api_request *request = ctx;
    const struct api_principal *who = &request->principal;
    identity_store_me(request->api->options.pg, who->account_id, str_c(who->user_id), str_c(who->runtime),
                      api_resolved_node, api_pending_create(request, on_resolved, arg));
}

// ---- REST: GET /api/user -------------------------------------------------------------------------

// The classic shape of a user, made from that of GraphQL.
static json_t *classic_user(const json_t *me)
{
    json_t *accounts = json_array(), *account;
    size_t i;
    json_array_foreach(json_get_array(me, "accounts"), i, account)
    {
        json_t *id = json_object_get(account, "id");
        json_array_append_new(accounts,
                              json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?}", "_id", id, "id", id, "name",
                                        json_object_get(account, "name"), "admins", json_object_get(account, "admins"),
                                        "features", json_object_get(account, "features")));
    }
    json_t *roles = json_array();
    json_array_append_new(roles, json_string("User"));
    if (json_get_bool(me, "isAdmin", false)) json_array_append_new(roles, json_string("Admin"));
    json_t *image = json_object_get(me, "avatarUrl");
    return json_pack("{s:O?, s:O?, s:O?, s:o, s:O?, s:o, s:{s:O?}}", "_id", json_object_get(me, "id"), "userName",
                     json_object_get(me, "name"), "email", json_object_get(me, "email"), "account", accounts,
                     "activeAccountName", json_path(me, "activeAccount", "name", NULL), "roles", roles, "user_data",
                     "image", image);
}

static void on_me(void *arg, const struct error *err, struct str node)
{
    struct api_request *request = arg;
    json_t *me;
    struct error bad;
    err = api_decode_node(err, node, &me, &bad);
    if (err) {
        api_respond_error(request, err);
    } else if (!me) {
        api_respond_problem(request, 404, "not_found", "the user of this credential does not exist");
    } else {
        json_t *user = classic_user(me);
        json_decref(me);
        api_respond_json(request, 200, user);
    }
}

static void get_user(struct api_request *request)
{
    const struct api_principal *who = &request->principal;
    identity_store_me(request->api->options.pg, who->account_id, str_c(who->user_id), STR_EMPTY, on_me, request);
}

// ---- REST: GET /api/auth/authenticate ------------------------------------------------------------

// What a gateway asks before it lets a request through: who made it, as a header that it may hand
// on.
static void authenticate(struct api_request *request)
{
    const struct api_principal *who = &request->principal;
    bool is_user = who->kind == PRINCIPAL_USER;
    json_t *entity = json_pack("{s:s, s:s, s:s}", "type", is_user ? "user" : "runtime", "id",
                               is_user ? who->user_id : who->runtime_id, "accountId", who->account_id);
    char *text = json_dumps(entity, JSON_COMPACT);
    json_decref(entity);
    api_add_header(request, STR("x-cf-auth-entity"), str_c(text));
    mem_free(text);
    api_respond(request, 200, "application/json; charset=utf-8", STR("{}"));
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "me", resolve_me, .access = API_RUNTIMES_TOO},
    {GQL_QUERY, "users", people_resolve_users, .access = API_USERS},
    {GQL_QUERY, "teams", people_resolve_teams, .access = API_USERS},
    {GQL_QUERY, "apiKeys", people_resolve_api_keys, .access = API_ADMINS},
    {GQL_QUERY, "myApiKeys", people_resolve_my_api_keys, .access = API_OWN},
    {GQL_QUERY, "auditEntries", audit_resolve_entries, .access = API_ADMINS},
    {GQL_QUERY, "abacRules", rules_resolve_list, .access = API_ADMINS},
    {GQL_QUERY, "abacRule", rules_resolve_get, .access = API_ADMINS},
    {GQL_QUERY, "permissions", rules_resolve_permissions, .access = API_USERS},
    {GQL_QUERY, "explainPermissions", rules_resolve_explain, .access = API_ADMINS},
    {GQL_QUERY, "simulateAccessRules", rule_simulation_resolve, .access = API_ADMINS},
    {GQL_QUERY, "defaultAccess", rules_resolve_default_access, .access = API_USERS},
    {GQL_MUTATION, "createAbacRule", rules_resolve_create, .access = API_ADMINS, .is_strict = true},
    {GQL_MUTATION, "updateAbacRule", rules_resolve_update, .access = API_ADMINS, .is_strict = true},
    {GQL_MUTATION, "removeAbacRule", rules_resolve_remove, .access = API_ADMINS, .is_strict = true},
    {GQL_MUTATION, "setDefaultAccess", rules_resolve_set_default_access, .access = API_ADMINS},
    {GQL_QUERY, "serviceUsers", people_resolve_service_users, .access = API_USERS},
    {GQL_QUERY, "apiKey", people_resolve_api_key, .access = API_ADMINS},
    {GQL_QUERY, "myApiKey", people_resolve_my_api_key, .access = API_OWN},
    {GQL_MUTATION, "deleteUser", people_resolve_delete_user, .access = API_ADMINS},
    {GQL_MUTATION, "createServiceUser", people_resolve_create_service_user, .access = API_ADMINS},
    {GQL_MUTATION, "updateServiceUser", people_resolve_update_service_user, .access = API_ADMINS},
    {GQL_MUTATION, "deleteServiceUser", people_resolve_delete_service_user, .access = API_ADMINS},
    {GQL_MUTATION, "renameTeam", people_resolve_rename_team, .access = API_ADMINS},
    {GQL_MUTATION, "createUser", people_resolve_create_user, .access = API_ADMINS},
    {GQL_MUTATION, "updateUser", people_resolve_update_user, .access = API_ADMINS},
    {GQL_MUTATION, "createSignInLink", people_resolve_create_sign_in_link, .access = API_ADMINS},
    {GQL_MUTATION, "createApiKey", people_resolve_create_api_key, .access = API_ADMINS},
    {GQL_MUTATION, "createMyApiKey", people_resolve_create_my_api_key, .access = API_OWN},
    {GQL_MUTATION, "revokeApiKey", people_resolve_revoke_api_key, .access = API_ADMINS},
    {GQL_MUTATION, "revokeMyApiKey", people_resolve_revoke_my_api_key, .access = API_OWN},
    {GQL_QUERY, "deviceAuthorization", device_sign_in_resolve_get, .access = API_OWN},
    {GQL_MUTATION, "decideDeviceAuthorization", device_sign_in_resolve_decide, .access = API_OWN},
    {GQL_MUTATION, "createTeam", people_resolve_create_team, .access = API_ADMINS},
    {GQL_MUTATION, "deleteTeam", people_resolve_delete_team, .access = API_ADMINS},
    {GQL_MUTATION, "addTeamMember", people_resolve_add_team_member, .access = API_ADMINS},
    {GQL_MUTATION, "removeTeamMember", people_resolve_remove_team_member, .access = API_ADMINS},
};

static const struct api_route routes[] = {
    {"/api/user", "GET", API_USER, API_NO_BODY, get_user},
    {"/api/auth/authenticate", "GET", API_USER_OR_RUNTIME, API_NO_BODY, authenticate},
    {"/api/auth/providers", "GET", API_ANYBODY, API_NO_BODY, oidc_sign_in_list},
    {"/api/auth/providers/{id}/start", "GET", API_ANYBODY, API_NO_BODY, oidc_sign_in_start},
    {"/api/auth/providers/{id}/callback", "GET", API_ANYBODY, API_NO_BODY, oidc_sign_in_finish},
    {"/.well-known/oauth-authorization-server", "GET", API_ANYBODY, API_NO_BODY, device_sign_in_metadata},
    {"/api/auth/device", "POST", API_ANYBODY, API_FORM_BODY, device_sign_in_begin},
    {"/api/auth/token", "POST", API_ANYBODY, API_FORM_BODY, token_exchange},
    {"/api/auth/session", "POST", API_ANYBODY, API_JSON_BODY, sign_in_session},
    {"/api/auth/session", "GET, DELETE", API_USER_OWN, API_NO_BODY, sign_in_session},
    {"/api/auth/sessions", "GET, DELETE", API_USER_OWN, API_NO_BODY, sign_in_sessions},
    {"/api/auth/sessions/{id}", "DELETE", API_USER_OWN, API_NO_BODY, sign_in_session_by_id},
};

const struct module module_identity = {
    .name = "identity",
    MODULE_LIST(resolvers, resolvers),
    MODULE_LIST(routes, routes),
    .settings = &browser_session_settings_section,
};
