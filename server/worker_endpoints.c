#include "server/worker_endpoints.h"

#include <stdio.h>

#include "api/access/auth.h"
#include "api/access/permission.h"
#include "base/mem.h"
#include "server/ingress/ingress_transfer.h"
#include "server/tls/tls_context.h"

struct question {
    call_authenticated done;
    void *arg;
};

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
    if (err)
        question->done(question->arg, err, NULL);
    else
        question->done(question->arg, NULL,
                       &(struct call_principal){.account_id = str_c(principal->account_id),
                                                .user_id = str_c(principal->user_id),
                                                .user_name = str_c(principal->user_name),
                                                .token_id = str_c(principal->token_id)});
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
    *question = (struct question){.done = done, .arg = arg};
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

// ---- the door -----------------------------------------------------------------------------------

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
    const struct server_config *config = worker->server->config;
    return (struct call_proxy_options){
        .node = worker->node,
        .tunnel_domain = config->tunnel_domain,
        .platform_host = platform_host,
        .trusted_proxies = config->ingress_trusted_proxies,
        .body_bytes_per_second_min = (uint64_t)config->ingress_body_bytes_per_second_min,
        .body_rate_window_ms = (uint64_t)config->ingress_body_rate_window_ms,
        .webhooks_per_second = (unsigned)config->webhooks_per_second,
        .authenticate = authenticate,
        .grants = worker->grants,
        .ctx = worker,
    };
}

struct api_door *worker_api_create(struct worker *worker, struct error *err)
{
    struct server *server = worker->server;
    const struct server_config *config = server->config;
    return api_door_create(worker->loop,
                           &(struct api_door_options){
                               .http = {.name = "api",
                                        .listen = config->api_listen,
                                        .tls = tls_context_ssl(server->api_tls),
                                        .hsts_max_age_ms = (uint64_t)config->tls_hsts_max_age_ms,
                                        .request_timeout_ms = (uint64_t)config->api_request_timeout_ms,
                                        .body_bytes_max = (size_t)config->api_events_bytes_max,
                                        .head_bytes_max = (size_t)config->head_bytes_max,
                                        .connections = &server->api_connections,
                                        .addresses = server->api_addresses,
                                        .trusted_proxies = config->ingress_trusted_proxies},
                               .api = worker->api_core,
                               .ui = server->ui,
                               .calls = call_options(worker, NULL),
                               .accounts = server->ingress_accounts,
                           },
                           err);
}

struct ingress *worker_ingress_create(struct worker *worker, struct error *err)
{
    const struct server_config *config = worker->server->config;
    char platform_host[256];
    host_of(config->platform_url, platform_host, sizeof platform_host);
    return ingress_create(worker->loop,
                          &(struct ingress_options){
                              .listen = config->ingress_listen,
                              .tls = tls_context_ssl(worker->server->ingress_tls),
                              .connections = &worker->server->ingress_connections,
                              .open = &worker->ingress_open,
                              .addresses = worker->server->ingress_addresses,
                              .accounts = worker->server->ingress_accounts,
                              .http2_streams_max = (unsigned)config->ingress_http2_streams_max,
                              .buffered_bytes_max = (size_t)config->ingress_buffered_bytes_max,
                              .head_bytes_max = (size_t)config->head_bytes_max,
                              .hsts_max_age_ms = (uint64_t)config->tls_hsts_max_age_ms,
                              .head_timeout_ms = (uint64_t)config->ingress_head_timeout_ms,
                              .idle_timeout_ms = (uint64_t)config->ingress_idle_timeout_ms,
                              .stall_timeout_ms = (uint64_t)config->ingress_stall_timeout_ms,
                              .may_transfer = may_transfer,
                              .transfer = transfer,
                              .ctx = worker,
                              .calls = call_options(worker, platform_host),
                          },
                          err);
}
