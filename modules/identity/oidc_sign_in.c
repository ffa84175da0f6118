#include "modules/identity/oidc_sign_in.h"

#include <stdio.h>
#include <string.h>

#include "api/access/external_identity_store.h"
#include "api/access/session_cookie.h"
#include "api/http/actor.h"
#include "api/http/negotiation.h"
#include "api/oidc/code_exchange.h"
#include "api/oidc/jwt.h"
#include "api/oidc/oidc.h"
#include "api/oidc/sign_in_attempt.h"
#include "api/resolvers.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "modules/identity/browser_session_settings.h"

enum { LOCATION_BYTES_MAX = 8192, SUBJECT_ID_BYTES = ID_SHA256_HEX_BYTES };

// What the provider sends back with the browser.
struct callback {
    struct str code, state, issuer, error;
};

// In the request's arena. pg is held, so that the loop waits for the provider's answer.
struct provider_sign_in {
    struct api_request *request;
    struct identity_provider *provider;
    const struct provider_settings *settings;
    struct sign_in_attempt attempt;
    struct callback callback;
    struct external_user user;
    struct session_cookie cookie;
    char text[TOKEN_TEXT_BYTES]; // of the cookie
};

// ---- answers ------------------------------------------------------------------------------------

// Back to the sign-in page, which has a sentence for each word.
struct problem {
    const char *word;
    enum error_code code; // errors that it stands for
};
static const struct problem problems[] = {
    {"provider_unavailable", ERROR_UNAVAILABLE},
    {"provider_unavailable", ERROR_TIMEOUT},
    {"provider_wrong", ERROR_PROTOCOL},
    {"provider_wrong", ERROR_TOO_LARGE},
    {"not_accepted", ERROR_UNAUTHENTICATED},
    {"no_user", ERROR_FORBIDDEN},
    {"busy", ERROR_LIMITED},
};

static const char *word_of(enum error_code code)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (problems[i].code == code) return problems[i].word;
    return "failed";
}

static void redirect(struct api_request *request, const char *location)
{
    api_add_header(request, STR("location"), str_c(location));
    api_respond(request, 303, "text/plain; charset=utf-8", STR_EMPTY);
}

static void drop_attempt(struct api_request *request)
{
    char value[SIGN_IN_COOKIE_BYTES];
    sign_in_attempt_write(NULL, NULL, 0, value);
    api_add_header(request, STR("set-cookie"), str_c(value));
}

static void count_sign_in(const char *result)
{
    metric_add(metric_with(metrics_counter("culvert_sign_ins_total", "Requests to open a browser session.", "method",
                                           "result", NULL),
                           "oidc", result),
               1);
}

static void fail(struct api_request *request, const char *provider, const char *word, const char *why)
{
    bool is_refusal = strcmp(word, "failed") != 0 && !str_starts(str_c(word), STR("provider_"));
    count_sign_in(is_refusal ? "refused" : "failed");
    log_limited(LOG_WARN, "sign_in", "provider_sign_in_failed", str_c(provider), str_c(word),
                log_c("provider", provider), log_c("problem", word), log_c("reason", why),
                log_str("remote", request->remote), log_str("trace_id", request->request_id));
    drop_attempt(request);
    redirect(request, arena_printf(request->arena, "%sui/sign-in?problem=%s",
                                   oidc_platform_url(request->api->options.oidc), word));
}

static void fail_with(struct provider_sign_in *sign_in, const struct error *err)
{
    pg_release(sign_in->request->api->options.pg);
    fail(sign_in->request, sign_in->settings->id, word_of(err->code), err->text);
}

// NULL: the request is answered.
static struct identity_provider *find_provider(struct api_request *request)
{
    struct identity_provider *provider = oidc_find(request->api->options.oidc, request->path_values[0]);
    if (provider && !*identity_provider_options(provider)->settings->client_id) provider = NULL; // exchange alone
    if (!provider) api_respond_problem(request, 404, "not_found", "no identity provider of this id");
    return provider;
}

void oidc_sign_in_list(struct api_request *request)
{
    const struct oidc *oidc = request->api->options.oidc;
    json_t *list = json_array();
    for (size_t i = 0; i < oidc_count(oidc); i++) {
        const struct provider_settings *settings = identity_provider_options(oidc_at(oidc, i))->settings;
        if (*settings->client_id)
            json_array_append_new(list, json_pack("{s:s, s:s}", "id", settings->id, "title", settings->title));
    }
    api_respond_json(request, 200, list);
}

