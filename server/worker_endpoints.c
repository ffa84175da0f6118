// The listeners of a worker through which clients come: the API and the ingress listener, which carry
// calls into clusters with the same credential check and the same limits, and the admin listener.
// Parts of a worker (server/worker_part.h).

#include <stdio.h>

#include "api/access/access_fields.h"
#include "api/access/auth.h"
#include "api/access/permission.h"
#include "api/api_settings.h"
#include "base/mem.h"
#include "server/http/admin_listener.h"
#include "server/http/api_listener.h"
#include "server/ingress/ingress.h"
#include "server/ingress/ingress_settings.h"
#include "server/ingress/ingress_transfer.h"
#include "server/listener_settings.h"
#include "server/tls/tls_context.h"
#include "server/tls/tls_settings.h"
#include "server/worker.h"
#include "server/worker_part.h"

struct question {
    struct api_auth *auth;
    char runtime[128];
    call_authenticated done;
    void *arg;
};

// Services of a cluster show and change what rules are about, and know nothing of them. So whom
// rules limit calls those of a runtime only where a rule says so: VIEW of the clusters of it.
static enum error_code check_rules(const struct question *question, const struct api_principal *principal,
                                   struct error *err)
{
    struct access_rules *rules;
    if (api_auth_rules(question->auth, principal, &rules, err) != ERROR_NONE) return err->code;
    struct access_object object = {.values[ATTRIBUTE_RUNTIME] = str_c(question->runtime)};
    struct access_decision decision = access_decide(rules, ENTITY_CLUSTERS, ACTION_VIEW, &object);
    bool is_limited = access_field_check("calls", rules, err) != ERROR_NONE;
    // Of a runtime's cluster nothing else is known here.
    if (access_may_deny_by_others(rules, ENTITY_CLUSTERS, ACTION_VIEW, 1u << ATTRIBUTE_RUNTIME))
        decision.is_allowed = false;
    access_rules_unref(rules);
    if (decision.is_allowed && (!is_limited || decision.reason == ACCESS_ALLOW_RULE)) return ERROR_NONE;
    return error_set(
        err, ERROR_FORBIDDEN,
        "rules of the account limit you: a call into a cluster requires a rule that allows VIEW of clusters "
        "of the runtime, and no rule that denies it by another attribute than the runtime");
}

static void on_checked(void *arg, const struct error *err, const struct api_principal *principal)
{
    struct question *question = arg;
    struct error forbidden;
    if (!err && principal->kind != PRINCIPAL_USER) {
        error_set(&forbidden, ERROR_FORBIDDEN, "calls into a cluster require a user; a runtime token is not accepted");
        err = &forbidden;
    }
    if (!err && permission_check(principal, PERMISSION_CALL, "a call into a cluster", &forbidden) != ERROR_NONE)
        err = &forbidden;
    if (!err && check_rules(question, principal, &forbidden) != ERROR_NONE) err = &forbidden;
    if (err)
        question->done(question->arg, err, NULL);
    else
        question->done(question->arg, NULL,
                       &(struct call_principal){.account_id = str_c(principal->account_id),
                                                .user_id = str_c(principal->user_id),
                                                .user_name = str_c(principal->user_name),
                                                .token_id = str_c(principal->token_id),
                                                .rights = api_principal_rights(principal)});
    mem_free(question);
}

// With a cookie every call needs its CSRF token, whatever its method: a page of the cluster's that
// a browser opens at the platform's origin gets nothing by the session.
static void authenticate(void *ctx, unsigned loop_index, const struct call_credential *credential, struct str remote,
                         call_authenticated done, void *arg)
{
    (void)loop_index;
    struct worker *worker = ctx;
    struct question *question = mem_alloc(sizeof *question);
    *question = (struct question){.auth = worker->auth, .done = done, .arg = arg};
    snprintf(question->runtime, sizeof question->runtime, "%.*s", STR_ARG(credential->runtime));
    const struct api_credentials credentials = {
        .authorization = credential->token,
        .cookie = credential->cookie,
        .csrf_token = credential->csrf_token,
        .sec_fetch_site = credential->sec_fetch_site,
        .needs_csrf_token = true,
    };
    api_auth_check_credentials(worker->auth, &credentials, remote, on_checked, question);
}

// ---- connections that go to another loop --------------------------------------------------------

// A loop that has more to do serves what it has; the others keep their connections and do that part
// of the work. What is quiet now may be busy soon, so no loop gets nearly all connections either.
enum { BUSY_PERCENT = 60, TIMES_MORE_MAX = 4, MORE_MAX = 16 };

