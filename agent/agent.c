#include "agent/agent.h"

#include <stdio.h>
#include <string.h>

#include "agent/admin.h"
#include "agent/agent_process_settings.h"
#include "agent/app_proxy/app_proxy_graphql.h"
#include "agent/argo/argocd_settings.h"
#include "agent/calls/calls.h"
#include "agent/calls/router.h"
#include "agent/calls/router_settings.h"
#include "agent/calls/upstream_http2.h"
#include "agent/calls/upstream_pool.h"
#include "agent/logs/logs.h"
#include "agent/logs/logs_settings.h"
#include "agent/operations/agent_operation_settings.h"
#include "agent/operations/operations.h"
#include "agent/reports/reporter.h"
#include "agent/reports/reporter_settings.h"
#include "agent/tunnel/platform_settings.h"
#include "agent/tunnel/runtime_settings.h"
#include "agent/tunnel/tls.h"
#include "agent/tunnel/tunnel_client.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

// What the log and /readyz add to the reason.
static const char kubeconfig_cure[] = "it is read again every kubeconfig.retry_interval; see docs/operations.md, "
                                      "\"A kubeconfig for the agent\"";

struct agent {
    const struct config *config;
    struct loop *loop;
    struct timer retry;                // reads the kubeconfig again; closed: it could be used
    char unreadable[ERROR_TEXT_BYTES]; // why it cannot be used
    struct agent_router *router;
    struct agent_tls *tls; // for services; NULL: none of them wants it
    struct upstream_pool *pool;
    struct upstream_http2 *http2;
    struct reporter *reporter;
    struct operation_rights *rights;
    struct operations *operations;
    struct logs *logs;
    struct app_proxy_graphql *app_proxy;
    struct agent_calls *calls;
    struct tunnel_client *tunnel;
    struct agent_admin *admin;
    bool draining;
};

static void on_request(void *arg, struct agent_stream *stream, struct agent_tunnel_trust *trust)
{
    struct agent *agent = arg;
    agent_calls_accept(agent->calls, stream, trust);
}

// Before the cluster can be read none is taken, and the platform sends it again.
static void on_operation(void *arg, const struct wire_control *operation)
{
    struct agent *agent = arg;
    if (agent->operations && !agent->draining) operations_take(agent->operations, operation);
}

static bool report_operation(void *arg, const struct wire_control *state)
{
    return tunnel_client_send_control(((struct agent *)arg)->tunnel, state);
}

static uint64_t outbox_depth(void *arg)
{
    const struct agent *agent = arg;
    return agent->reporter ? reporter_outbox_depth(agent->reporter) : 0;
}

static void lag(void *arg, uint64_t *out_behind_ms, uint64_t *out_blind_ms)
{
    const struct agent *agent = arg;
    *out_behind_ms = *out_blind_ms = 0;
    if (agent->reporter) reporter_lag(agent->reporter, out_behind_ms, out_blind_ms);
}

static bool is_ready(void *arg, struct strbuf *why)
{
    struct agent *agent = arg;
    struct tunnel_client_info info;
    tunnel_client_get_info(agent->tunnel, &info);
    if (agent->draining)
        strbuf_add_c(why, "stopping\n");
    else if (!info.online && !info.standby)
        strbuf_addf(why, "tunnel: %s\n", info.reason);
    if (timer_is_open(&agent->retry)) strbuf_addf(why, "cluster: %s; %s\n", agent->unreadable, kubeconfig_cure);
    bool reads = !timer_is_open(&agent->retry) && (!agent->reporter || reporter_is_ready(agent->reporter, why));
    return (info.online || info.standby) && !agent->draining && reads; // a standby is as ready as it can be
}

