#include "api/access/auth.h"

#include <stdio.h>
#include <string.h>

#include "api/access/auth_cache.h"
#include "api/access/rule_set_cache.h"
#include "api/access/rule_set_store.h"
#include "api/access/session_cookie.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/token.h"

// Lookups at once, of credentials that nobody knows yet to be good; more are told to come again.
enum { LOOKUPS_MAX = 256, REMOTE_BYTES = 64, REFUSED_ENTRIES = 4096 };

// A credential that was refused a moment ago, so that a client which goes on with it costs no
// queries. Its place is chosen by the hash of its secret; one that takes another's place costs that
// one a query.
struct refused {
    char id[TOKEN_ID_BYTES];
    uint8_t secret_sha256[ID_SHA256_BYTES];
    uint64_t until_ms;
};

// A check that waits for an answer.
struct waiter {
    struct waiter *next;
    char remote[REMOTE_BYTES];
    api_auth_done done;
    void *arg;
};

// One question to the database, and all who want to know: a reporter that sends many requests at
// once asks once. It outlives a destroyed auth (auth NULL then) until the database has let go of
// it.
struct lookup {
    struct api_auth *auth;
    struct lookup *next, **link;
    struct token token;
    uint64_t asked_ms;
    struct api_principal principal; // when it is known and its rules are asked for
    struct waiter *first, *last;
};

struct api_auth {
    struct api_auth_options options;
    struct pg *pg;
    uint64_t (*now_ms)(void);
    uint64_t ttl_ms;
    struct api_auth_cache *cache;
    struct rule_set_cache *rule_sets;
    struct lookup *lookups;
    size_t lookup_count;
    struct refused *refused; // REFUSED_ENTRIES; NULL: nothing is remembered
};

struct api_auth *api_auth_create(struct pg *pg, const struct api_auth_options *options)
{
    struct api_auth *auth = mem_zalloc(sizeof *auth);
    if (options) auth->options = *options;
    auth->pg = pg;
    auth->now_ms = options && options->now_ms ? options->now_ms : clock_mono_ms;
    if (!auth->options.authenticate) auth->options.authenticate = identity_store_authenticate;
    auth->ttl_ms = options && options->ttl_ms ? options->ttl_ms : API_AUTH_TTL_MS;
    auth->cache = api_auth_cache_create(auth->ttl_ms);
    auth->rule_sets = rule_set_cache_create();
    if (auth->options.refused_ttl_ms) auth->refused = mem_array(REFUSED_ENTRIES, sizeof *auth->refused);
    return auth;
}

static void lookup_unlink(struct lookup *lookup)
{
    lookup->auth->lookup_count--;
    *lookup->link = lookup->next;
    if (lookup->next) lookup->next->link = lookup->link;
    lookup->auth = NULL;
}

static void add_waiter(struct lookup *lookup, struct str remote, api_auth_done done, void *arg)
{
    struct waiter *waiter = mem_alloc(sizeof *waiter);
    *waiter = (struct waiter){.done = done, .arg = arg};
    snprintf(waiter->remote, sizeof waiter->remote, "%.*s", STR_ARG(remote));
    if (lookup->last)
        lookup->last->next = waiter;
    else
        lookup->first = waiter;
    lookup->last = waiter;
}

// Each takes its own: what a callback begins anew has nothing to do with those that are still to be
// told.
static void tell_all(struct waiter *first, const struct error *err, const struct api_principal *principal)
{
    for (struct waiter *waiter = first, *next; waiter; waiter = next) {
        next = waiter->next;
        waiter->done(waiter->arg, err, principal);
        mem_free(waiter);
    }
}

