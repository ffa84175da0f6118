// device_sign_in: a command line gets a key of the person who allows it in a browser (RFC 8628), and
// the metadata by which it finds where (RFC 8414). Private to the module.
#ifndef CULVERT_MODULES_IDENTITY_DEVICE_SIGN_IN_H
#define CULVERT_MODULES_IDENTITY_DEVICE_SIGN_IN_H

#include "api/graphql/execution.h"
#include "api/http/request.h"

// Routes. device_sign_in_token() answers POST /api/auth/token of this grant type.
void device_sign_in_begin(struct api_request *request);
void device_sign_in_token(struct api_request *request);
void device_sign_in_metadata(struct api_request *request);

// deviceAuthorization, decideDeviceAuthorization.
void device_sign_in_resolve_get(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void device_sign_in_resolve_decide(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);

#endif