static enum error_code create_reporter(struct agent *agent, struct loop *loop, struct error *err)
{
    const struct config *config = agent->config;
    const struct reporter_settings *reporter = reporter_settings_of(config);
    const struct argocd_settings *argocd = argocd_settings_of(config);
    const struct reporter_options options = {
        .kubeconfig = reporter->kubeconfig,
        .exec_forbidden = !reporter->kubeconfig_exec,
        .exec_timeout_ms = (uint64_t)reporter->kubeconfig_exec_timeout_ms,
        .cluster_name = reporter->cluster_name,
        .cluster_aliases = reporter->cluster_aliases,
        .namespaces = reporter->namespaces,
        .state_folder = reporter->state_dir,
        .redaction = {.open_paths = str_c(reporter->open_paths),
                      .open_labels = str_c(reporter->open_labels),
                      .open_annotations = str_c(reporter->open_annotations)},
        .clusters = reporter->clusters,
        .cluster_secrets = reporter->cluster_secrets,
        .cluster_interval_ms = (uint64_t)reporter->cluster_interval_ms,
        .managed_clusters = reporter->managed_clusters,
        .managed_objects_max = (size_t)reporter->managed_objects_max,
        .kubernetes_events = reporter->kubernetes_events,
        .kubernetes_events_max = (size_t)reporter->kubernetes_events_max,
        .kubernetes_events_per_second = (unsigned)reporter->kubernetes_events_per_second,
        .argo = {.url = argocd->url,
                 .token_file = argocd->token_file,
                 .ca_file = argocd->ca_file,
                 .timeout_ms = (uint64_t)argocd->timeout_ms,
                 .interval_ms = (uint64_t)argocd->interval_ms,
                 .refresh_ms = (uint64_t)argocd->refresh_interval_ms,
                 .bytes_max = (uint64_t)argocd->bytes_max,
                 .requests_max = (unsigned)argocd->requests_max,
                 .nodes_max = (uint64_t)argocd->nodes_max,
                 .commits_max = (uint64_t)argocd->commits_max},
        .probe_interval_ms = (uint64_t)reporter->probe_interval_ms,
        .probe_timeout_ms = (uint64_t)reporter->probe_timeout_ms,
        .outbox = {.objects_max = (size_t)reporter->objects_max,
                   .burst = (unsigned)reporter->object_burst,
                   .interval_ms = (uint64_t)reporter->object_interval_ms,
                   .changes_per_second = (unsigned)reporter->changes_per_second},
    };
    if (!reporter->enabled) return ERROR_NONE;
    agent->reporter = reporter_create_with(loop, &options, err);
    return agent->reporter ? ERROR_NONE : error_prefix(err, "reporter");
}

static enum error_code create_logs(struct agent *agent, struct error *err)
{
    enum { LOOK_MS = 5000 };
    const struct logs_settings *settings = logs_settings_of(agent->config);
    struct kube_client *client = NULL; // its own: logs that are followed hold connections
    if (agent->reporter) {
        client = kube_client_create_beside(reporter_kube_client(agent->reporter), err);
        if (!client) return ERROR_INTERNAL;
    }
    agent->logs = logs_create(
        agent->loop, client,
        &(struct logs_options){.rights = agent->rights,
                               .destinations = agent->reporter ? reporter_destinations(agent->reporter) : NULL,
                               .calls_max = (size_t)settings->calls_max,
                               .containers_max = (size_t)settings->containers_max,
                               .look_ms = LOOK_MS});
    return ERROR_NONE;
}

static void create_calls(struct agent *agent)
{
    const struct config *config = agent->config;
    const struct runtime_settings *runtime = runtime_settings_of(config);
    agent->calls = agent_calls_create(&(struct agent_calls_options){
        .router = agent->router,
        .pool = agent->pool,
        .http2 = agent->http2,
        .reporter = agent->reporter,
        .runtime = runtime->name,
        .app_proxy = {.graphql = agent->app_proxy, .logs = agent->logs},
    });
}

static void create_app_proxy(struct agent *agent)
{
    struct kube_client *client = agent->reporter ? reporter_kube_client(agent->reporter) : NULL;
    agent->app_proxy = app_proxy_graphql_create(
        agent->loop, &(struct app_proxy_graphql_options){.client = client,
                                                         .operations = agent->operations,
                                                         .version = CULVERT_VERSION,
                                                         .platform_host = platform_settings_of(agent->config)->url});
}

static void create_operations(struct agent *agent)
{
    const struct config *config = agent->config;
    const struct agent_operation_settings *operations = agent_operation_settings_of(config);
    agent->operations =
        operations_create(agent->loop, &(struct operations_options){
                                           .client = agent->reporter ? reporter_kube_client(agent->reporter) : NULL,
                                           .rights = agent->rights,
                                           .held_max = (size_t)operations->held_max,
                                           .at_once_max = (unsigned)operations->at_once_max,
                                           .follow_ms = (uint64_t)operations->follow_ms,
                                           .report = report_operation,
                                           .arg = agent,
                                       });
}

static void on_retry(void *arg);

static void end_retries(struct agent *agent)
{
    timer_finish(&agent->retry);
}

