// sign_in: REST routes of browser sessions. A person opens one with a one-time link or an API key;
// lists, ends one, ends all. Private to the module.
#ifndef CULVERT_MODULES_IDENTITY_SIGN_IN_H
#define CULVERT_MODULES_IDENTITY_SIGN_IN_H

#include "api/http/request.h"

// /api/auth/session: POST opens one, GET gives the caller's, DELETE ends it.
void sign_in_session(struct api_request *request);
// /api/auth/sessions: GET lists those of the user, DELETE ends all.
void sign_in_sessions(struct api_request *request);
// /api/auth/sessions/{id}: DELETE ends it.
void sign_in_session_by_id(struct api_request *request);

#endif
