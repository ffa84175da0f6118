#include "modules/identity/device_sign_in.h"

#include <stdio.h>
#include <string.h>

#include "api/http/actor.h"
#include "api/http/negotiation.h"
#include "api/oidc/oidc.h"
#include "api/resolvers.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/token.h"
#include "culvert_statements.h"
#include "modules/identity/browser_session_settings.h"
#include "modules/identity/grant_types.h"
#include "storage/sql/store_call.h"

// Codes for people: consonants, none of which is taken for another one or makes a word (RFC 8628,
// section 6.1). Ten of them: 10^13 codes, see docs/security.md.
#define CODE_ALPHABET "BCDFGHJKLMNPQRSTVWXZ"
enum { CODE_LENGTH = 10, CODE_HALF = 5, CODE_TEXT_BYTES = CODE_LENGTH + 2, INTERVAL_S = 5 };
// The one client: culvert, which is public (RFC 6749, section 2.1).
#define CLIENT_ID "culvert-cli"

static const struct browser_session_settings *settings_of(const struct api_request *request)
{
    return browser_session_settings_of(request->api->options.config);
}

static void count(const char *result)
{
    metric_add(
        metric_with(metrics_counter("culvert_device_sign_ins_total",
                                    "Sign-ins of command lines that a person allows in a browser.", "result", NULL),
                    result),
        1);
}

// RFC 6749 section 5.2.
static void refuse(struct api_request *request, int status, const char *word, const char *description)
{
    api_respond_json(request, status, json_pack("{s:s, s:s}", "error", word, "error_description", description));
}

static void refuse_unavailable(struct api_request *request, const struct error *err)
{
    count("failed");
    log_limited(LOG_WARN, "sign_in", "device_sign_in_failed", request->remote, str_c("failed"), log_err(err),
                log_str("remote", request->remote), log_str("trace_id", request->request_id));
    refuse(request, 503, "temporarily_unavailable", "the database cannot be asked right now, try again");
}

// ---- codes --------------------------------------------------------------------------------------

// "BCDFG-HJKLM"
static void make_code(char out[CODE_TEXT_BYTES])
{
    for (size_t i = 0; i < CODE_LENGTH; i++)
        out[i + (i >= CODE_HALF)] = CODE_ALPHABET[id_random_below(sizeof CODE_ALPHABET - 1)];
    out[CODE_HALF] = '-';
    out[CODE_LENGTH + 1] = '\0';
}

// As people type it: of either case, with or without the dash and spaces. False: not a code.
static bool hash_code(struct str text, uint8_t out[ID_SHA256_BYTES])
{
    char plain[CODE_LENGTH];
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '-' || c == ' ') continue;
        if (c >= 'a' && c <= 'z') c = (char)(c - 'a' + 'A');
        if (!c || !strchr(CODE_ALPHABET, c) || len == CODE_LENGTH) return false;
        plain[len++] = c;
    }
    if (len != CODE_LENGTH) return false;
    id_sha256(plain, len, out);
    return true;
}

// The secret of a device code is no other kind of credential.
static void make_device_code(struct token *token)
{
    token_for(token, STR("device code"));
}

// ---- POST /api/auth/device ----------------------------------------------------------------------

// In the request's arena.
struct beginning {
    struct api_request *request;
    char device_code[TOKEN_TEXT_BYTES], user_code[CODE_TEXT_BYTES];
};

static void on_created(void *arg, const struct error *err, struct str word)
{
    struct beginning *beginning = arg;
    struct api_request *request = beginning->request;
    if (err) {
        refuse_unavailable(request, err);
    } else if (!str_eq(word, STR("created"))) {
        bool is_address = str_eq(word, STR("full_address"));
        count("limited");
        api_add_header(request, STR("retry-after"), STR("60"));
        refuse(request, 429, "temporarily_unavailable",
               is_address
                   ? "too many sign-ins of this address wait for a decision (sessions.device_codes_per_address_max)"
                   : "too many sign-ins wait for a decision (sessions.device_codes_max)");
    } else {
        const char *url = oidc_platform_url(request->api->options.oidc);
        const char *page = arena_printf(request->arena, "%sui/device", url);
        count("begun");
        request->is_secret = true;
        api_respond_json(request, 200,
                         json_pack("{s:s, s:s, s:s, s:s, s:I, s:i}", "device_code", beginning->device_code, "user_code",
                                   beginning->user_code, "verification_uri", page, "verification_uri_complete",
                                   arena_printf(request->arena, "%s?code=%s", page, beginning->user_code), "expires_in",
                                   (json_int_t)(settings_of(request)->device_code_life_ms / 1000), "interval",
                                   INTERVAL_S));
    }
    explicit_bzero(beginning->device_code, sizeof beginning->device_code);
    explicit_bzero(beginning->user_code, sizeof beginning->user_code);
}

