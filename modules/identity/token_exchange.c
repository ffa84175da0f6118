#include "modules/identity/token_exchange.h"

#include <stdio.h>
#include <string.h>

#include "api/http/actor.h"
#include "api/http/negotiation.h"
#include "api/oidc/id_token.h"
#include "api/oidc/jwt.h"
#include "api/oidc/oidc.h"
#include "api/resolvers.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/token.h"
#include "culvert_statements.h"
#include "modules/identity/device_sign_in.h"
#include "modules/identity/grant_types.h"
#include "storage/sql/store_call.h"

#define TYPE_PREFIX "urn:ietf:params:oauth:token-type:"

enum { KEY_LIFE_S = 900 };

// In the request's arena. pg is held.
struct exchange {
    struct api_request *request;
    const struct provider_settings *settings;
    const json_t *rule; // of the settings
    const char *scopes; // JSON text, in the arena
    const char *scope;  // the same, separated by spaces
    char text[TOKEN_TEXT_BYTES];
};

static void count(const char *result)
{
    metric_add(metric_with(metrics_counter("culvert_token_exchanges_total", "Tokens of CI jobs that asked for a key.",
                                           "result", NULL),
                           result),
               1);
}

// RFC 6749 section 5.2. The log has the reason, the answer only what the caller may know.
static void refuse(struct api_request *request, const char *word, const char *description, const char *reason)
{
    bool is_ours = strcmp(word, "temporarily_unavailable") == 0;
    count(is_ours ? "failed" : "refused");
    log_limited(LOG_WARN, "sign_in", "exchange_refused", request->remote, str_c(word), log_c("problem", word),
                log_c("reason", reason), log_str("remote", request->remote), log_str("trace_id", request->request_id));
    api_respond_json(request, is_ours ? 503 : 400,
                     json_pack("{s:s, s:s}", "error", word, "error_description", description));
}

static void refuse_grant(struct exchange *exchange, const struct error *err)
{
    struct api_request *request = exchange->request;
    pg_release(request->api->options.pg);
    if (err->code == ERROR_UNAUTHENTICATED || err->code == ERROR_FORBIDDEN || err->code == ERROR_NOT_FOUND)
        refuse(request, "invalid_grant", "the subject_token is not accepted, or no rule permits it", err->text);
    else
        refuse(request, "temporarily_unavailable", "the token cannot be checked right now, try again", err->text);
}

static void on_created(void *arg, const struct error *err, struct str node)
{
    struct exchange *exchange = arg;
    struct api_request *request = exchange->request;
    (void)node;
    if (err) {
        explicit_bzero(exchange->text, sizeof exchange->text);
        refuse_grant(exchange, err);
        return;
    }
    pg_release(request->api->options.pg);
    count("accepted");
    request->is_secret = true;
    json_t *answer = json_pack("{s:s, s:s, s:s, s:i, s:s}", "access_token", exchange->text, "issued_token_type",
                               TYPE_PREFIX "access_token", "token_type", "Bearer", "expires_in", KEY_LIFE_S, "scope",
                               exchange->scope);
    explicit_bzero(exchange->text, sizeof exchange->text);
    api_respond_json(request, 200, answer);
}

static void create_key(struct exchange *exchange, struct str account_id)
{
    struct api_request *request = exchange->request;
    struct pg *pg = request->api->options.pg;
    struct api_principal who = {.kind = PRINCIPAL_USER, .method = PRINCIPAL_BY_PROVIDER};
    struct token token;
    char life[STORE_NUMBER_BYTES];
    snprintf(who.user_name, sizeof who.user_name, "%s", exchange->settings->id);
    token_generate(&token, exchange->text);
    actor_set(request, &who);
    struct pg_batch *batch = pg_batch_create(pg, arena_cstr(request->arena, account_id));
    pg_add(batch, exchanged_key_create, .account_id = pg_text(account_id),
           .user_name = pg_text(json_get_str(exchange->rule, "user")), .token_id = pg_text(str_c(token.id)),
           .secret_sha256 = pg_bytea(token.secret_sha256, ID_SHA256_BYTES), .scopes = pg_text(str_c(exchange->scopes)),
           .life_s = store_number(KEY_LIFE_S, life));
    store_submit_node(batch, 0, ERROR_FORBIDDEN, "the rule's user is no service user of the account, or disabled",
                      on_created, exchange);
    actor_clear(pg);
    explicit_bzero(&token, sizeof token);
}

static void on_account(void *arg, const struct error *err, struct str node)
{
    struct exchange *exchange = arg;
    struct error bad;
    json_t *account = NULL;
    err = api_decode_node(err, node, &account, &bad);
    if (!err && !account) {
        error_set(&bad, ERROR_INTERNAL, "the account of the provider's settings does not exist");
        err = &bad;
    }
    if (err)
        refuse_grant(exchange, err);
    else
        create_key(exchange, json_get_str(account, "id"));
    json_decref(account);
}

