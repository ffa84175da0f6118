// rules: the GraphQL fields by which admins manage the rules of their account. Resolvers; ctx is
// the api_request.
#ifndef CULVERT_MODULES_IDENTITY_RULES_H
#define CULVERT_MODULES_IDENTITY_RULES_H

#include "api/graphql/execution.h"
#include "base/error.h"

struct api_request;

// accountId of arguments or of a rule. ERROR_NOT_FOUND: it is not the caller's.
MUST_CHECK enum error_code rules_check_account(const struct api_request *request, const json_t *arguments,
                                               struct error *err);

void rules_resolve_list(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_get(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_create(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_update(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_remove(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_default_access(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_set_default_access(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);

#endif
