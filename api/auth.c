#include "api/auth.h"

#include <string.h>

#include "api/auth_cache.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/token.h"

// One question to the database. It outlives a destroyed auth (auth NULL then) until the database has let go of it.
struct lookup {
    struct api_auth *auth;
    struct lookup *next, **link;
    struct token token;
    uint64_t asked_ms;
    api_auth_done done;
    void *arg;
};

struct api_auth {
    struct pg *pg;
    uint64_t (*now_ms)(void);
    struct api_auth_cache *cache;
    struct lookup *lookups;
};

struct api_auth *api_auth_create(struct pg *pg, const struct api_auth_options *options)
{
    struct api_auth *auth = mem_zalloc(sizeof *auth);
    auth->pg = pg;
    auth->now_ms = options && options->now_ms ? options->now_ms : clock_mono_ms;
    auth->cache = api_auth_cache_create(options && options->ttl_ms ? options->ttl_ms : API_AUTH_TTL_MS);
    return auth;
}

static void lookup_unlink(struct lookup *lookup)
{
    *lookup->link = lookup->next;
    if (lookup->next) lookup->next->link = lookup->link;
    lookup->auth = NULL;
}

void api_auth_destroy(struct api_auth *auth)
{
    if (!auth) return;
    struct error err;
    error_set(&err, ERROR_CANCELLED, "the server is shutting down");
    while (auth->lookups) {
        struct lookup *lookup = auth->lookups;
        lookup_unlink(lookup);
        lookup->done(lookup->arg, &err, NULL);
    }
    api_auth_cache_destroy(auth->cache);
    mem_free(auth);
}

static void refuse(struct error *err)
{
    error_set(err, ERROR_UNAUTHENTICATED, "a valid API key or runtime token is required");
}

// What went wrong in the database is not the caller's business; its code tells the operator enough.
static void translate(const struct error *cause, struct error *out)
{
    switch (cause->code) {
    case ERROR_UNAUTHENTICATED: refuse(out); break;
    case ERROR_CANCELLED: error_set(out, ERROR_CANCELLED, "the server is shutting down"); break;
    case ERROR_INTERNAL: error_set(out, ERROR_INTERNAL, "the credential could not be checked"); break;
    default:
        error_set(out, ERROR_UNAVAILABLE, "the credential cannot be checked now (%s)", error_code_name(cause->code));
    }
}

static void on_authenticated(void *arg, const struct error *cause, const struct principal *found)
{
    struct lookup *lookup = arg;
    struct api_auth *auth = lookup->auth;
    struct error err = {0};
    struct api_principal principal;
    enum error_code code = ERROR_NONE;
    if (!auth) { // destroyed meanwhile; done has been called
        mem_free_secret(lookup, sizeof *lookup);
        return;
    }
    if (cause) {
        translate(cause, &err);
        code = err.code;
    } else {
        code = api_principal_from(found, &principal, &err);
    }
    if (code == ERROR_NONE)
        api_auth_cache_put(auth->cache, &lookup->token, &principal, lookup->asked_ms);
    else if (code == ERROR_UNAUTHENTICATED)
        api_auth_cache_drop(auth->cache, &lookup->token);
    lookup_unlink(lookup);
    api_auth_done done = lookup->done;
    void *done_arg = lookup->arg;
    mem_free_secret(lookup, sizeof *lookup);
    done(done_arg, code == ERROR_NONE ? NULL : &err, code == ERROR_NONE ? &principal : NULL);
}

static void look_up(struct api_auth *auth, const struct token *token, uint64_t now_ms, api_auth_done done, void *arg)
{
    struct lookup *lookup = mem_zalloc(sizeof *lookup);
    *lookup = (struct lookup){.auth = auth,
                              .next = auth->lookups,
                              .link = &auth->lookups,
                              .token = *token,
                              .asked_ms = now_ms,
                              .done = done,
                              .arg = arg};
    if (lookup->next) lookup->next->link = &lookup->next;
    auth->lookups = lookup;
    // Copies: the answer may come at once and take the lookup with it.
    identity_store_authenticate(auth->pg, token->id, token->secret_sha256, on_authenticated, lookup);
}

void api_auth_check(struct api_auth *auth, struct str authorization, struct str x_access_token, api_auth_done done,
                    void *arg)
{
    struct str credential = token_from_authorization(authorization);
    if (credential.len == 0) credential = str_trim(x_access_token);
    struct token token;
    struct error err = {0};
    if (token_parse(credential, &token, NULL) != ERROR_NONE) {
        refuse(&err);
        done(arg, &err, NULL);
        return;
    }
    uint64_t now_ms = auth->now_ms();
    const struct api_principal *known = api_auth_cache_find(auth->cache, &token, now_ms);
    if (known) {
        // By value: done may make a check of its own, which may overwrite the entry.
        struct api_principal principal = *known;
        done(arg, NULL, &principal);
    } else {
        look_up(auth, &token, now_ms, done, arg);
    }
    explicit_bzero(&token, sizeof token);
}