// The field client_id of a form. False: the request is answered.
static bool take_client(struct api_request *request)
{
    struct str client = STR_EMPTY;
    struct error err;
    if (query_field(request->body, STR("client_id"), request->arena, &client, &err) != ERROR_NONE) {
        refuse(request, 400, "invalid_request", err.text);
        return false;
    }
    if (str_eq(client, STR(CLIENT_ID))) return true;
    refuse(request, 400, "invalid_client", "client_id: must be " CLIENT_ID);
    return false;
}

void device_sign_in_begin(struct api_request *request)
{
    if (!take_client(request)) return;
    const struct browser_session_settings *settings = settings_of(request);
    struct beginning *beginning = arena_alloc(request->arena, sizeof *beginning);
    struct token token;
    uint8_t code_sha256[ID_SHA256_BYTES];
    char life[STORE_NUMBER_BYTES], interval[STORE_NUMBER_BYTES], all[STORE_NUMBER_BYTES], address[STORE_NUMBER_BYTES];
    *beginning = (struct beginning){.request = request};
    token_generate(&token, beginning->device_code);
    make_device_code(&token);
    make_code(beginning->user_code);
    hash_code(str_c(beginning->user_code), code_sha256);
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, NULL);
    pg_add(batch, device_authorization_create, .device_id = pg_text(str_c(token.id)),
           .secret_sha256 = pg_bytea(token.secret_sha256, ID_SHA256_BYTES),
           .user_code_sha256 = pg_bytea(code_sha256, ID_SHA256_BYTES), .client_id = pg_text(STR(CLIENT_ID)),
           .remote = pg_text(request->remote), .user_agent = pg_text(request->user_agent),
           .life_s = store_number((uint64_t)settings->device_code_life_ms / 1000, life),
           .interval_s = store_number(INTERVAL_S, interval),
           .all_max = store_number((uint64_t)settings->device_codes_max, all),
           .address_max = store_number((uint64_t)settings->device_codes_per_address_max, address));
    store_submit_node(batch, 0, ERROR_INTERNAL, "the database gave no answer", on_created, beginning);
    explicit_bzero(&token, sizeof token);
}

// ---- POST /api/auth/token -----------------------------------------------------------------------

// In the request's arena.
struct poll {
    struct api_request *request;
    char device_id[TOKEN_ID_BYTES], text[TOKEN_TEXT_BYTES];
};

static void on_key(void *arg, const struct error *err, struct str node)
{
    struct poll *poll = arg;
    struct api_request *request = poll->request;
    (void)node;
    if (err && err->code == ERROR_FORBIDDEN) {
        count("refused");
        refuse(request, 400, "access_denied", "the user who allowed it may not sign in any more");
    } else if (err) {
        refuse_unavailable(request, err);
    } else {
        count("accepted");
        log_info("sign_in", "device_signed_in", log_c("device_id", poll->device_id),
                 log_str("remote", request->remote));
        request->is_secret = true;
        api_respond_json(request, 200,
                         json_pack("{s:s, s:s, s:I}", "access_token", poll->text, "token_type", "Bearer", "expires_in",
                                   (json_int_t)(settings_of(request)->device_life_ms / 1000)));
    }
    explicit_bzero(poll->text, sizeof poll->text);
}

// allowed: the account, and the person who allowed it.
static void create_key(struct poll *poll, const json_t *allowed)
{
    struct api_request *request = poll->request;
    const struct browser_session_settings *settings = settings_of(request);
    struct pg *pg = request->api->options.pg;
    struct api_principal who = {.kind = PRINCIPAL_USER, .method = PRINCIPAL_BY_DEVICE};
    const char *account_id = arena_cstr(request->arena, json_get_str(allowed, "accountId"));
    struct token token;
    char life[STORE_NUMBER_BYTES], others[STORE_NUMBER_BYTES];
    snprintf(who.user_id, sizeof who.user_id, "%.*s", STR_ARG(json_get_str(allowed, "userId")));
    snprintf(who.user_name, sizeof who.user_name, "%.*s", STR_ARG(json_get_str(allowed, "userName")));
    token_generate(&token, poll->text);
    actor_set(request, &who);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, device_key_create, .account_id = pg_text(str_c(account_id)),
           .device_id = pg_text(str_c(poll->device_id)), .token_id = pg_text(str_c(token.id)),
           .secret_sha256 = pg_bytea(token.secret_sha256, ID_SHA256_BYTES),
           .life_s = store_number((uint64_t)settings->device_life_ms / 1000, life),
           .others_max = store_number((uint64_t)settings->per_user_max - 1, others));
    store_submit_node(batch, 0, ERROR_FORBIDDEN, "it was used meanwhile, or its user is disabled", on_key, poll);
    actor_clear(pg);
    explicit_bzero(&token, sizeof token);
}

static const struct {
    const char *word, *description;
} answers[] = {
    {"authorization_pending", "it is not allowed yet"},
    {"slow_down", "ask less often: from now on five seconds more apart"},
    {"access_denied", "it was denied"},
    {"expired_token", "the code has expired; begin again"},
    {"invalid_grant", "device_code: unknown, wrong, or used already"},
};

