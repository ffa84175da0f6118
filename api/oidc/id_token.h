// id_token: is a token of this provider, for this client, valid now? Reads the provider's keys
// where they are not known, and again where the token names one that is not (a rotation).
#ifndef CULVERT_API_OIDC_ID_TOKEN_H
#define CULVERT_API_OIDC_ID_TOKEN_H

#include "api/oidc/identity_provider.h"

// claims: borrowed during the call; NULL with err: ERROR_UNAUTHENTICATED, or one of provider_done.
typedef void (*id_token_done)(void *arg, const struct error *err, const json_t *claims);

// Copies the texts. nonce: empty: none is expected. on_done once, at once or later.
void id_token_verify(struct identity_provider *provider, struct loop *loop, struct str token, struct str audience,
                     struct str nonce, id_token_done on_done, void *arg);

#endif