static void take_scopes(struct exchange *exchange)
{
    struct arena *arena = exchange->request->arena;
    json_t *list = json_object_get(exchange->rule, "scopes"), *scope;
    size_t i;
    char *text = json_dumps(list, JSON_COMPACT);
    exchange->scopes = arena_cstr(arena, str_c(text));
    mem_free(text);
    exchange->scope = "";
    json_array_foreach(list, i, scope)
    {
        exchange->scope = arena_printf(arena, "%s%s%.*s", exchange->scope, i ? " " : "", STR_ARG(json_str(scope)));
    }
}

static void on_claims(void *arg, const struct error *err, const json_t *claims)
{
    struct exchange *exchange = arg;
    struct api_request *request = exchange->request;
    struct error bad;
    json_t *rule;
    size_t i;
    if (err) {
        refuse_grant(exchange, err);
        return;
    }
    json_array_foreach(exchange->settings->exchange_rules, i, rule)
    {
        if (!exchange->rule && jwt_claims_fit(claims, json_object_get(rule, "claims"))) exchange->rule = rule;
    }
    if (!exchange->rule) {
        error_set(&bad, ERROR_FORBIDDEN, "no rule of exchange has the claims of this token");
        refuse_grant(exchange, &bad);
        return;
    }
    take_scopes(exchange);
    identity_store_find_account(request->api->options.pg, str_c(exchange->settings->account), on_account, exchange);
}

// Whose token it claims to be decides only by whose keys it is verified.
static struct identity_provider *find_issuer(const struct api_request *request, struct str text, struct error *err)
{
    const struct oidc *oidc = request->api->options.oidc;
    struct jwt jwt;
    struct identity_provider *found = NULL;
    if (jwt_parse(text, JWK_ALL, &jwt, err) != ERROR_NONE) return NULL;
    for (size_t i = 0; i < oidc_count(oidc); i++) {
        const struct provider_settings *settings = identity_provider_options(oidc_at(oidc, i))->settings;
        bool is_its = str_eq(json_get_str(jwt.claims, "iss"), str_c(settings->issuer)) &&
                      jwt_claim_has(json_object_get(jwt.claims, "aud"), str_c(settings->exchange_audience));
        if (is_its && json_array_size(settings->exchange_rules)) found = oidc_at(oidc, i);
    }
    jwt_finish(&jwt);
    if (!found)
        error_set(err, ERROR_UNAUTHENTICATED,
                  "no exchange of the settings is for the token's issuer and audience (iss, aud)");
    return found;
}

void token_exchange(struct api_request *request)
{
    struct str grant = STR_EMPTY, type = STR_EMPTY, token = STR_EMPTY;
    struct error err;
    if (query_field(request->body, STR("grant_type"), request->arena, &grant, &err) != ERROR_NONE ||
        query_field(request->body, STR("subject_token_type"), request->arena, &type, &err) != ERROR_NONE ||
        query_field(request->body, STR("subject_token"), request->arena, &token, &err) != ERROR_NONE) {
        refuse(request, "invalid_request", err.text, "the form is malformed");
        return;
    }
    if (str_eq(grant, STR(DEVICE_GRANT_TYPE))) {
        device_sign_in_token(request);
        return;
    }
    if (!str_eq(grant, STR(TOKEN_EXCHANGE_GRANT_TYPE))) {
        refuse(request, "unsupported_grant_type",
               "grant_type: must be " TOKEN_EXCHANGE_GRANT_TYPE " or " DEVICE_GRANT_TYPE, "grant_type");
        return;
    }
    if (!token.len || !(str_eq(type, STR(TYPE_PREFIX "jwt")) || str_eq(type, STR(TYPE_PREFIX "id_token")))) {
        refuse(request, "invalid_request",
               "subject_token and subject_token_type, which is " TYPE_PREFIX "jwt or " TYPE_PREFIX
               "id_token, are required",
               "subject_token");
        return;
    }
    struct identity_provider *provider = find_issuer(request, token, &err);
    struct exchange *exchange = arena_alloc(request->arena, sizeof *exchange);
    *exchange = (struct exchange){.request = request};
    pg_hold(request->api->options.pg);
    if (!provider) {
        refuse_grant(exchange, &err);
        return;
    }
    exchange->settings = identity_provider_options(provider)->settings;
    id_token_verify(provider, request->api->options.loop, token, str_c(exchange->settings->exchange_audience),
                    STR_EMPTY, on_claims, exchange);
}
