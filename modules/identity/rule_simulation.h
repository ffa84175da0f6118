// rule_simulation: what users would gain and lose by a change of rules, computed by the decision
// that requests get (api/access/access_rules.h), application by application. Stores nothing.
// Resolver; ctx is the api_request.
#ifndef CULVERT_MODULES_IDENTITY_RULE_SIMULATION_H
#define CULVERT_MODULES_IDENTITY_RULE_SIMULATION_H

#include "api/graphql/execution.h"

void rule_simulation_resolve(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);

#endif
