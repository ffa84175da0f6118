// rules: the GraphQL fields by which admins manage the rules of their account. Resolvers; ctx is
// the api_request.
#ifndef CULVERT_MODULES_IDENTITY_RULES_H
#define CULVERT_MODULES_IDENTITY_RULES_H

#include "api/graphql/execution.h"

void rules_resolve_list(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_get(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_create(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_update(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_remove(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_default_access(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_set_default_access(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);

#endif
