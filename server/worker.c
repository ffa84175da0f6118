#include "server/worker.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "modules/schema_sdl.h"
#include "server/chores/grants.h"
#include "server/chores/sweeper.h"
#include "server/chores/traffic.h"
#include "server/http/admin_door.h"
#include "server/http/api_door.h"
#include "server/ingress/ingress.h"
#include "server/intake/intake.h"
#include "server/operations/operation_sender.h"
#include "server/sessions/registry.h"
#include "server/sessions/sessions.h"
#include "server/worker_endpoints.h"
#include "server/worker_peers.h"

enum {
    REDIS_PENDING_MAX = 4096,
    REFUSED_TTL_MS = 5000,
    ANSWER_BYTES_MAX = 64 * 1024 * 1024,
    GRAPHQL_ALIASES_MAX = 30,
    GRAPHQL_DIRECTIVES_MAX = 50,
    GRAPHQL_ROOT_FIELDS_MAX = 20,
};

// While a worker starts: the main thread waits for its loop.
struct worker_start {
    struct worker *worker;
    uv_sem_t opened;
    struct error err;
};

// ---- start ---------------------------------------------------------------------------------------------------------

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

static enum error_code open_storage(struct worker *worker, struct error *err)
{
    const struct server_config *config = worker->server->config;
    struct purpose_key column_key;
    deployment_key_derive(worker->server->deployment_key, SERVER_COLUMN_KEY, &column_key);
    char settings[SERVER_STORAGE_SETTINGS_BYTES];
    server_config_storage_settings(config, settings);
    worker->pg =
        pg_create(worker->loop, &(struct pg_options){
                                    .conninfo = worker->server->database_conninfo,
                                    .connections = (unsigned)config->database_connections,
                                    .queue_max = (size_t)config->database_queue_max,
                                    .statement_timeout_ms = (uint64_t)config->database_statement_timeout_ms,
                                    .slow_statement_timeout_ms = (uint64_t)config->database_slow_statement_timeout_ms,
                                    .statements_max = (size_t)config->database_statements_max,
                                    .checks_login = true,
                                    .column_key = &column_key,
                                    .settings = settings,
                                    .losses = &worker->server->database_losses,
                                });
    purpose_key_finish(&column_key);
    worker->redis = redis_create(worker->loop,
                                 &(struct redis_options){
                                     .url = worker->server->redis_url,
                                     .password_file = config->redis_password_file,
                                     .allow_plaintext = config->redis_allow_plaintext,
                                     .ca_file = config->redis_tls_ca_file,
                                     .certificate_file = config->redis_tls_certificate_file,
                                     .key_file = config->redis_tls_key_file,
                                     .timeout_ms = (uint64_t)config->redis_timeout_ms,
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

// Who carries which runtime's calls, and the hop to other replicas.
static void open_sessions(struct worker *worker)
{
    const struct server_config *config = worker->server->config;
    struct purpose_key key;
    deployment_key_derive(worker->server->deployment_key, "redis directory", &key);
    worker->registry = registry_create(&(struct registry_options){
        .pg = worker->pg,
        .redis = worker->redis,
        .key = key,
        .broker = worker->server->broker,
        .replica = config->node_name,
        .address = config->peer_address,
        .supersedes = loop_index(worker->loop) == 0,
        .entries_max = (size_t)config->registry_entries_max,
    });
    purpose_key_finish(&key);
    worker->peers = worker_peers_create(worker);
    worker->sessions = sessions_create(worker->loop, &(struct sessions_options){
                                                         .pg = worker->pg,
                                                         .registry = worker->registry,
                                                         .broker = worker->server->broker,
                                                         .replica = config->node_name,
                                                         .peer_address = config->peer_address,
                                                         .lease_ttl_ms = (uint64_t)config->lease_ttl_ms,
                                                         .ends_max = 2 * (size_t)config->tunnel_sessions_max,
                                                         .renews = loop_index(worker->loop) == 0,
                                                         .may_open = &worker->server->sessions_may_open,
                                                     });
}

static void open_intake(struct worker *worker)
{
    const struct server_config *config = worker->server->config;
    int64_t transactions = config->reports_transactions ? config->reports_transactions : config->database_connections;
    worker->intake =
        intake_create(worker->loop, &(struct intake_options){
                                        .pg = worker->pg,
                                        .redis = worker->redis,
                                        .traffic = worker->traffic,
                                        .rabbitmq = worker->server->rabbitmq,
                                        .kinds = &worker->server->modules.report_kinds,
                                        .known = worker->server->manifests,
                                        .batch_count = (uint64_t)config->reports_batch_count,
                                        .batch_bytes = (uint64_t)config->reports_batch_bytes,
                                        .batch_delay_ms = (uint64_t)config->reports_batch_delay_ms,
                                        .queue_bytes_max = (uint64_t)config->reports_queue_bytes_max,
                                        .transactions_max = (uint64_t)transactions,
                                        .account_share = (uint64_t)config->reports_account_share,
                                        .runtime_share = (uint64_t)config->reports_runtime_share,
                                        .unpacked_per_second = (uint64_t)config->reports_unpacked_per_second,
                                        .noise_burst = (uint64_t)config->reports_noise_burst,
                                        .noise_interval_ms = (uint64_t)config->reports_noise_interval_ms,
                                    });
}

static void open_api(struct worker *worker)
{
    const struct server_config *config = worker->server->config;
    worker->auth = api_auth_create(worker->pg, &(struct api_auth_options){.find_runtime_token = find_runtime_token,
                                                                          .check_failures = check_failures,
                                                                          .note_failure = note_failure,
                                                                          .note_success = note_success,
                                                                          .ctx = worker,
                                                                          .refused_ttl_ms = REFUSED_TTL_MS});
    worker->grants = grants_create(
        worker->loop, &(struct grants_options){.pg = worker->pg, .grace_ms = (uint64_t)config->credentials_grace_ms});
    struct purpose_key key;
    deployment_key_derive(worker->server->deployment_key, "redis answers", &key);
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
        .query_cost_max = (uint64_t)config->graphql_cost_max,
        .plans_max = (size_t)config->graphql_plans_max,
        .limits = {.tokens_max = (size_t)config->graphql_tokens_max,
                   .depth_max = (unsigned)config->graphql_depth_max,
                   .aliases_max = GRAPHQL_ALIASES_MAX,
                   .directives_max = GRAPHQL_DIRECTIVES_MAX,
                   .root_fields_max = GRAPHQL_ROOT_FIELDS_MAX,
                   .introspection_refused = !config->graphql_introspection},
        .compress_bytes_min = (size_t)config->api_compress_bytes_min,
        .compress_bytes_max = (size_t)config->api_compress_bytes_max,
        .body_bytes_max = (size_t)config->api_body_bytes_max,
        .events_bytes_max = (size_t)config->api_events_bytes_max,
        .answer_bytes_max = ANSWER_BYTES_MAX,
        .cache_key = key,
        .cache_answer_bytes_max = (size_t)config->cache_answer_bytes_max,
        .cache_slower_than_us = (uint64_t)config->cache_slower_than_ms * 1000,
        .cache_ttl_ms = (uint64_t)config->cache_ttl_ms,
        .cache_patience_ms = (uint64_t)config->cache_patience_ms,
        .redaction = worker->server->redaction,
        .submit_reports = submit_reports,
        .on_call = on_call,
        .on_tokens_changed = on_tokens_changed,
        .session_idle_ms = (uint64_t)config->sessions_idle_max_ms,
        .session_life_ms = (uint64_t)config->sessions_life_max_ms,
        .sign_in_link_life_ms = (uint64_t)config->sessions_link_life_ms,
        .sessions_per_user_max = (unsigned)config->sessions_per_user_max,
        .on_operation = on_operation,
        .operations_open_max = (uint64_t)config->operations_open_max,
        .runtime_tokens_valid_max = (unsigned)config->runtime_tokens_valid_max,
        .rotation_grace_ms = (uint64_t)config->runtime_tokens_rotation_grace_ms,
        .ctx = worker,
    });
    purpose_key_finish(&key);
}

static void open_operations(struct worker *worker)
{
    const struct server_config *config = worker->server->config;
    worker->operations =
        operation_sender_create(worker->loop, &(struct operation_sender_options){
                                                  .pg = worker->pg,
                                                  .broker = worker->server->broker,
                                                  .replica = config->node_name,
                                                  .sends = loop_index(worker->loop) == 0,
                                                  .interval_ms = (uint64_t)config->operations_interval_ms,
                                                  .resend_ms = (uint64_t)config->operations_resend_after_ms,
                                                  .run_ms = (uint64_t)config->operations_run_max_ms,
                                                  .rows = (unsigned)config->operations_batch_count,
                                              });
}

// What one loop does for all.
static void open_chores(struct worker *worker)
{
    const int64_t day_ms = 24 * 60 * 60 * INT64_C(1000);
    const struct server_config *config = worker->server->config;
    runtime_tokens_start(worker->server->tokens, worker->loop, worker->pg);
    worker->sweeper =
        sweeper_create(worker->loop, &(struct sweeper_options){
                                         .pg = worker->pg,
                                         .interval_ms = (uint64_t)config->sweep_interval_ms,
                                         .sweeps = worker->server->modules.sweeps,
                                         .sweep_count = worker->server->modules.sweep_count,
                                         .keep = {.events_days = (unsigned)(config->events_keep_ms / day_ms),
                                                  .history_days = (unsigned)(config->history_keep_ms / day_ms)},
                                     });
}

static void open_services(struct worker *worker)
{
    open_sessions(worker);
    worker->traffic = traffic_create(worker->loop, worker->redis);
    open_intake(worker);
    open_operations(worker);
    open_api(worker);
    if (loop_index(worker->loop) == 0) open_chores(worker);
}

static enum error_code open_doors(struct worker *worker, struct error *err)
{
    struct server *server = worker->server;
    worker->node = tunnel_node_create(server->broker, worker->loop, err);
    if (!worker->node) return err->code;
    intake_set_node(worker->intake, worker->node);
    worker->api = worker_api_create(worker, err);
    if (!worker->api) return err->code;
    worker->ingress = worker_ingress_create(worker, err);
    if (!worker->ingress) return err->code;
    if (worker_peers_open_door(worker->peers, err) != ERROR_NONE) return err->code;
    if (loop_index(worker->loop) != 0) return ERROR_NONE;
    worker->admin = admin_door_create(worker->loop,
                                      &(struct admin_door_options){
                                          .listen = server->config->admin_listen,
                                          .checks = checks,
                                          .check_count = sizeof checks / sizeof *checks,
                                          .ctx = worker,
                                      },
                                      err);
    return worker->admin ? ERROR_NONE : err->code;
}

static void open_all(void *arg)
{
    struct worker_start *start = arg;
    struct worker *worker = start->worker;
    if (open_storage(worker, &start->err) == ERROR_NONE) {
        open_services(worker);
        if (open_doors(worker, &start->err) == ERROR_NONE) start->err.code = ERROR_NONE;
    }
    uv_sem_post(&start->opened);
}

struct worker *worker_create(struct server *server, unsigned index, struct error *err)
{
    struct worker *worker = mem_zalloc(sizeof *worker);
    worker->server = server;
    char name[16];
    snprintf(name, sizeof name, "loop-%u", index);
    worker->loop = loop_create(name, index);
    if (loop_start(worker->loop, err) != ERROR_NONE) {
        loop_destroy(worker->loop);
        mem_free(worker);
        return NULL;
    }
    server->workers[index] = worker; // its node's callbacks look it up there
    struct worker_start start = {.worker = worker};
    uv_sem_init(&start.opened, 0);
    loop_post(worker->loop, open_all, &start);
    uv_sem_wait(&start.opened);
    uv_sem_destroy(&start.opened);
    if (start.err.code == ERROR_NONE) return worker;
    *err = start.err;
    worker_drain(worker, 0);
    worker_join(worker);
    worker_destroy(worker);
    server->workers[index] = NULL;
    return NULL;
}

// ---- end -----------------------------------------------------------------------------------------------------------

void worker_join(struct worker *worker)
{
    loop_join(worker->loop);
}

void worker_destroy(struct worker *worker)
{
    if (!worker) return;
    // h2o's contexts must end outside any callback of their loop, so here, where the loop no longer runs.
    api_door_destroy(worker->api);
    admin_door_destroy(worker->admin);
    ingress_destroy(worker->ingress);
    worker->ingress = NULL; // connections may still be on their way here
    loop_destroy(worker->loop);
    mem_free(worker);
}

// ---- reload --------------------------------------------------------------------------------------------------------

struct new_tls {
    struct worker *worker;
    SSL_CTX *api, *ingress; // references of ours
    struct peer_tls peer;   // NULL: there is no peer door
};

static void take_tls(void *arg)
{
    struct new_tls *new_tls = arg;
    struct worker *worker = new_tls->worker;
    struct error err;
    api_door_set_tls(worker->api, new_tls->api);
    ingress_set_tls(worker->ingress, new_tls->ingress);
    if (new_tls->peer.door) worker_peers_set_tls(worker->peers, new_tls->peer.door, new_tls->peer.link);
    if (tunnel_node_reload_tls(worker->node, &err) != ERROR_NONE) log_error("worker", "reload_refused", log_err(&err));
    SSL_CTX_free(new_tls->api);
    SSL_CTX_free(new_tls->ingress);
    peer_tls_finish(&new_tls->peer);
    mem_free(new_tls);
}

void worker_reload_tls(struct worker *worker)
{
    struct new_tls *new_tls = mem_alloc(sizeof *new_tls);
    *new_tls = (struct new_tls){.worker = worker,
                                .api = tls_context_ssl(worker->server->api_tls),
                                .ingress = tls_context_ssl(worker->server->ingress_tls),
                                .peer = worker->server->peer_tls};
    if (new_tls->peer.door) SSL_CTX_up_ref(new_tls->peer.door);
    if (new_tls->peer.link) SSL_CTX_up_ref(new_tls->peer.link);
    SSL_CTX_up_ref(new_tls->api);
    SSL_CTX_up_ref(new_tls->ingress);
    loop_post(worker->loop, take_tls, new_tls);
}
