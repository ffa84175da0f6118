// oidc_sign_in: REST routes of the sign-in at an identity provider (docs/security.md). Private to
// the module.
#ifndef CULVERT_MODULES_IDENTITY_OIDC_SIGN_IN_H
#define CULVERT_MODULES_IDENTITY_OIDC_SIGN_IN_H

#include "api/http/request.h"

// GET /api/auth/providers: what a sign-in page offers.
void oidc_sign_in_list(struct api_request *request);
// GET /api/auth/providers/{id}/start?return=ui/...: sends the browser to the provider.
void oidc_sign_in_start(struct api_request *request);
// GET /api/auth/providers/{id}/callback?code&state&iss: the provider sends it back.
// Opens a session. Whatever fails ends at the sign-in page, ui/sign-in?problem=WORD.
void oidc_sign_in_finish(struct api_request *request);

#endif
