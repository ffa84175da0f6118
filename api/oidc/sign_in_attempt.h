// sign_in_attempt: what a browser carries while its user is at the provider: a cookie, encrypted,
// with state, nonce and the verifier of PKCE. It binds the answer to the browser that asked, needs
// no row, and any replica takes it. Pure; any thread.
#ifndef CULVERT_API_OIDC_SIGN_IN_ATTEMPT_H
#define CULVERT_API_OIDC_SIGN_IN_ATTEMPT_H

#include "api/oidc/provider_settings.h"
#include "base/purpose_key.h"
#include "base/str.h"

#define SIGN_IN_ATTEMPT_COOKIE "__Host-culvert-sign-in"

enum { SIGN_IN_SECRET_BYTES = 44, SIGN_IN_PATH_BYTES_MAX = 512, SIGN_IN_COOKIE_BYTES = 4096 };

struct sign_in_attempt {
    char provider[PROVIDER_ID_BYTES_MAX + 1];
    char state[SIGN_IN_SECRET_BYTES], nonce[SIGN_IN_SECRET_BYTES], verifier[SIGN_IN_SECRET_BYTES];
    char path[SIGN_IN_PATH_BYTES_MAX + 1]; // where the user goes afterwards, below the base path
    int64_t ends_at_ms;                    // wall clock
};

// With new secrets. path: as sign_in_path_is_safe() has it.
void sign_in_attempt_init(struct sign_in_attempt *attempt, struct str provider, struct str path, int64_t ends_at_ms);
// code_challenge of S256.
void sign_in_attempt_challenge(const struct sign_in_attempt *attempt, char out[SIGN_IN_SECRET_BYTES]);
// The value of Set-Cookie, which the browser sends along when the provider sends it back (Lax).
// attempt NULL: the browser drops it.
void sign_in_attempt_write(const struct sign_in_attempt *attempt, const struct purpose_key *key, uint64_t max_age_s,
                           char out[SIGN_IN_COOKIE_BYTES]);
// From a Cookie field. False: not there, there twice, not ours, or ended.
bool sign_in_attempt_read(struct str cookie_field, const struct purpose_key *key, int64_t now_ms,
                          struct sign_in_attempt *out);
// A page of the web UI: "ui/...", so that no address leads elsewhere.
bool sign_in_path_is_safe(struct str path);

#endif
