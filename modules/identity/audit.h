// audit: the field that reads the audit log. Private to the module.
#ifndef CULVERT_MODULES_IDENTITY_AUDIT_H
#define CULVERT_MODULES_IDENTITY_AUDIT_H

#include "api/graphql/execution.h"

void audit_resolve_entries(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);

#endif
