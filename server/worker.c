#include "server/worker.h"

#include <string.h>

#include "api/api.h"
#include "api/api_settings.h"
#include "base/mem.h"
#include "modules/schema_sdl.h"
#include "server/chores/credential_watch.h"
#include "server/chores/retention_settings.h"
#include "server/chores/sweeper.h"
#include "server/chores/traffic.h"
#include "server/drain_settings.h"
#include "server/ingress/ingress_settings.h"
#include "server/intake/intake.h"
#include "server/intake/report_settings.h"
#include "server/listener_settings.h"
#include "server/operations/operation_sender.h"
#include "server/peer/peer_settings.h"
#include "server/process_settings.h"
#include "server/sessions/registry.h"
#include "server/sessions/sessions.h"
#include "server/worker_changes.h"
#include "server/worker_part.h"
#include "server/worker_peers.h"
#include "storage/operations/operation_settings.h"
#include "storage/pg/database_settings.h"
#include "storage/redis/redis_settings.h"
#include "storage/reports/storage_settings.h"
#include "tunnel/tunnel_settings.h"

enum {
    REDIS_PENDING_MAX = 4096,
    REFUSED_TTL_MS = 5000,
    ANSWER_BYTES_MAX = 64 * 1024 * 1024,
    GRAPHQL_ALIASES_MAX = 30,
    GRAPHQL_DIRECTIVES_MAX = 50,
    GRAPHQL_ROOT_FIELDS_MAX = 20,
};

// ---- start ---------------------------------------------------------------------------------------------------------

static enum error_code start_pg(struct worker *worker, struct error *err)
{
    (void)err;
    const struct config *config = worker->server->config;
    const struct database_settings *database = database_settings_of(config);
    struct purpose_key column_key;
    deployment_key_derive(worker->server->deployment_key, SERVER_COLUMN_KEY, &column_key);
    char settings[STORAGE_SETTINGS_BYTES];
    storage_settings_write(storage_settings_of(config), settings);
    worker->pg = pg_create(worker->loop, &(struct pg_options){
                                             .conninfo = worker->server->database_conninfo,
                                             .connections = (unsigned)database->connections,
                                             .queue_max = (size_t)database->queue_max,
                                             .statement_timeout_ms = (uint64_t)database->statement_timeout_ms,
                                             .slow_statement_timeout_ms = (uint64_t)database->slow_statement_timeout_ms,
                                             .statements_max = (size_t)database->statements_max,
                                             .checks_login = true,
                                             .column_key = &column_key,
                                             .settings = settings,
                                             .losses = &worker->server->database_losses,
                                         });
    purpose_key_finish(&column_key);
    return ERROR_NONE;
}

static enum error_code start_redis(struct worker *worker, struct error *err)
{
    const struct redis_settings *redis = redis_settings_of(worker->server->config);
    worker->redis = redis_create(worker->loop,
                                 &(struct redis_options){
                                     .url = worker->server->redis_url,
                                     .password_file = redis->password_file,
                                     .allow_plaintext = redis->allow_plaintext,
                                     .ca_file = redis->tls_ca_file,
                                     .certificate_file = redis->tls_certificate_file,
                                     .key_file = redis->tls_key_file,
                                     .timeout_ms = (uint64_t)redis->timeout_ms,
                                     .pending_max = REDIS_PENDING_MAX,
                                 },
                                 err);
    return worker->redis ? ERROR_NONE : err->code;
}

static void submit_reports(void *ctx, const struct report *reports, size_t count, api_reports_done done, void *arg)
{
    struct worker *worker = ctx;
    intake_take_http(worker->intake, reports, count, done, arg);
}

static void on_call(void *ctx, const char *account_id)
{
    struct worker *worker = ctx;
    traffic_count_call(worker->traffic, str_c(account_id));
}

static void on_tokens_changed(void *ctx)
{
    struct worker *worker = ctx;
    runtime_tokens_refresh(worker->server->tokens);
}

static void wake_operations(void *arg)
{
    operation_sender_wake(((struct worker *)arg)->operations);
}