struct arrival {
    struct worker *worker;
    struct ingress_transfer *transfer;
};

static bool may_transfer(void *ctx, unsigned loop_index)
{
    struct worker *worker = ctx, *there = worker->server->workers[loop_index];
    size_t open = atomic_load(&there->ingress_open);
    bool has_many = open > TIMES_MORE_MAX * atomic_load(&worker->ingress_open) + MORE_MAX;
    return !has_many && loop_admit(there->loop, BUSY_PERCENT);
}

static void on_arrival(void *arg)
{
    struct arrival *arrival = arg;
    if (arrival->worker->ingress)
        ingress_take_over(arrival->worker->ingress, arrival->transfer);
    else
        ingress_transfer_drop(arrival->transfer);
    mem_free(arrival);
}

static void transfer(void *ctx, unsigned loop_index, struct ingress_transfer *transfer)
{
    const struct worker *worker = ctx;
    struct arrival *arrival = mem_alloc(sizeof *arrival);
    *arrival = (struct arrival){.worker = worker->server->workers[loop_index], .transfer = transfer};
    loop_post(arrival->worker->loop, on_arrival, arrival);
}

// ---- the listener -----------------------------------------------------------------------------

// The host of "https://host[:port][/...]", which the settings have checked.
static void host_of(const char *url, char *out, size_t size)
{
    struct str rest = str_from(str_c(url), 8), host, name;
    str_cut(&rest, '/', &host);
    str_cut(&host, ':', &name);
    snprintf(out, size, "%.*s", STR_ARG(name));
}

static struct call_proxy_options call_options(struct worker *worker, const char *platform_host)
{
    const struct config *config = worker->server->config;
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct ingress_settings *ingress = ingress_settings_of(config);
    return (struct call_proxy_options){
        .node = worker->node,
        .tunnel_domain = listeners->tunnel_domain,
        .platform_host = platform_host,
        .trusted_proxies = ingress->trusted_proxies,
        .body_bytes_per_second_min = (uint64_t)ingress->body_bytes_per_second_min,
        .body_rate_window_ms = (uint64_t)ingress->body_rate_window_ms,
        .webhooks_per_second = (unsigned)ingress->webhooks_per_second,
        .authenticate = authenticate,
        .credential_watch = worker->credential_watch,
        .ctx = worker,
    };
}

static struct api_listener *create_api_listener(struct worker *worker, struct error *err)
{
    struct server *server = worker->server;
    const struct config *config = server->config;
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct tls_settings *tls = tls_settings_of(config);
    const struct api_settings *api = api_settings_of(config);
    const struct ingress_settings *ingress = ingress_settings_of(config);
    return api_listener_create(worker->loop,
                               &(struct api_listener_options){
                                   .http = {.name = "api",
                                            .listen = listeners->api,
                                            .tls = tls_context_ssl(server->api_tls),
                                            .hsts_max_age_ms = (uint64_t)tls->hsts_max_age_ms,
                                            .request_timeout_ms = (uint64_t)api->request_timeout_ms,
                                            .body_bytes_max = (size_t)api->events_bytes_max,
                                            .head_bytes_max = (size_t)api->head_bytes_max,
                                            .connections = &server->api_connections,
                                            .addresses = server->api_addresses,
                                            .trusted_proxies = ingress->trusted_proxies},
                                   .api = worker->api_core,
                                   .ui = server->ui,
                                   .calls = call_options(worker, NULL),
                                   .accounts = server->ingress_accounts,
                               },
                               err);
}

static struct ingress *create_ingress(struct worker *worker, struct error *err)
{
    const struct config *config = worker->server->config;
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct tls_settings *tls = tls_settings_of(config);
    const struct api_settings *api = api_settings_of(config);
    const struct ingress_settings *ingress = ingress_settings_of(config);
    char platform_host[256];
    host_of(listeners->platform_url, platform_host, sizeof platform_host);
    return ingress_create(worker->loop,
                          &(struct ingress_options){
                              .listen = listeners->ingress,
                              .tls = tls_context_ssl(worker->server->ingress_tls),
                              .connections = &worker->server->ingress_connections,
                              .open = &worker->ingress_open,
                              .addresses = worker->server->ingress_addresses,
                              .accounts = worker->server->ingress_accounts,
                              .http2_streams_max = (unsigned)ingress->http2_streams_max,
                              .buffered_bytes_max = (size_t)ingress->buffered_bytes_max,
                              .head_bytes_max = (size_t)api->head_bytes_max,
                              .hsts_max_age_ms = (uint64_t)tls->hsts_max_age_ms,
                              .head_timeout_ms = (uint64_t)ingress->head_timeout_ms,
                              .idle_timeout_ms = (uint64_t)ingress->idle_timeout_ms,
                              .stall_timeout_ms = (uint64_t)ingress->stall_timeout_ms,
                              .may_transfer = may_transfer,
                              .transfer = transfer,
                              .ctx = worker,
                              .calls = call_options(worker, platform_host),
                          },
                          err);
}