// Reads the kubeconfig. One that cannot be used is reported once, and read again from time to time: a process that
// ends is started again and again, and its message is lost among those starts.
static void take_cluster(struct agent *agent)
{
    struct error err = {0};
    if (create_reporter(agent, agent->loop, &err) == ERROR_NONE && create_logs(agent, &err) == ERROR_NONE) {
        end_retries(agent);
        create_operations(agent);
        create_app_proxy(agent);
        create_calls(agent);
        return;
    }
    if (strcmp(agent->unreadable, err.text) != 0)
        log_error("agent", "kubeconfig_unusable", log_err(&err), log_c("cure", kubeconfig_cure));
    snprintf(agent->unreadable, sizeof agent->unreadable, "%s", err.text);
    if (timer_is_open(&agent->retry)) return;
    uint64_t interval_ms = (uint64_t)reporter_settings_of(agent->config)->kubeconfig_retry_interval_ms;
    timer_init(&agent->retry, loop_uv(agent->loop), on_retry, agent);
    timer_start(&agent->retry, interval_ms, interval_ms);
}

static void on_retry(void *arg)
{
    struct agent *agent = arg;
    take_cluster(agent);
    if (timer_is_open(&agent->retry) || agent->draining) return;
    log_info("agent", "kubeconfig_usable");
    agent_start(agent);
}

static enum error_code create_parts(struct agent *agent, struct loop *loop, struct error *err)
{
    static const struct tunnel_client_events events = {
        .on_request = on_request, .on_operation = on_operation, .outbox_depth = outbox_depth, .lag = lag};
    const struct config *config = agent->config;
    const struct agent_operation_settings *operations = agent_operation_settings_of(config);
    const struct router_settings *router = router_settings_of(config);
    const struct agent_process_settings *process = agent_process_settings_of(config);
    if (operation_rights_create(str_c(operations->allowed), &agent->rights, err) != ERROR_NONE)
        return error_prefix(err, "operations.allowed");
    agent->router = agent_router_create(router, err);
    if (!agent->router) return ERROR_INVALID;
    if (agent_router_needs_tls(agent->router)) {
        agent->tls = agent_tls_create(&(struct agent_tls_options){.ca_file = router->ca_file, .pins = ""}, err);
        if (!agent->tls) return error_prefix(err, "router.ca_file");
    }
    agent->pool = upstream_pool_create(loop_uv(loop), (uint64_t)router->connect_timeout_ms, agent->tls);
    agent->http2 = upstream_http2_create(agent->pool);
    agent->tunnel = tunnel_client_create(loop, config, &events, agent, err);
    if (!agent->tunnel) return ERROR_INVALID;
    take_cluster(agent);
    if (!process->admin_listen[0]) return ERROR_NONE;
    agent->admin = agent_admin_create(loop_uv(loop), str_c(process->admin_listen), is_ready, agent, err);
    return agent->admin ? ERROR_NONE : ERROR_INVALID;
}

struct agent *agent_create(struct loop *loop, const struct config *config, struct error *err)
{
    struct agent *agent = mem_zalloc(sizeof(*agent));
    agent->config = config;
    agent->loop = loop;
    metric_set(metric_with(metrics_gauge("culvert_build_info", "Always 1; the label has the version.", "version", NULL),
                           CULVERT_VERSION),
               1);
    if (create_parts(agent, loop, err) == ERROR_NONE) return agent;
    agent_destroy(agent);
    return NULL;
}

void agent_start(struct agent *agent)
{
    if (!timer_is_open(&agent->retry)) tunnel_client_start(agent->tunnel);
}

void agent_reload(struct agent *agent)
{
    struct error err = {0};
    if (tunnel_client_reload(agent->tunnel, &err))
        log_error("agent", "reload_failed", log_err(&err));
    else
        log_info("agent", "reloaded");
}

void agent_drain(struct agent *agent, loop_fn on_done, void *arg)
{
    if (agent->draining) return;
    agent->draining = true;
    if (agent->calls) agent_calls_stop_reports(agent->calls);
    tunnel_client_drain(agent->tunnel, (uint64_t)agent_process_settings_of(agent->config)->shutdown_deadline_ms,
                        on_done, arg);
}

void agent_destroy(struct agent *agent)
{
    if (!agent) return;
    end_retries(agent);
    agent_admin_destroy(agent->admin);
    tunnel_client_destroy(agent->tunnel); // its streams tell calls, upstreams and reporter
    agent_calls_destroy(agent->calls);
    operations_destroy(agent->operations);
    app_proxy_graphql_destroy(agent->app_proxy);
    logs_destroy(agent->logs);
    operation_rights_destroy(agent->rights);
    reporter_destroy(agent->reporter);
    upstream_http2_destroy(agent->http2);
    upstream_pool_destroy(agent->pool);
    agent_tls_destroy(agent->tls);
    agent_router_destroy(agent->router);
    mem_free(agent);
}
