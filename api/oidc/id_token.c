#include "api/oidc/id_token.h"

#include "api/oidc/jwt.h"
#include "base/clock.h"
#include "base/mem.h"

// An ID token is of this sign-in, which takes no longer.
enum { AGE_MAX_S = 3600 };

struct verification {
    struct identity_provider *provider;
    struct loop *loop;
    char *token, *audience, *nonce;
    struct jwt jwt;
    bool has_read_newer;
    id_token_done on_done;
    void *arg;
};

static void finish(struct verification *verification, const struct error *err)
{
    verification->on_done(verification->arg, err, err ? NULL : verification->jwt.claims);
    jwt_finish(&verification->jwt);
    mem_free_secret(verification->token, strlen(verification->token));
    mem_free(verification->audience);
    mem_free(verification->nonce);
    mem_free(verification);
}

static void on_keys(void *arg, const struct error *err)
{
    struct verification *verification = arg;
    struct identity_provider *provider = verification->provider;
    const struct identity_provider_options *options = identity_provider_options(provider);
    struct jwk_set *keys = err ? NULL : identity_provider_keys(provider);
    struct error bad;
    if (err && err->code == ERROR_LIMITED && verification->has_read_newer) {
        error_set(&bad, ERROR_UNAUTHENTICATED, "the token names a key (kid) that its issuer does not have");
        err = &bad;
    }
    if (!keys) {
        finish(verification, err);
        return;
    }
    enum error_code code = jwt_verify(&verification->jwt, keys, &bad);
    jwk_set_unref(keys);
    if (code == ERROR_NOT_FOUND && !verification->has_read_newer) {
        verification->has_read_newer = true;
        identity_provider_read(provider, verification->loop, PROVIDER_NEWER_KEYS, on_keys, verification);
        return;
    }
    const struct jwt_expected expected = {.issuer = str_c(options->settings->issuer),
                                          .audience = str_c(verification->audience),
                                          .nonce = str_c(verification->nonce),
                                          .now_s = clock_wall_ms() / 1000,
                                          .skew_s = options->clock_skew_s,
                                          .age_max_s = AGE_MAX_S};
    if (code == ERROR_NONE) code = jwt_check_claims(verification->jwt.claims, &expected, &bad);
    if (code == ERROR_NOT_FOUND) bad.code = ERROR_UNAUTHENTICATED;
    finish(verification, code == ERROR_NONE ? NULL : &bad);
}

void id_token_verify(struct identity_provider *provider, struct loop *loop, struct str token, struct str audience,
                     struct str nonce, id_token_done on_done, void *arg)
{
    struct verification *verification = mem_zalloc(sizeof *verification);
    struct error err;
    verification->provider = provider;
    verification->loop = loop;
    verification->token = mem_strndup(token.at, token.len);
    verification->audience = mem_strndup(audience.at, audience.len);
    verification->nonce = mem_strndup(nonce.at, nonce.len);
    verification->on_done = on_done;
    verification->arg = arg;
    unsigned algorithms = identity_provider_options(provider)->settings->algorithms;
    if (jwt_parse(str_of(verification->token, token.len), algorithms, &verification->jwt, &err) != ERROR_NONE)
        finish(verification, &err);
    else
        identity_provider_read(provider, loop, PROVIDER_KEYS, on_keys, verification);
}