// ---- to the provider ----------------------------------------------------------------------------

static void add_field(struct strbuf *url, const char *name, const char *value)
{
    strbuf_addf(url, "%s%s=", str_has_byte(strbuf_str(url), '?') ? "&" : "?", name);
    code_exchange_escape(url, str_c(value));
}

static const char *redirect_uri(const struct provider_sign_in *sign_in)
{
    struct api_request *request = sign_in->request;
    return arena_printf(request->arena, "%sapi/auth/providers/%s/callback",
                        oidc_platform_url(request->api->options.oidc), sign_in->settings->id);
}

static void send_away(struct provider_sign_in *sign_in, const char *authorization)
{
    struct api_request *request = sign_in->request;
    const struct oidc *oidc = request->api->options.oidc;
    uint64_t life_ms = (uint64_t)oidc_settings(oidc)->attempt_life_ms;
    char challenge[SIGN_IN_SECRET_BYTES], cookie[SIGN_IN_COOKIE_BYTES];
    struct strbuf url;
    strbuf_init(&url, LOCATION_BYTES_MAX);
    strbuf_add_c(&url, authorization);
    sign_in_attempt_challenge(&sign_in->attempt, challenge);
    add_field(&url, "response_type", "code");
    add_field(&url, "client_id", sign_in->settings->client_id);
    add_field(&url, "redirect_uri", redirect_uri(sign_in));
    add_field(&url, "scope", sign_in->settings->scope);
    add_field(&url, "state", sign_in->attempt.state);
    add_field(&url, "nonce", sign_in->attempt.nonce);
    add_field(&url, "code_challenge", challenge);
    add_field(&url, "code_challenge_method", "S256");
    sign_in_attempt_write(&sign_in->attempt, oidc_key(oidc), life_ms / 1000, cookie);
    api_add_header(request, STR("set-cookie"), str_c(cookie));
    redirect(request, url.at);
    strbuf_finish(&url);
}

static void on_addresses(void *arg, const struct error *err)
{
    struct provider_sign_in *sign_in = arg;
    struct provider_addresses *addresses = err ? NULL : identity_provider_addresses(sign_in->provider);
    if (!addresses) {
        fail_with(sign_in, err);
        return;
    }
    pg_release(sign_in->request->api->options.pg);
    send_away(sign_in, addresses->authorization);
    provider_addresses_unref(addresses);
}

static struct provider_sign_in *create(struct api_request *request, struct identity_provider *provider)
{
    struct provider_sign_in *sign_in = arena_alloc(request->arena, sizeof *sign_in);
    *sign_in = (struct provider_sign_in){
        .request = request, .provider = provider, .settings = identity_provider_options(provider)->settings};
    return sign_in;
}

void oidc_sign_in_start(struct api_request *request)
{
    const struct oidc *oidc = request->api->options.oidc;
    struct str path = STR("ui/");
    struct error err;
    struct identity_provider *provider = find_provider(request);
    if (!provider) return;
    if (query_field(request->query, STR("return"), request->arena, &path, &err) != ERROR_NONE) {
        api_respond_error(request, &err);
        return;
    }
    if (!sign_in_path_is_safe(path)) {
        api_respond_problem(request, 400, "invalid",
                            "return: must be a page of the web UI, \"ui/...\", of at most %d bytes",
                            SIGN_IN_PATH_BYTES_MAX);
        return;
    }
    struct provider_sign_in *sign_in = create(request, provider);
    sign_in_attempt_init(&sign_in->attempt, str_c(sign_in->settings->id), path,
                         clock_wall_ms() + oidc_settings(oidc)->attempt_life_ms);
    pg_hold(request->api->options.pg);
    identity_provider_read(provider, request->api->options.loop, PROVIDER_ADDRESSES, on_addresses, sign_in);
}

// ---- what the claims mean here ------------------------------------------------------------------

static enum error_code check_required(const struct provider_settings *settings, const json_t *claims, struct error *err)
{
    if (jwt_claims_fit(claims, settings->required_claims)) return ERROR_NONE;
    return error_set(err, ERROR_FORBIDDEN, "the token's claims are not those of required_claims");
}

static struct str names_text(struct api_request *request, json_t *names)
{
    char *text = json_dumps(names, JSON_COMPACT);
    struct str copy = arena_str(request->arena, str_c(text));
    mem_free(text);
    json_decref(names);
    return copy;
}

