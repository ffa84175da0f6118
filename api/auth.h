// auth: who a request comes from. The credential is an API key or a runtime token in `Authorization`, raw (as
// Codefresh's clients send it) or behind "Bearer ", else in `x-access-token` (as browsers do). Owned by the API door,
// one a loop; every call on it. A revoked credential stops within API_AUTH_TTL_MS: that long an answer is kept, and a
// question under way shared. (What it opened before is ended by server/grants.h.)
#ifndef CULVERT_API_AUTH_H
#define CULVERT_API_AUTH_H

#include "api/principal.h"

enum { API_AUTH_TTL_MS = 1000 };

struct api_auth;

struct api_auth_options {
    uint64_t ttl_ms;          // 0: API_AUTH_TTL_MS
    uint64_t (*now_ms)(void); // monotonic; NULL: clock_mono_ms
};

// err NULL: principal is valid during the call (copy it). Else principal is NULL and err->code is
//   ERROR_UNAUTHENTICATED  no credential, malformed, unknown, wrong, expired or revoked: one wording for all
//   ERROR_UNAVAILABLE      it cannot be checked now (the database is away, slow or full)
//   ERROR_CANCELLED        the server is shutting down
//   ERROR_INTERNAL         a defect of ours
typedef void (*api_auth_done)(void *arg, const struct error *err, const struct api_principal *principal);

// options may be NULL; it is copied.
struct api_auth *api_auth_create(struct pg *pg, const struct api_auth_options *options);
// After pg was closed nothing is outstanding. If something is, its done is called here with ERROR_CANCELLED. Not from
// inside a done. NULL is fine.
void api_auth_destroy(struct api_auth *auth);

// done is called exactly once: before this returns when the answer is known or there is nothing to look up, else later.
// Both values may be empty; they are not kept.
void api_auth_check(struct api_auth *auth, struct str authorization, struct str x_access_token, api_auth_done done,
                    void *arg);

#endif