static void on_operation(void *ctx)
{
    struct worker *sender = ((struct worker *)ctx)->server->workers[0];
    loop_post(sender->loop, wake_operations, sender);
}

static enum error_code find_runtime_token(void *ctx, const struct token *token, struct api_principal *out,
                                          struct error *err)
{
    struct worker *worker = ctx;
    struct runtime_tokens_found found;
    enum error_code code = runtime_tokens_find(worker->server->tokens, token, &found, err);
    if (code != ERROR_NONE) return code;
    const struct tunnel_identity *identity = &found.identity;
    code = api_principal_from(&(struct principal){.kind = PRINCIPAL_RUNTIME,
                                                  .method = PRINCIPAL_BY_RUNTIME_TOKEN,
                                                  .account_id = str_c(identity->account_id),
                                                  .account_name = str_c(found.account_name),
                                                  .runtime = str_c(identity->runtime),
                                                  .runtime_id = str_c(identity->runtime_id),
                                                  .token_id = str_c(identity->token_id)},
                              out, err);
    explicit_bzero(&found, sizeof found);
    return code;
}

static enum error_code check_failures(void *ctx, struct str remote, const struct token *token, struct error *err)
{
    struct worker *worker = ctx;
    return failed_sign_ins_check(worker->server->failed_sign_ins, remote, token, err);
}

static void note_success(void *ctx, const struct token *token)
{
    struct worker *worker = ctx;
    failed_sign_ins_note_good(worker->server->failed_sign_ins, token);
}

static void note_failure(void *ctx, struct str remote, struct str key_id)
{
    struct worker *worker = ctx;
    failed_sign_ins_note(worker->server->failed_sign_ins, remote, key_id);
}

// Who carries which runtime's calls.
static enum error_code start_registry(struct worker *worker, struct error *err)
{
    (void)err;
    const struct config *config = worker->server->config;
    const struct process_settings *process = process_settings_of(config);
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct peer_settings *peer = peer_settings_of(config);
    struct purpose_key key;
    deployment_key_derive(worker->server->deployment_key, "redis directory", &key);
    worker->registry = registry_create(&(struct registry_options){
        .pg = worker->pg,
        .redis = worker->redis,
        .key = key,
        .broker = worker->server->broker,
        .replica = process->node_name,
        .address = listeners->peer_address,
        .supersedes = loop_index(worker->loop) == 0,
        .entries_max = (size_t)peer->registry_entries_max,
    });
    purpose_key_finish(&key);
    return ERROR_NONE;
}

static enum error_code start_sessions(struct worker *worker, struct error *err)
{
    (void)err;
    const struct process_settings *process = process_settings_of(worker->server->config);
    const struct listener_settings *listeners = listener_settings_of(worker->server->config);
    const struct tunnel_settings *tunnel = tunnel_settings_of(worker->server->config);
    worker->sessions = sessions_create(worker->loop, &(struct sessions_options){
                                                         .pg = worker->pg,
                                                         .registry = worker->registry,
                                                         .broker = worker->server->broker,
                                                         .replica = process->node_name,
                                                         .peer_address = listeners->peer_address,
                                                         .lease_ttl_ms = (uint64_t)tunnel->lease_ttl_ms,
                                                         .ends_max = 2 * (size_t)tunnel->sessions_max,
                                                         .renews = loop_index(worker->loop) == 0,
                                                         .on_changed = worker_changes_of_runtime,
                                                         .ctx = worker,
                                                         .may_open = &worker->server->sessions_may_open,
                                                     });
    return ERROR_NONE;
}