void api_auth_destroy(struct api_auth *auth)
{
    if (!auth) return;
    struct error err;
    error_set(&err, ERROR_CANCELLED, "the server is shutting down");
    while (auth->lookups) {
        struct lookup *lookup = auth->lookups;
        struct waiter *first = lookup->first;
        lookup->first = lookup->last = NULL;
        lookup_unlink(lookup);
        tell_all(first, &err, NULL);
    }
    api_auth_cache_destroy(auth->cache);
    rule_set_cache_destroy(auth->rule_sets);
    mem_free(auth->refused);
    mem_free(auth);
}

static void refuse(struct error *err)
{
    error_set(err, ERROR_UNAUTHENTICATED, "a valid API key, runtime token or session is required");
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

// ---- what was refused ----------------------------------------------------------------------------------------------

static struct refused *refused_place(const struct api_auth *auth, const struct token *token)
{
    uint32_t number;
    memcpy(&number, token->secret_sha256, sizeof number);
    return &auth->refused[number % REFUSED_ENTRIES];
}

static bool was_refused(const struct api_auth *auth, const struct token *token, uint64_t now_ms)
{
    if (!auth->refused) return false;
    const struct refused *refused = refused_place(auth, token);
    return now_ms < refused->until_ms && str_eq(str_c(refused->id), str_c(token->id)) &&
           str_eq_secret(str_of((const char *)refused->secret_sha256, ID_SHA256_BYTES),
                         str_of((const char *)token->secret_sha256, ID_SHA256_BYTES));
}

static void note_failure(const struct api_auth *auth, const char *remote, const char *key_id)
{
    if (auth->options.note_failure) auth->options.note_failure(auth->options.ctx, str_c(remote), str_c(key_id));
}

static void note_refusals(struct api_auth *auth, const struct lookup *lookup)
{
    api_auth_cache_drop(auth->cache, &lookup->token);
    for (const struct waiter *waiter = lookup->first; waiter; waiter = waiter->next)
        note_failure(auth, waiter->remote, lookup->token.id);
    if (!auth->refused) return;
    struct refused *refused = refused_place(auth, &lookup->token);
    refused->until_ms = lookup->asked_ms + auth->options.refused_ttl_ms;
    memcpy(refused->id, lookup->token.id, sizeof refused->id);
    memcpy(refused->secret_sha256, lookup->token.secret_sha256, sizeof refused->secret_sha256);
}

// Ends the lookup. err NULL: its principal was found.
static void answer_lookup(struct lookup *lookup, const struct error *err)
{
    struct api_auth *auth = lookup->auth;
    const struct api_principal principal = lookup->principal;
    if (!err) {
        api_auth_cache_put(auth->cache, &lookup->token, &principal, lookup->asked_ms);
        if (auth->options.note_success) auth->options.note_success(auth->options.ctx, &lookup->token);
    } else if (err->code == ERROR_UNAUTHENTICATED) {
        note_refusals(auth, lookup);
    }
    lookup_unlink(lookup);
    struct waiter *first = lookup->first;
    mem_free_secret(lookup, sizeof *lookup);
    tell_all(first, err, err ? NULL : &principal);
}

// The set may have changed since the credential was looked at: it goes by its name of now.
static void on_rules(void *arg, const struct error *cause, struct access_rules *rules, struct str name)
{
    struct lookup *lookup = arg;
    struct api_principal *principal = &lookup->principal;
    struct error err;
    if (!lookup->auth) { // destroyed meanwhile; done has been called
        access_rules_unref(rules);
        mem_free_secret(lookup, sizeof *lookup);
        return;
    }
    if (!cause && (name.len == 0 || name.len >= sizeof principal->rule_set)) {
        error_set(&err, ERROR_INTERNAL, "the rules of the account have no name");
        cause = &err;
    }
    if (!cause) {
        snprintf(principal->rule_set, sizeof principal->rule_set, "%.*s", STR_ARG(name));
        rule_set_cache_put(lookup->auth->rule_sets, str_c(principal->account_id), name, rules);
        access_rules_unref(rules);
        answer_lookup(lookup, NULL);
        return;
    }
    access_rules_unref(rules);
    translate(cause, &err);
    answer_lookup(lookup, &err);
}

static void on_authenticated(void *arg, const struct error *cause, const struct principal *found)
{
    struct lookup *lookup = arg;
    struct api_auth *auth = lookup->auth;
    struct api_principal *principal = &lookup->principal;
    struct error err = {0};
    if (!auth) { // destroyed meanwhile; done has been called
        mem_free_secret(lookup, sizeof *lookup);
        return;
    }
    enum error_code code = ERROR_NONE;
    if (cause)
        translate(cause, &err);
    else
        code = api_principal_from(found, principal, &err);
    if (cause || code != ERROR_NONE) {
        answer_lookup(lookup, &err);
    } else if (principal->rule_set[0] &&
               !rule_set_cache_find(auth->rule_sets, str_c(principal->account_id), str_c(principal->rule_set))) {
        rule_set_store_load(auth->pg, str_c(principal->account_id), str_c(principal->user_id), on_rules, lookup);
    } else {
        answer_lookup(lookup, NULL);
    }
}

enum error_code api_auth_rules(struct api_auth *auth, const struct api_principal *principal, struct access_rules **out,
                               struct error *err)
{
    struct access_rules *rules = NULL;
    if (principal->rule_set[0]) {
        rules = rule_set_cache_find(auth->rule_sets, str_c(principal->account_id), str_c(principal->rule_set));
        if (!rules) return error_set(err, ERROR_UNAVAILABLE, "the rules of the account are not known now, try again");
    }
    *out = access_rules_ref(rules);
    return ERROR_NONE;
}

// A question under way about exactly this credential, not older than an answer may be.
static struct lookup *find_lookup(const struct api_auth *auth, const struct token *token, uint64_t now_ms)
{
    struct str secret = str_of((const char *)token->secret_sha256, sizeof token->secret_sha256);
    for (struct lookup *lookup = auth->lookups; lookup; lookup = lookup->next) {
        struct str asked = str_of((const char *)lookup->token.secret_sha256, sizeof lookup->token.secret_sha256);
        if (str_eq(str_c(lookup->token.id), str_c(token->id)) && str_eq_secret(asked, secret))
            return now_ms - lookup->asked_ms < auth->ttl_ms ? lookup : NULL;
    }
    return NULL;
}

static void look_up(struct api_auth *auth, const struct token *token, struct str remote, uint64_t now_ms,
                    api_auth_done done, void *arg)
{
    struct lookup *lookup = find_lookup(auth, token, now_ms);
    if (lookup) {
        add_waiter(lookup, remote, done, arg);
        return;
    }
    if (auth->lookup_count >= LOOKUPS_MAX) {
        struct error err;
        error_set(&err, ERROR_UNAVAILABLE, "too many credentials are being checked");
        done(arg, &err, NULL);
        return;
    }
    auth->lookup_count++;
    lookup = mem_zalloc(sizeof *lookup);
    *lookup = (struct lookup){
        .auth = auth, .next = auth->lookups, .link = &auth->lookups, .token = *token, .asked_ms = now_ms};
    add_waiter(lookup, remote, done, arg);
    if (lookup->next) lookup->next->link = &lookup->next;
    auth->lookups = lookup;
    // Copies: the answer may come at once and take the lookup with it.
    auth->options.authenticate(auth->pg, token->id, token->secret_sha256, on_authenticated, lookup);
}

static bool is_limited(const struct api_auth *auth, struct str remote, const struct token *token, struct error *err)
{
    const struct api_auth_options *options = &auth->options;
    return options->check_failures && options->check_failures(options->ctx, remote, token, err) != ERROR_NONE;
}

// It is wrong, which needed no query. Who has failed too often is told that instead.
static void refuse_failed(const struct api_auth *auth, struct str remote, const struct token *token, struct error *err)
{
    if (is_limited(auth, remote, token, err)) return;
    char text[REMOTE_BYTES];
    snprintf(text, sizeof text, "%.*s", STR_ARG(remote));
    note_failure(auth, text, token ? token->id : "");
    refuse(err);
}

// True: it is a runtime token, and done was called.
static bool answer_from_memory(const struct api_auth *auth, struct token *token, struct str remote, api_auth_done done,
                               void *arg)
{
    struct api_principal principal;
    struct error err;
    if (!auth->options.find_runtime_token) return false;
    enum error_code code = auth->options.find_runtime_token(auth->options.ctx, token, &principal, &err);
    if (code == ERROR_NOT_FOUND) return false;
    if (code == ERROR_UNAUTHENTICATED) refuse_failed(auth, remote, token, &err);
    explicit_bzero(token, sizeof *token);
    done(arg, code == ERROR_NONE ? NULL : &err, code == ERROR_NONE ? &principal : NULL);
    return true;
}

static void check_token(struct api_auth *auth, struct token *token, struct str remote, api_auth_done done, void *arg)
{
    struct error err = {0};
    if (answer_from_memory(auth, token, remote, done, arg)) return;
    uint64_t now_ms = auth->now_ms();
    const struct api_principal *known = api_auth_cache_find(auth->cache, token, now_ms);
    if (known) {
        // By value: done may make a check of its own, which may overwrite the entry.
        struct api_principal principal = *known;
        done(arg, NULL, &principal);
    } else if (was_refused(auth, token, now_ms)) {
        refuse_failed(auth, remote, token, &err);
        done(arg, &err, NULL);
    } else if (is_limited(auth, remote, token, &err)) {
        done(arg, &err, NULL);
    } else {
        look_up(auth, token, remote, now_ms, done, arg);
    }
}

void api_auth_check_token(struct api_auth *auth, const struct token *token, struct str remote, api_auth_done done,
                          void *arg)
{
    struct token copy = *token;
    check_token(auth, &copy, remote, done, arg);
    explicit_bzero(&copy, sizeof copy);
}

// Malformed, or not there at all, which is no failure.
static void refuse_text(const struct api_auth *auth, bool is_there, struct str remote, api_auth_done done, void *arg)
{
    struct error err = {0};
    if (is_there)
        refuse_failed(auth, remote, NULL, &err);
    else
        refuse(&err);
    done(arg, &err, NULL);
}

void api_auth_check(struct api_auth *auth, struct str authorization, struct str x_access_token, struct str remote,
                    api_auth_done done, void *arg)
{
    struct str credential = token_from_authorization(authorization);
    if (credential.len == 0) credential = str_trim(x_access_token);
    struct token token;
    if (token_parse(credential, &token, NULL) != ERROR_NONE) {
        refuse_text(auth, credential.len > 0, remote, done, arg);
        return;
    }
    check_token(auth, &token, remote, done, arg);
    explicit_bzero(&token, sizeof token);
}

void api_auth_check_credentials(struct api_auth *auth, const struct api_credentials *credentials, struct str remote,
                                api_auth_done done, void *arg)
{
    struct session_cookie cookie;
    struct error err;
    struct str text = session_cookie_find(credentials->cookie);
    if (token_from_authorization(credentials->authorization).len || str_trim(credentials->x_access_token).len ||
        text.len == 0) {
        api_auth_check(auth, credentials->authorization, credentials->x_access_token, remote, done, arg);
    } else if (session_cookie_parse(text, &cookie, NULL) != ERROR_NONE) {
        refuse_text(auth, true, remote, done, arg);
    } else if (session_cookie_admit(&cookie, credentials->needs_csrf_token, credentials->csrf_token,
                                    credentials->sec_fetch_site, &err) != ERROR_NONE) {
        done(arg, &err, NULL);
    } else {
        check_token(auth, &cookie.token, remote, done, arg);
    }
    explicit_bzero(&cookie, sizeof cookie);
}