static void on_polled(void *arg, const struct error *err, struct str node)
{
    struct poll *poll = arg;
    struct error bad;
    json_t *found = NULL;
    err = api_decode_node(err, node, &found, &bad);
    if (err) {
        refuse_unavailable(poll->request, err);
        return;
    }
    struct str state = json_get_str(found, "state");
    if (str_eq(state, STR("allowed"))) {
        create_key(poll, found);
    } else {
        size_t i = 0;
        while (i + 1 < sizeof answers / sizeof *answers && !str_eq(state, str_c(answers[i].word)))
            i++;
        if (i > 1) count(i == 2 ? "denied" : "refused");
        refuse(poll->request, 400, answers[i].word, answers[i].description);
    }
    json_decref(found);
}

void device_sign_in_token(struct api_request *request)
{
    struct str code = STR_EMPTY;
    struct token token;
    struct error err;
    if (!take_client(request)) return;
    if (query_field(request->body, STR("device_code"), request->arena, &code, &err) != ERROR_NONE || !code.len) {
        refuse(request, 400, "invalid_request", "device_code: missing or malformed");
        return;
    }
    if (token_parse(code, &token, &err) != ERROR_NONE) {
        count("refused");
        refuse(request, 400, "invalid_grant", "device_code: unknown, wrong, or used already");
        return;
    }
    make_device_code(&token);
    struct poll *poll = arena_alloc(request->arena, sizeof *poll);
    *poll = (struct poll){.request = request};
    memcpy(poll->device_id, token.id, sizeof poll->device_id);
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, NULL);
    pg_add(batch, device_authorization_poll, .device_id = pg_text(str_c(token.id)),
           .secret_sha256 = pg_bytea(token.secret_sha256, ID_SHA256_BYTES));
    store_submit_node(batch, 0, ERROR_INTERNAL, "the database gave no answer", on_polled, poll);
    explicit_bzero(&token, sizeof token);
}

// ---- GET /.well-known/oauth-authorization-server ------------------------------------------------

void device_sign_in_metadata(struct api_request *request)
{
    const char *url = oidc_platform_url(request->api->options.oidc);
    size_t len = strlen(url);
    const char *issuer = arena_printf(request->arena, "%.*s", (int)(len && url[len - 1] == '/' ? len - 1 : len), url);
    api_respond_json(request, 200,
                     json_pack("{s:s, s:s, s:s, s:[s, s], s:[s], s:[]}", "issuer", issuer,
                               "device_authorization_endpoint", arena_printf(request->arena, "%sapi/auth/device", url),
                               "token_endpoint", arena_printf(request->arena, "%sapi/auth/token", url),
                               "grant_types_supported", DEVICE_GRANT_TYPE, TOKEN_EXCHANGE_GRANT_TYPE,
                               "token_endpoint_auth_methods_supported", "none", "response_types_supported"));
}

// ---- the person ---------------------------------------------------------------------------------

// Counts what is wrong: guesses show in the metric.
static void on_found(void *arg, const struct error *err, struct str node)
{
    if (!err && !node.len) count("wrong_code");
    api_resolved_node(arg, err, node);
}

void device_sign_in_resolve_get(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    uint8_t sha256[ID_SHA256_BYTES];
    if (!hash_code(json_get_str(arguments, "userCode"), sha256)) {
        on_resolved(arg, NULL, json_null());
        return;
    }
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, request->principal.account_id);
    pg_add(batch, device_authorization_get, .user_code_sha256 = pg_bytea(sha256, ID_SHA256_BYTES));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_found, api_pending_create(request, on_resolved, arg));
}

static void on_decided(void *arg, const struct error *err, uint64_t decided)
{
    struct api_pending *pending = arg;
    struct error missing;
    if (!err && !decided) {
        count("wrong_code");
        error_set(&missing, ERROR_NOT_FOUND, "userCode: no sign-in waits under this code; it may have expired");
        err = &missing;
    }
    pending->on_resolved(pending->arg, err, err ? NULL : json_true());
}

void device_sign_in_resolve_decide(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const struct api_principal *who = &request->principal;
    uint8_t sha256[ID_SHA256_BYTES];
    // What is no code is answered like a wrong one.
    if (!hash_code(json_get_str(arguments, "userCode"), sha256)) memset(sha256, 0, sizeof sha256);
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, who->account_id);
    pg_add(batch, device_authorization_decide, .user_code_sha256 = pg_bytea(sha256, ID_SHA256_BYTES),
           .account_id = pg_text(str_c(who->account_id)), .user_id = pg_text(str_c(who->user_id)),
           .is_allowed = pg_bool(json_get_bool(arguments, "allow", false)));
    store_submit_number(batch, 0, on_decided, api_pending_create(request, on_resolved, arg));
}