// ---- parts of a worker: h2o's contexts must end outside any callback of their loop ----------------

static enum error_code start_api_listener(struct worker *worker, struct error *err)
{
    worker->api = create_api_listener(worker, err);
    return worker->api ? ERROR_NONE : err->code;
}

static enum error_code start_ingress(struct worker *worker, struct error *err)
{
    worker->ingress = create_ingress(worker, err);
    return worker->ingress ? ERROR_NONE : err->code;
}

static void wind_down_api(struct worker *worker)
{
    if (worker->api) api_listener_wind_down(worker->api);
}

static void stop_accepting_api(struct worker *worker)
{
    if (worker->api) api_listener_stop_accepting(worker->api);
}

static bool api_idle(const struct worker *worker)
{
    return !worker->api || api_listener_is_idle(worker->api);
}

static void close_api(struct worker *worker, loop_fn done, void *arg)
{
    if (worker->api)
        api_listener_close(worker->api, done, arg);
    else
        done(arg);
}

static void release_api(struct worker *worker)
{
    api_listener_destroy(worker->api);
}

static void wind_down_ingress(struct worker *worker)
{
    if (worker->ingress) ingress_wind_down(worker->ingress);
}

static void stop_accepting_ingress(struct worker *worker)
{
    if (worker->ingress) ingress_stop_accepting(worker->ingress);
}

static bool ingress_idle(const struct worker *worker)
{
    return !worker->ingress || ingress_is_idle(worker->ingress);
}

static void close_ingress(struct worker *worker, loop_fn done, void *arg)
{
    if (worker->ingress)
        ingress_close(worker->ingress, done, arg);
    else
        done(arg);
}

static void release_ingress(struct worker *worker)
{
    ingress_destroy(worker->ingress);
    worker->ingress = NULL; // connections may still be on their way here
}

const struct worker_part worker_part_api_listener = {.start = start_api_listener,
                                                     .wind_down = wind_down_api,
                                                     .stop_accepting = stop_accepting_api,
                                                     .is_idle = api_idle,
                                                     .close_listener = close_api,
                                                     .release = release_api};

const struct worker_part worker_part_ingress = {.start = start_ingress,
                                                .wind_down = wind_down_ingress,
                                                .stop_accepting = stop_accepting_ingress,
                                                .is_idle = ingress_idle,
                                                .close_listener = close_ingress,
                                                .release = release_ingress};

// ---- the admin listener, on the first loop ------------------------------------------------------

static bool check_postgres(void *ctx)
{
    return pg_is_ready(((struct worker *)ctx)->pg);
}

static bool check_redis(void *ctx)
{
    struct redis *redis = ((struct worker *)ctx)->redis;
    return !redis_is_configured(redis) || redis_is_ready(redis);
}

static bool check_not_draining(void *ctx)
{
    return !atomic_load(&((struct worker *)ctx)->server->draining);
}

static const struct admin_check checks[] = {
    {.name = "postgres", .ready = check_postgres},
    {.name = "redis", .ready = check_redis, .optional = true},
    {.name = "not-draining", .ready = check_not_draining},
};

static enum error_code start_admin(struct worker *worker, struct error *err)
{
    worker->admin = admin_listener_create(worker->loop,
                                          &(struct admin_listener_options){
                                              .listen = listener_settings_of(worker->server->config)->admin,
                                              .checks = checks,
                                              .check_count = sizeof checks / sizeof *checks,
                                              .ctx = worker,
                                          },
                                          err);
    return worker->admin ? ERROR_NONE : err->code;
}

static void close_admin(struct worker *worker, loop_fn done, void *arg)
{
    if (worker->admin)
        admin_listener_close(worker->admin, done, arg);
    else
        done(arg);
}

static void release_admin(struct worker *worker)
{
    admin_listener_destroy(worker->admin);
}

const struct worker_part worker_part_admin_listener = {
    .first_loop_alone = true, .start = start_admin, .close_listener = close_admin, .release = release_admin};
