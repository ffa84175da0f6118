#include "modules/identity/sign_in.h"

#include <string.h>

#include "api/access/browser_session_store.h"
#include "api/access/session_cookie.h"
#include "api/http/actor.h"
#include "api/resolvers.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "modules/identity/browser_session_settings.h"

// In the request's arena.
struct sign_in {
    struct api_request *request;
    const char *method;
    struct session_cookie cookie;
    char text[TOKEN_TEXT_BYTES]; // of the cookie
};

static void count_sign_in(const char *method, const char *result)
{
    metric_add(metric_with(metrics_counter("culvert_sign_ins_total", "Requests to open a browser session.", "method",
                                           "result", NULL),
                           method, result),
               1);
}

static void set_cookie(struct api_request *request, const char *text)
{
    char value[SESSION_COOKIE_BYTES];
    session_cookie_write(text, (uint64_t)browser_session_settings_of(request->api->options.config)->life_max_ms / 1000,
                         value);
    api_add_header(request, STR("set-cookie"), str_c(value));
    explicit_bzero(value, sizeof value);
}

// ---- open ---------------------------------------------------------------------------------------

static void refuse(struct sign_in *sign_in, const struct error *err)
{
    count_sign_in(sign_in->method,
                  err->code == ERROR_UNAUTHENTICATED || err->code == ERROR_LIMITED ? "refused" : "failed");
    api_respond_error(sign_in->request, err);
}

static void on_opened(void *arg, const struct error *err, struct str node)
{
    struct sign_in *sign_in = arg;
    struct api_request *request = sign_in->request;
    struct error bad;
    json_t *opened = NULL;
    err = api_decode_node(err, node, &opened, &bad);
    if (err) {
        refuse(sign_in, err);
        return;
    }
    count_sign_in(sign_in->method, "accepted");
    metric_add(metric_with(metrics_counter("culvert_browser_sessions_displaced_total",
                                           "Browser sessions ended because their user opened too many.", NULL)),
               (uint64_t)json_integer_value(json_object_get(opened, "displaced")));
    log_info("sign_in", "session_opened", log_c("session_id", sign_in->cookie.token.id),
             log_c("method", sign_in->method), log_str("remote", request->remote));
    json_object_del(opened, "displaced");
    json_object_set_new(opened, "csrfToken", json_string(sign_in->cookie.csrf_token));
    json_object_set_new(opened, "version", json_string(CULVERT_VERSION));
    set_cookie(request, sign_in->text);
    explicit_bzero(sign_in->text, sizeof sign_in->text);
    api_respond_json(request, 200, opened);
}

static void on_checked(void *arg, const struct error *err, const struct api_principal *principal)
{
    struct sign_in *sign_in = arg;
    struct api_request *request = sign_in->request;
    const struct api_options *options = &request->api->options;
    struct error forbidden;
    if (!err && principal->kind != PRINCIPAL_USER) {
        error_set(&forbidden, ERROR_FORBIDDEN, "apiKey: must be the key of a user; a runtime token is not accepted");
        err = &forbidden;
    }
    if (err) {
        refuse(sign_in, err);
        return;
    }
    const struct browser_session_settings *settings = browser_session_settings_of(options->config);
    session_cookie_generate(&sign_in->cookie, sign_in->text);
    actor_set(request, principal);
    browser_session_store_open(options->pg, principal->account_id,
                               &(struct browser_session_new){.method = sign_in->method,
                                                             .credential_id = str_c(principal->token_id),
                                                             .session = &sign_in->cookie.token,
                                                             .remote = request->remote,
                                                             .user_agent = request->user_agent,
                                                             .idle_ms = (uint64_t)settings->idle_max_ms,
                                                             .life_ms = (uint64_t)settings->life_max_ms,
                                                             .per_user_max = (unsigned)settings->per_user_max},
                               on_opened, sign_in);
    actor_clear(options->pg);
}

// The credential of the body. A malformed one is as good as a wrong one.
static enum error_code take_credential(struct sign_in *sign_in, struct token *out, struct error *err)
{
    json_t *body = NULL;
    const struct json_limits limits = {.bytes_max = 4096, .depth_max = 4};
    enum error_code code = json_decode(sign_in->request->body, &limits, &body, err);
    if (code != ERROR_NONE) {
        error_prefix(err, "the body is not JSON");
        return err->code = ERROR_INVALID;
    }
    struct str link = json_get_str(body, "token"), key = json_get_str(body, "apiKey");
    if (!link.len == !key.len) {
        code = error_set(err, ERROR_INVALID,
                         "the body must be an object with one of token (of a sign-in link) and apiKey");
    } else {
        sign_in->method = link.len ? "link" : "api_key";
        code = link.len ? sign_in_link_parse(link, out, err) : token_parse(key, out, err);
        if (code != ERROR_NONE) code = error_set(err, ERROR_UNAUTHENTICATED, "the credential is not valid");
    }
    json_decref(body);
    return code;
}

