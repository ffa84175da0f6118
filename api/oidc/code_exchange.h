// code_exchange: an authorisation code becomes the claims of an ID token (OpenID Connect Core
// section 3.1.3, with PKCE, RFC 7636).
#ifndef CULVERT_API_OIDC_CODE_EXCHANGE_H
#define CULVERT_API_OIDC_CODE_EXCHANGE_H

#include "api/oidc/id_token.h"

struct code_exchange_request {
    struct str code, verifier, redirect_uri, nonce;
};

// Copies the texts. on_done once, at once or later. ERROR_UNAUTHENTICATED: the provider refuses the
// code, or its token is not valid.
void code_exchange(struct identity_provider *provider, struct loop *loop, const struct code_exchange_request *request,
                   id_token_done on_done, void *arg);

// Adds text as a value of application/x-www-form-urlencoded, or of a query.
void code_exchange_escape(struct strbuf *out, struct str text);

#endif
