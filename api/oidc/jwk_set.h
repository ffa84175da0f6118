// jwk_set: the public keys of an issuer, from a JSON Web Key Set (RFC 7517), as far as they verify
// signatures: RSA of 2,048 to 8,192 bits, P-256 and Ed25519. Other keys are left out. Immutable and
// counted: loops share it.
#ifndef CULVERT_API_OIDC_JWK_SET_H
#define CULVERT_API_OIDC_JWK_SET_H

#include <openssl/evp.h>

#include "base/error.h"
#include "base/str.h"

enum { JWK_SET_KEYS_MAX = 64, JWK_ID_BYTES_MAX = 256 };

// As in the header of a JWS (RFC 7518 section 3.1, RFC 8037).
enum jwk_algorithm { JWK_RS256 = 1, JWK_PS256 = 2, JWK_ES256 = 4, JWK_EDDSA = 8, JWK_ALL = 15 };

struct jwk_set;

// ERROR_INVALID: not a key set, or none of its keys is of use.
MUST_CHECK enum error_code jwk_set_parse(struct str text, struct jwk_set **out, struct error *err);
struct jwk_set *jwk_set_ref(struct jwk_set *set);
void jwk_set_unref(struct jwk_set *set); // NULL is fine

// The key that verifies this algorithm: of that id, or, without an id, the only one. Borrowed;
// NULL: none fits, or several without an id.
EVP_PKEY *jwk_set_find(const struct jwk_set *set, struct str id, enum jwk_algorithm algorithm);
// 0: not one that is accepted ("none", HS256 and all others).
enum jwk_algorithm jwk_algorithm_of(struct str name);

#endif