static void open_session(struct api_request *request)
{
    struct sign_in *sign_in = arena_alloc(request->arena, sizeof *sign_in);
    *sign_in = (struct sign_in){.request = request, .method = "none"};
    struct token token;
    struct error err;
    if (session_cookie_is_cross_site(request->sec_fetch_site)) {
        error_set(&err, ERROR_FORBIDDEN, "Sec-Fetch-Site: a session is opened from the same origin");
        refuse(sign_in, &err);
    } else if (take_credential(sign_in, &token, &err) != ERROR_NONE) {
        refuse(sign_in, &err);
    } else {
        api_auth_check_token(request->api->options.auth, &token, request->remote, on_checked, sign_in);
    }
    explicit_bzero(&token, sizeof token);
}

// ---- the caller's own ---------------------------------------------------------------------------

static void respond_node(struct api_request *request, const struct error *err, struct str node)
{
    if (err)
        api_respond_error(request, err);
    else
        api_respond(request, 200, "application/json; charset=utf-8", node);
}

static void on_current(void *arg, const struct error *err, struct str node)
{
    struct api_request *request = arg;
    struct session_cookie cookie;
    struct error bad;
    json_t *current = NULL;
    err = api_decode_node(err, node, &current, &bad);
    if (err) {
        api_respond_error(request, err);
        return;
    }
    bool has_token = request->principal.method == PRINCIPAL_BY_SESSION &&
                     session_cookie_parse(session_cookie_find(request->cookie), &cookie, NULL) == ERROR_NONE;
    json_object_set_new(current, "csrfToken", has_token ? json_string(cookie.csrf_token) : json_null());
    json_object_set_new(current, "version", json_string(CULVERT_VERSION));
    explicit_bzero(&cookie, sizeof cookie);
    api_respond_json(request, 200, current);
}

static void on_listed(void *arg, const struct error *err, struct str node)
{
    respond_node(arg, err, node);
}

static void on_ended(void *arg, const struct error *err, uint64_t count)
{
    struct api_request *request = arg;
    if (err)
        api_respond_error(request, err);
    else
        api_respond_json(request, 200, json_pack("{s:I}", "ended", (json_int_t)count));
}

// One that is not there is as one of another user.
static void on_one_ended(void *arg, const struct error *err, uint64_t count)
{
    struct api_request *request = arg;
    if (!err && count == 0)
        api_respond_problem(request, 404, "not_found", "the user has no session with this id");
    else
        on_ended(arg, err, count);
}

static void end_sessions(struct api_request *request, struct str session_id, store_count_done on_done)
{
    browser_session_store_end(request->api->options.pg, request->principal.account_id,
                              str_c(request->principal.user_id), session_id, on_done, request);
}

static void end_current(struct api_request *request)
{
    if (request->principal.method != PRINCIPAL_BY_SESSION) {
        api_respond_problem(request, 400, "invalid", "the caller has no session but an API key");
        return;
    }
    set_cookie(request, NULL);
    end_sessions(request, str_c(request->principal.token_id), on_ended);
}

void sign_in_session(struct api_request *request)
{
    const struct api_principal *who = &request->principal;
    if (str_eq(request->method, STR("POST")))
        open_session(request);
    else if (str_eq(request->method, STR("DELETE")))
        end_current(request);
    else
        browser_session_store_get(request->api->options.pg, who->account_id, str_c(who->user_id), str_c(who->token_id),
                                  on_current, request);
}

void sign_in_sessions(struct api_request *request)
{
    const struct api_principal *who = &request->principal;
    if (str_eq(request->method, STR("DELETE"))) {
        set_cookie(request, NULL);
        end_sessions(request, STR_EMPTY, on_ended);
    } else {
        browser_session_store_list(request->api->options.pg, who->account_id, str_c(who->user_id), on_listed, request);
    }
}

void sign_in_session_by_id(struct api_request *request)
{
    struct str id = request->path_values[0];
    if (id.len == 0)
        api_respond_problem(request, 404, "not_found", "the user has no session with this id");
    else
        end_sessions(request, id, on_one_ended);
}
