// jwt: a signed JSON Web Token (RFC 7519) in its compact form: its signature, then its claims.
// What is accepted is narrow (RFC 8725): algorithms of a list, no critical extensions, a key of the
// issuer's own set. Pure; any thread.
#ifndef CULVERT_API_OIDC_JWT_H
#define CULVERT_API_OIDC_JWT_H

#include <jansson.h>

#include "api/oidc/jwk_set.h"

enum { JWT_BYTES_MAX = 16 * 1024 };

// Parsed, not yet verified; owns its parts.
struct jwt {
    enum jwk_algorithm algorithm;
    json_t *header, *claims;
    struct str signing_input; // a view of the text
    uint8_t signature[1024];
    size_t signature_len;
};

// ERROR_UNAUTHENTICATED: too long, not of the form, or of an algorithm that is not in `algorithms`
// (enum jwk_algorithm, or-ed). The text must outlive out.
MUST_CHECK enum error_code jwt_parse(struct str text, unsigned algorithms, struct jwt *out, struct error *err);
void jwt_finish(struct jwt *jwt);
// ERROR_NOT_FOUND: the set does not have the key, so that a newer set may. ERROR_UNAUTHENTICATED:
// the signature is wrong.
MUST_CHECK enum error_code jwt_verify(const struct jwt *jwt, const struct jwk_set *keys, struct error *err);

struct jwt_expected {
    struct str issuer, audience;
    struct str nonce; // empty: any, or none
    int64_t now_s, skew_s;
    int64_t age_max_s; // since iat; 0: any
};

// iss, aud, azp (where there are several audiences, or it is there), exp, iat, nbf, nonce and sub
// as OpenID Connect Core section 3.1.3.7 has them. The error names the claim and no value of it.
MUST_CHECK enum error_code jwt_check_claims(const json_t *claims, const struct jwt_expected *expected,
                                            struct error *err);
// The claim of that name, or, where the name begins with '/', that of a JSON Pointer (RFC 6901).
// Borrowed; NULL: not there.
json_t *jwt_claim(const json_t *claims, struct str name);
// Has claims each of `wanted`, an object: claim -> text, or list of texts of which one will do?
bool jwt_claims_fit(const json_t *claims, const json_t *wanted);
// Is claim, or has it, one of the texts of wanted, a text or a list?
bool jwt_claim_fits(const json_t *claim, const json_t *wanted);
// Is text the value, or an element of it where it is a list?
bool jwt_claim_has(const json_t *claim, struct str text);

#endif
