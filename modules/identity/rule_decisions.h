// rule_decisions: what the caller, or another user, may do with objects, and why. Resolvers; ctx is
// the api_request.
#ifndef CULVERT_MODULES_IDENTITY_RULE_DECISIONS_H
#define CULVERT_MODULES_IDENTITY_RULE_DECISIONS_H

#include "api/graphql/execution.h"

void rules_resolve_permissions(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void rules_resolve_explain(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);

#endif
