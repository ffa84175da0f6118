// A JSON Web Key Set and, after a newline, a token: what is refused has a reason, what verifies no
// longer does with one bit of its signature changed, and claims are read without an assumption of
// their types.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <string.h>

#include "api/oidc/jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check_claims(const json_t *claims)
{
    const struct jwt_expected any = {.issuer = STR("https://issuer.example"), .audience = STR("culvert"), .now_s = 1},
                              narrow = {.issuer = STR("https://issuer.example"),
                                        .audience = STR("culvert"),
                                        .nonce = STR("n"),
                                        .now_s = 1800000000,
                                        .skew_s = 60,
                                        .age_max_s = 3600};
    const char *name;
    json_t *claim;
    struct error err = {0};
    if (jwt_check_claims(claims, &any, &err) != ERROR_NONE) assert(err.text[0] != '\0');
    if (jwt_check_claims(claims, &narrow, &err) != ERROR_NONE) assert(err.text[0] != '\0');
    json_object_foreach((json_t *)claims, name, claim)
    {
        if (name[0] != '/') assert(jwt_claim(claims, str_c(name)) == claim);
        (void)jwt_claim(claims, json_is_string(claim) ? str_c(json_string_value(claim)) : STR("/a/b"));
        (void)jwt_claim_has(claim, STR("culvert"));
    }
    (void)jwt_claims_fit(claims, claims);
}

static void check_signature(struct jwt *jwt, const struct jwk_set *keys)
{
    struct error err = {0};
    if (jwt_verify(jwt, keys, &err) != ERROR_NONE) {
        assert(err.code == ERROR_NOT_FOUND || err.code == ERROR_UNAUTHENTICATED);
        assert(err.text[0] != '\0');
        return;
    }
    assert(jwt->signature_len > 0);
    jwt->signature[jwt->signature_len / 3] ^= 1;
    assert(jwt_verify(jwt, keys, &err) == ERROR_UNAUTHENTICATED);
}

static void check_keys(const struct jwk_set *keys)
{
    for (unsigned algorithm = JWK_RS256; algorithm <= JWK_EDDSA; algorithm <<= 1) {
        (void)jwk_set_find(keys, STR_EMPTY, (enum jwk_algorithm)algorithm);
        assert(!jwk_set_find(keys, STR("no such key"), (enum jwk_algorithm)algorithm));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct str token = str_of((const char *)at, len), set = STR_EMPTY;
    struct jwk_set *keys = NULL;
    struct jwt jwt;
    struct error err = {0};
    (void)str_cut(&token, '\n', &set);
    if (jwk_set_parse(set, &keys, &err) != ERROR_NONE) assert(err.code == ERROR_INVALID && err.text[0] != '\0');
    if (keys) check_keys(keys);
    if (jwt_parse(token, JWK_ALL, &jwt, &err) != ERROR_NONE) {
        assert(err.code == ERROR_UNAUTHENTICATED && err.text[0] != '\0');
    } else {
        assert(jwt.signing_input.at == token.at && jwt.signing_input.len < token.len);
        check_claims(jwt.claims);
        if (keys) check_signature(&jwt, keys);
        jwt_finish(&jwt);
    }
    jwk_set_unref(keys);
    return 0;
}