static void take_groups(struct provider_sign_in *sign_in, const json_t *claims)
{
    const struct provider_settings *settings = sign_in->settings;
    const json_t *groups = jwt_claim(claims, str_c(settings->groups_claim));
    json_t *managed = json_array(), *teams = json_array(), *team;
    const char *group;
    json_object_foreach(settings->teams, group, team)
    {
        json_array_append_new(managed, json_new_str(json_str(team)));
        if (jwt_claim_has(groups, str_c(group))) json_array_append_new(teams, json_new_str(json_str(team)));
    }
    sign_in->user.managed_teams = names_text(sign_in->request, managed);
    sign_in->user.teams = names_text(sign_in->request, teams);
    sign_in->user.manages_admins = json_array_size(settings->admin_groups) > 0;
    sign_in->user.is_admin = jwt_claim_fits(groups, settings->admin_groups);
}

static struct str first_claim(const json_t *claims, const char *const *names)
{
    for (; *names; names++) {
        struct str text = str_trim(json_get_str(claims, *names));
        if (text.len) return text;
    }
    return STR_EMPTY;
}

// Views of the claims become the request's.
static void take_user(struct provider_sign_in *sign_in, const json_t *claims)
{
    static const char *const names[] = {"preferred_username", "email", "name", "sub", NULL};
    const struct provider_settings *settings = sign_in->settings;
    struct arena *arena = sign_in->request->arena;
    struct external_user *user = &sign_in->user;
    struct str subject = json_get_str(claims, "sub"), email = json_get_str(claims, "email");
    // The issuer is a URL, which has no space.
    const char *both = arena_printf(arena, "%s %.*s", settings->issuer, STR_ARG(subject));
    char *identity_id = arena_alloc(arena, SUBJECT_ID_BYTES);
    id_sha256_hex(both, strlen(both), identity_id);
    bool is_verified = json_get_bool(claims, "email_verified", false);
    *user = (struct external_user){
        .identity_id = str_c(identity_id),
        .provider = str_c(settings->id),
        .issuer = str_c(settings->issuer),
        .subject = arena_str(arena, subject),
        .name = arena_str(arena, first_claim(claims, names)),
        .email = arena_str(arena, email),
        .link_email = settings->links_by_email && is_verified ? arena_str(arena, email) : STR_EMPTY,
        .creates = settings->creates_users,
        .is_read_only = settings->is_read_only,
    };
    take_groups(sign_in, claims);
}

// ---- and back -----------------------------------------------------------------------------------

static void on_opened(void *arg, const struct error *err, struct str node)
{
    struct provider_sign_in *sign_in = arg;
    struct api_request *request = sign_in->request;
    char value[SESSION_COOKIE_BYTES];
    (void)node;
    if (err) {
        explicit_bzero(sign_in->text, sizeof sign_in->text);
        fail_with(sign_in, err);
        return;
    }
    pg_release(request->api->options.pg);
    count_sign_in("accepted");
    log_info("sign_in", "session_opened", log_c("session_id", sign_in->cookie.token.id), log_c("method", "oidc"),
             log_c("provider", sign_in->settings->id), log_str("remote", request->remote));
    session_cookie_write(
        sign_in->text, (uint64_t)browser_session_settings_of(request->api->options.config)->life_max_ms / 1000, value);
    explicit_bzero(sign_in->text, sizeof sign_in->text);
    api_add_header(request, STR("set-cookie"), str_c(value));
    explicit_bzero(value, sizeof value);
    drop_attempt(request);
    redirect(request, arena_printf(request->arena, "%s%s", oidc_platform_url(request->api->options.oidc),
                                   sign_in->attempt.path));
}

static void on_account(void *arg, const struct error *err, struct str node)
{
    struct provider_sign_in *sign_in = arg;
    struct api_request *request = sign_in->request;
    const struct api_options *options = &request->api->options;
    struct error bad;
    json_t *account = NULL;
    err = api_decode_node(err, node, &account, &bad);
    if (!err && !account) {
        error_set(&bad, ERROR_INTERNAL, "the account of the provider's settings, %s, does not exist",
                  sign_in->settings->account);
        err = &bad;
    }
    if (err) {
        fail_with(sign_in, err);
        return;
    }
    struct api_principal who = {.kind = PRINCIPAL_USER, .method = PRINCIPAL_BY_PROVIDER};
    snprintf(who.user_name, sizeof who.user_name, "%s", sign_in->settings->id);
    snprintf(who.token_id, sizeof who.token_id, "%.24s", sign_in->user.identity_id.at);
    const struct browser_session_settings *settings = browser_session_settings_of(options->config);
    session_cookie_generate(&sign_in->cookie, sign_in->text);
    actor_set(request, &who);
    external_identity_store_sign_in(options->pg, arena_cstr(request->arena, json_get_str(account, "id")),
                                    &sign_in->user,
                                    &(struct browser_session_new){.method = "oidc",
                                                                  .session = &sign_in->cookie.token,
                                                                  .remote = request->remote,
                                                                  .user_agent = request->user_agent,
                                                                  .idle_ms = (uint64_t)settings->idle_max_ms,
                                                                  .life_ms = (uint64_t)settings->life_max_ms,
                                                                  .per_user_max = (unsigned)settings->per_user_max},
                                    on_opened, sign_in);
    actor_clear(options->pg);
    json_decref(account);
}