static enum error_code start_intake(struct worker *worker, struct error *err)
{
    (void)err;
    const struct config *config = worker->server->config;
    const struct database_settings *database = database_settings_of(config);
    const struct report_settings *reports = report_settings_of(config);
    int64_t transactions = reports->transactions ? reports->transactions : database->connections;
    worker->intake = intake_create(worker->loop, &(struct intake_options){
                                                     .pg = worker->pg,
                                                     .on_committed = worker_changes_of_reports,
                                                     .ctx = worker,
                                                     .traffic = worker->traffic,
                                                     .rabbitmq = worker->server->rabbitmq,
                                                     .kinds = &worker->server->modules.report_kinds,
                                                     .known = worker->server->manifests,
                                                     .batch_count = (uint64_t)reports->batch_count,
                                                     .batch_bytes = (uint64_t)reports->batch_bytes,
                                                     .batch_delay_ms = (uint64_t)reports->batch_delay_ms,
                                                     .queue_bytes_max = (uint64_t)reports->queue_bytes_max,
                                                     .transactions_max = (uint64_t)transactions,
                                                     .account_share = (uint64_t)reports->account_share,
                                                     .runtime_share = (uint64_t)reports->runtime_share,
                                                     .unpacked_per_second = (uint64_t)reports->unpacked_per_second,
                                                     .flapping_burst = (uint64_t)reports->flapping_burst,
                                                     .flapping_interval_ms = (uint64_t)reports->flapping_interval_ms,
                                                 });
    return ERROR_NONE;
}

static enum error_code start_api(struct worker *worker, struct error *err)
{
    (void)err;
    const struct config *config = worker->server->config;
    const struct redis_settings *redis = redis_settings_of(config);
    const struct api_settings *api = api_settings_of(config);
    const struct ingress_settings *ingress = ingress_settings_of(config);
    worker->auth = api_auth_create(worker->pg, &(struct api_auth_options){.find_runtime_token = find_runtime_token,
                                                                          .check_failures = check_failures,
                                                                          .note_failure = note_failure,
                                                                          .note_success = note_success,
                                                                          .ctx = worker,
                                                                          .refused_ttl_ms = REFUSED_TTL_MS});
    worker->credential_watch = credential_watch_create(
        worker->loop,
        &(struct credential_watch_options){.pg = worker->pg, .grace_ms = (uint64_t)ingress->credentials_grace_ms});
    struct purpose_key key;
    deployment_key_derive(worker->server->deployment_key, "redis answers", &key);
    const struct live_options live = worker_live_options(worker);
    worker->api_core = api_create(&(struct api_options){
        .loop = worker->loop,
        .pg = worker->pg,
        .redis = worker->redis,
        .auth = worker->auth,
        .schema = worker->server->schema,
        .sdl = str_of(schema_sdl, schema_sdl_bytes),
        .resolvers = worker->server->modules.resolvers,
        .resolver_count = worker->server->modules.resolver_count,
        .routes = worker->server->modules.routes,
        .route_count = worker->server->modules.route_count,
        .stored = worker->server->stored_routes,
        .query_cost_max = (uint64_t)api->graphql_cost_max,
        .plans_max = (size_t)api->graphql_plans_max,
        .documents_max = (size_t)api->graphql_documents_max,
        .documents = worker->server->documents,
        .documents_only = api->graphql_documents_only,
        .counts_max = (size_t)api->graphql_counts_max,
        .count_interval_ms = (uint64_t)api->graphql_count_interval_ms,
        .limits = {.tokens_max = (size_t)api->graphql_tokens_max,
                   .depth_max = (unsigned)api->graphql_depth_max,
                   .aliases_max = GRAPHQL_ALIASES_MAX,
                   .directives_max = GRAPHQL_DIRECTIVES_MAX,
                   .root_fields_max = GRAPHQL_ROOT_FIELDS_MAX,
                   .introspection_refused = !api->graphql_introspection},
        .compress_bytes_min = (size_t)api->compress_bytes_min,
        .compress_bytes_max = (size_t)api->compress_bytes_max,
        .body_bytes_max = (size_t)api->body_bytes_max,
        .events_bytes_max = (size_t)api->events_bytes_max,
        .answer_bytes_max = ANSWER_BYTES_MAX,
        .cache_key = key,
        .cache_answer_bytes_max = (size_t)redis->cache_answer_bytes_max,
        .cache_slower_than_us = (uint64_t)redis->cache_slower_than_ms * 1000,
        .cache_ttl_ms = (uint64_t)redis->cache_ttl_ms,
        .cache_patience_ms = (uint64_t)redis->cache_patience_ms,
        .redaction = worker->server->redaction,
        .submit_reports = submit_reports,
        .on_call = on_call,
        .on_tokens_changed = on_tokens_changed,
        .live = &live,
        .oidc = worker->server->oidc,
        .rates = worker->server->request_rates,
        .config = config,
        .on_operation = on_operation,
        .ctx = worker,
    });
    purpose_key_finish(&key);
    return ERROR_NONE;
}

