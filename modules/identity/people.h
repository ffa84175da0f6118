// people: users, teams, API keys and sign-in links of an account through GraphQL. Who may ask for
// what stands in the table of identity.c. Private to the module.
#ifndef CULVERT_MODULES_IDENTITY_PEOPLE_H
#define CULVERT_MODULES_IDENTITY_PEOPLE_H

#include "api/graphql/execution.h"

void people_resolve_service_users(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_my_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_rename_team(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_delete_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_create_service_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_update_service_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_delete_service_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_users(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_teams(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_api_keys(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_my_api_keys(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_create_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_update_user(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_create_sign_in_link(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_create_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_create_my_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_revoke_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_revoke_my_api_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_create_team(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_delete_team(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_add_team_member(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void people_resolve_remove_team_member(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);

#endif