static void on_claims(void *arg, const struct error *err, const json_t *claims)
{
    struct provider_sign_in *sign_in = arg;
    struct error bad;
    if (!err && check_required(sign_in->settings, claims, &bad) != ERROR_NONE) err = &bad;
    if (err) {
        fail_with(sign_in, err);
        return;
    }
    take_user(sign_in, claims);
    identity_store_find_account(sign_in->request->api->options.pg, str_c(sign_in->settings->account), on_account,
                                sign_in);
}

static enum error_code take_callback(struct api_request *request, struct callback *out, struct error *err)
{
    const struct {
        struct str name;
        struct str *out;
    } fields[] = {{STR("code"), &out->code},
                  {STR("state"), &out->state},
                  {STR("iss"), &out->issuer},
                  {STR("error"), &out->error}};
    *out = (struct callback){0};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (query_field(request->query, fields[i].name, request->arena, fields[i].out, err) != ERROR_NONE)
            return err->code;
    return ERROR_NONE;
}

// The word of the problem, or NULL.
static const char *check_callback(const struct provider_sign_in *sign_in, bool needs_issuer)
{
    const struct provider_settings *settings = sign_in->settings;
    const struct callback *callback = &sign_in->callback;
    if (!str_eq(str_c(sign_in->attempt.provider), str_c(settings->id)) ||
        !str_eq_secret(callback->state, str_c(sign_in->attempt.state)))
        return "unknown_attempt";
    // RFC 9207: the answer of another provider is not taken for one of this.
    if ((needs_issuer || callback->issuer.len) && !str_eq(callback->issuer, str_c(settings->issuer)))
        return "wrong_provider";
    if (callback->error.len) return "denied";
    return callback->code.len ? NULL : "failed";
}

static void on_addresses_again(void *arg, const struct error *err)
{
    struct provider_sign_in *sign_in = arg;
    struct api_request *request = sign_in->request;
    const struct api_options *options = &request->api->options;
    struct provider_addresses *addresses = err ? NULL : identity_provider_addresses(sign_in->provider);
    if (!addresses) {
        fail_with(sign_in, err);
        return;
    }
    const char *word = check_callback(sign_in, addresses->sends_issuer);
    provider_addresses_unref(addresses);
    if (word) {
        pg_release(options->pg);
        fail(request, sign_in->settings->id, word, "what the provider sent is no answer to this browser's sign-in");
        return;
    }
    const struct code_exchange_request exchange = {.code = sign_in->callback.code,
                                                   .verifier = str_c(sign_in->attempt.verifier),
                                                   .redirect_uri = str_c(redirect_uri(sign_in)),
                                                   .nonce = str_c(sign_in->attempt.nonce)};
    code_exchange(sign_in->provider, options->loop, &exchange, on_claims, sign_in);
}

void oidc_sign_in_finish(struct api_request *request)
{
    const struct api_options *options = &request->api->options;
    struct identity_provider *provider = find_provider(request);
    if (!provider) return;
    struct provider_sign_in *sign_in = create(request, provider);
    struct error err;
    const char *id = sign_in->settings->id;
    if (take_callback(request, &sign_in->callback, &err) != ERROR_NONE) {
        fail(request, id, "failed", err.text);
        return;
    }
    if (!sign_in_attempt_read(request->cookie, oidc_key(options->oidc), clock_wall_ms(), &sign_in->attempt)) {
        fail(request, id, "unknown_attempt", "the browser has no cookie of a sign-in that is under way");
        return;
    }
    pg_hold(options->pg);
    identity_provider_read(provider, options->loop, PROVIDER_ADDRESSES, on_addresses_again, sign_in);
}