static enum error_code start_operations(struct worker *worker, struct error *err)
{
    (void)err;
    const struct config *config = worker->server->config;
    const struct process_settings *process = process_settings_of(config);
    const struct operation_settings *operations = operation_settings_of(config);
    worker->operations = operation_sender_create(worker->loop, &(struct operation_sender_options){
                                                                   .pg = worker->pg,
                                                                   .broker = worker->server->broker,
                                                                   .replica = process->node_name,
                                                                   .sends = loop_index(worker->loop) == 0,
                                                                   .interval_ms = (uint64_t)operations->interval_ms,
                                                                   .resend_ms = (uint64_t)operations->resend_after_ms,
                                                                   .run_ms = (uint64_t)operations->run_max_ms,
                                                                   .rows = (unsigned)operations->batch_count,
                                                               });
    return ERROR_NONE;
}

static enum error_code start_sweeper(struct worker *worker, struct error *err)
{
    (void)err;
    const int64_t day_ms = 24 * 60 * 60 * INT64_C(1000);
    const struct config *config = worker->server->config;
    const struct retention_settings *retention = retention_settings_of(config);
    worker->sweeper = sweeper_create(
        worker->loop, &(struct sweeper_options){
                          .pg = worker->pg,
                          .interval_ms = (uint64_t)retention->sweep_interval_ms,
                          .sweeps = worker->server->modules.sweeps,
                          .sweep_count = worker->server->modules.sweep_count,
                          .keep = {.events_days = (unsigned)(retention->events_keep_ms / day_ms),
                                   .history_days = (unsigned)(retention->history_keep_ms / day_ms),
                                   .transitions_days = (unsigned)(retention->transitions_keep_ms / day_ms),
                                   .transitions_per_hour = (unsigned)retention->transitions_object_per_hour_max,
                                   .transitions_per_account = retention->transitions_account_max,
                                   .kubernetes_events_days = (unsigned)(retention->kubernetes_events_keep_ms / day_ms),
                                   .kubernetes_events_per_account = retention->kubernetes_events_account_max},
                      });
    return ERROR_NONE;
}

static enum error_code start_traffic(struct worker *worker, struct error *err)
{
    (void)err;
    worker->traffic = traffic_create(worker->loop, worker->redis);
    return ERROR_NONE;
}

static enum error_code start_tokens(struct worker *worker, struct error *err)
{
    (void)err;
    runtime_tokens_start(worker->server->tokens, worker->loop, worker->pg);
    return ERROR_NONE;
}

static enum error_code start_node(struct worker *worker, struct error *err)
{
    worker->node = tunnel_node_create(worker->server->broker, worker->loop, err);
    if (!worker->node) return err->code;
    intake_set_node(worker->intake, worker->node);
    return ERROR_NONE;
}

// ---- the end of parts ---------------------------------------------------------------------------

static void close_pg(struct worker *worker, loop_fn done, void *arg)
{
    if (worker->pg)
        pg_close(worker->pg, done, arg);
    else
        done(arg);
    worker->pg = NULL;
}

static void close_redis(struct worker *worker, loop_fn done, void *arg)
{
    if (worker->redis)
        redis_close(worker->redis, done, arg);
    else
        done(arg);
    worker->redis = NULL;
}

static void destroy_traffic(struct worker *worker)
{
    traffic_destroy(worker->traffic);
    worker->traffic = NULL;
}

