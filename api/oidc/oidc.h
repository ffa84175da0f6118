// oidc: sign-in at identity providers (OpenID Connect Core 1.0, the code flow with PKCE): the
// providers of the settings, the client that asks them, the key of attempts. One a process, for all
// loops.
#ifndef CULVERT_API_OIDC_OIDC_H
#define CULVERT_API_OIDC_OIDC_H

#include "api/oidc/identity_provider.h"
#include "api/oidc/sign_in_settings.h"
#include "base/purpose_key.h"

struct oidc;

// platform_url: as browsers reach the API. key: of attempts. Both are copied.
// ERROR_INVALID: the file of providers is not right.
MUST_CHECK enum error_code oidc_create(const struct sign_in_settings *settings, const char *platform_url,
                                       const struct purpose_key *key, struct oidc **out, struct error *err);
void oidc_destroy(struct oidc *oidc); // once all loops have ended; NULL is fine

size_t oidc_count(const struct oidc *oidc);
struct identity_provider *oidc_at(const struct oidc *oidc, size_t i);
struct identity_provider *oidc_find(const struct oidc *oidc, struct str id); // or NULL
const char *oidc_platform_url(const struct oidc *oidc);                      // ends with a slash
const struct sign_in_settings *oidc_settings(const struct oidc *oidc);
const struct purpose_key *oidc_key(const struct oidc *oidc);

#endif
