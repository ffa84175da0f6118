// auth: who a request comes from. The credential is an API key or a runtime token in
// `Authorization`, raw (as Codefresh's clients send it) or behind "Bearer ", else in
// `x-access-token` (as browsers do), else a session's cookie (session_cookie.h). Owned by the API
// listener, one a loop; every call on it. A revoked credential stops within API_AUTH_TTL_MS: that
// long an answer is kept, and a question under way shared. (What it opened before is ended by
// server/chores/grants.h.)
#ifndef CULVERT_API_ACCESS_AUTH_H
#define CULVERT_API_ACCESS_AUTH_H

#include "api/access/access_rules.h"
#include "api/access/identity_store.h"
#include "api/access/principal.h"
#include "base/token.h"

enum { API_AUTH_TTL_MS = 1000 };

struct api_auth;

struct api_auth_options {
    // Runtime tokens that are in memory, so that they need no query and are known while the
    // database is away. ERROR_NOT_FOUND: this is none of them, ask the database. Any other code is
    // the answer. NULL: there are none.
    enum error_code (*find_runtime_token)(void *ctx, const struct token *token, struct api_principal *out,
                                          struct error *err);
    // The limits of failures: may a credential be looked at (ERROR_LIMITED: no; token NULL: it is
    // malformed), and: it was good, it was wrong (key_id is empty for a malformed one). NULL, all:
    // there are none.
    enum error_code (*check_failures)(void *ctx, struct str remote, const struct token *token, struct error *err);
    void (*note_success)(void *ctx, const struct token *token);
    void (*note_failure)(void *ctx, struct str remote, struct str key_id);
    void *ctx;
    uint64_t refused_ttl_ms;  // how long a refused credential is refused without a query; 0: not at all
    uint64_t ttl_ms;          // 0: API_AUTH_TTL_MS
    uint64_t (*now_ms)(void); // monotonic; NULL: clock_mono_ms
    // The database; NULL: identity_store_authenticate.
    void (*authenticate)(struct pg *pg, const char *token_id, const uint8_t sha256[ID_SHA256_BYTES],
                         principal_done on_done, void *arg);
};

// err NULL: principal is valid during the call (copy it). Else principal is NULL and err->code is
//   ERROR_UNAUTHENTICATED  no credential, malformed, unknown, wrong, expired or revoked: one wording for all
//   ERROR_LIMITED          too many failures from the same address, or of the same key id
//   ERROR_UNAVAILABLE      it cannot be checked now (the database is away, slow or full)
//   ERROR_CANCELLED        the server is shutting down
//   ERROR_INTERNAL         a defect of ours
typedef void (*api_auth_done)(void *arg, const struct error *err, const struct api_principal *principal);

// options may be NULL; it is copied.
struct api_auth *api_auth_create(struct pg *pg, const struct api_auth_options *options);
// After pg was closed nothing is outstanding. If something is, its done is called here with
// ERROR_CANCELLED. Not from inside a done. NULL is fine.
void api_auth_destroy(struct api_auth *auth);

// done is called exactly once: before this returns when the answer is known or there is nothing to
// look up, else later. Both values may be empty; they are not kept. remote: the client's numeric
// address, or empty. A credential that is good in memory passes whatever failed beside it.
void api_auth_check(struct api_auth *auth, struct str authorization, struct str x_access_token, struct str remote,
                    api_auth_done done, void *arg);
// The same for a token that the caller has parsed.
void api_auth_check_token(struct api_auth *auth, const struct token *token, struct str remote, api_auth_done done,
                          void *arg);

// What a request presents; views, all may be empty.
struct api_credentials {
    struct str authorization, x_access_token;
    struct str cookie;                     // the whole field, for when the others are empty
    struct str csrf_token, sec_fetch_site; // X-CSRF-Token and Sec-Fetch-Site
    bool needs_csrf_token;                 // with a cookie: the request may change something
};
// ERROR_FORBIDDEN besides: the cookie came without its CSRF token, or from another site.
void api_auth_check_credentials(struct api_auth *auth, const struct api_credentials *credentials, struct str remote,
                                api_auth_done done, void *arg);

// The rules that limit this principal, which a check gave at most API_AUTH_TTL_MS ago: a reference
// for the caller, or NULL: none do. ERROR_UNAVAILABLE: they are not known any more.
MUST_CHECK enum error_code api_auth_rules(struct api_auth *auth, const struct api_principal *principal,
                                          struct access_rules **out, struct error *err);

#endif