static void stop_registry(struct worker *worker)
{
    registry_stop(worker->registry);
}

static void destroy_registry(struct worker *worker)
{
    registry_destroy(worker->registry);
    worker->registry = NULL;
}

static void stop_sessions(struct worker *worker)
{
    sessions_stop(worker->sessions);
}

static void destroy_sessions(struct worker *worker)
{
    sessions_destroy(worker->sessions);
    worker->sessions = NULL;
}

static void stop_api(struct worker *worker)
{
    credential_watch_stop(worker->credential_watch);
}

static void destroy_api(struct worker *worker)
{
    api_auth_destroy(worker->auth);
    credential_watch_destroy(worker->credential_watch);
    api_destroy(worker->api_core);
    worker->auth = NULL;
    worker->credential_watch = NULL;
    worker->api_core = NULL;
}

static void stop_operations(struct worker *worker)
{
    operation_sender_stop(worker->operations);
}

static void destroy_operations(struct worker *worker)
{
    operation_sender_destroy(worker->operations);
    worker->operations = NULL;
}

static void destroy_sweeper(struct worker *worker)
{
    sweeper_destroy(worker->sweeper);
    worker->sweeper = NULL;
}

static void stop_intake(struct worker *worker)
{
    intake_stop(worker->intake);
}

static bool intake_idle(const struct worker *worker)
{
    return !worker->intake || intake_is_idle(worker->intake);
}

static void destroy_intake(struct worker *worker)
{
    intake_destroy(worker->intake);
    worker->intake = NULL;
}

static void destroy_tokens(struct worker *worker)
{
    if (loop_index(worker->loop) == 0) runtime_tokens_stop(worker->server->tokens);
}

static void drain_node(struct worker *worker, loop_fn done, void *arg)
{
    const struct drain_settings *settings = drain_settings_of(worker->server->config);
    if (worker->node)
        tunnel_node_drain(worker->node, (uint64_t)settings->spread_ms, (uint64_t)settings->deadline_ms, done, arg);
    else
        done(arg);
}

static void stop_node(struct worker *worker)
{
    if (!worker->node) return;
    intake_set_node(worker->intake, NULL);
    tunnel_node_destroy(worker->node);
    worker->node = NULL;
}

// ---- the list -----------------------------------------------------------------------------------

// Two parts have two lines. PostgreSQL is there before all that ask it, and is closed before they
// are destroyed: they learn what failed. The registry answers until the last session is gone.
// clang-format off
static const struct worker_part
    postgres = {.start = start_pg},
    redis = {.start = start_redis, .close = close_redis},
    traffic = {.start = start_traffic, .destroy = destroy_traffic},
    registry = {.start = start_registry, .destroy = destroy_registry},
    sessions = {.start = start_sessions, .stop = stop_sessions, .destroy = destroy_sessions},
    api = {.start = start_api, .stop = stop_api, .destroy = destroy_api},
    operations = {.start = start_operations, .stop = stop_operations, .destroy = destroy_operations},
    sweeper = {.first_loop_alone = true, .start = start_sweeper, .destroy = destroy_sweeper},
    intake = {.start = start_intake, .is_idle = intake_idle, .stop = stop_intake, .destroy = destroy_intake},
    postgres_end = {.close = close_pg},
    tokens = {.first_loop_alone = true, .start = start_tokens, .destroy = destroy_tokens},
    node = {.start = start_node, .drain = drain_node, .stop = stop_node},
    registry_end = {.stop = stop_registry};

const struct worker_part *const worker_parts[] = {
    &postgres,
    &redis,
    &traffic,
    &registry,
    &sessions,
    &api,
    &operations,
    &sweeper,
    &intake,
    &postgres_end,
    &tokens,
    &worker_part_changes,
    &worker_part_peers,
    &node,
    &registry_end,
    &worker_part_api_listener,
    &worker_part_ingress,
    &worker_part_peer_listener,
    &worker_part_admin_listener,
    NULL,
};
// clang-format on
