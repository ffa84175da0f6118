#include "server/server.h"

#include <string.h>

#include "api/access/audit_store.h"
#include "api/access/browser_session_store.h"
#include "api/access/request_rates.h"
#include "api/access/runtime_token_settings.h"
#include "api/api_settings.h"
#include "api/graphql/document_cache.h"
#include "api/live/live_settings.h"
#include "api/oidc/oidc.h"
#include "api/rest/mcp.h"
#include "api/rest/openapi.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log/log.h"
#include "base/loop/listener.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "migrations/migrations.h"
#include "modules/schema_sdl.h"
#include "server/bus/bus_settings.h"
#include "server/bus/rabbitmq.h"
#include "server/chores/authentication_settings.h"
#include "server/chores/enrollments.h"
#include "server/drain_settings.h"
#include "server/ingress/ingress_settings.h"
#include "server/intake/intake.h"
#include "server/intake/report_settings.h"
#include "server/listener_settings.h"
#include "server/process_settings.h"
#include "server/security_settings.h"
#include "server/server_broker.h"
#include "server/tls/tls_settings.h"
#include "server/ui/ui_embedded.h"
#include "server/ui/ui_files.h"
#include "server/ui/ui_settings.h"
#include "server/worker.h"
#include "storage/manifests/manifest_known.h"
#include "storage/pg/database_settings.h"
#include "storage/redis/redis_settings.h"
#include "tunnel/wire/redaction.h"

enum {
    TOKENS_REFRESH_MS = 1000,
};

static void on_token_ended(void *ctx, const struct tunnel_identity *identity, const char *reason)
{
    struct server *server = ctx;
    tunnel_broker_revoke(server->broker, identity->account_id, identity->runtime, identity->token_id, reason);
}

static void on_session_in_use(void *arg, const struct tunnel_session_info *session)
{
    struct server *server = arg;
    runtime_tokens_note_use(server->tokens, session->identity.token_id);
}

// An agent says its token once and may stay for months.
static void on_collect_uses(void *ctx)
{
    struct server *server = ctx;
    tunnel_broker_each_session(server->broker, on_session_in_use, server);
}

static bool is_proxy(void *ctx, struct str address)
{
    const struct server *server = ctx;
    return trusted_proxies_have(&server->proxies, address);
}

// Caps that hold for all loops together.
static enum error_code set_caps(struct server *server, struct error *err)
{
    const struct config *config = server->config;
    const struct api_settings *api = api_settings_of(config);
    const struct ingress_settings *ingress = ingress_settings_of(config);
    const struct live_settings *live = live_settings_of(config);
    server->live_streams.max = (size_t)live->streams_max;
    server->live_accounts = connection_limiter_create((size_t)live->streams_per_account_max);
    server->live_users = connection_limiter_create((size_t)live->streams_per_user_max);
    server->api_connections.max = (size_t)api->connections_max;
    server->ingress_connections.max = (size_t)ingress->connections_max;
    server->api_addresses = connection_limiter_create((size_t)api->connections_per_address_max);
    server->ingress_addresses = connection_limiter_create((size_t)ingress->connections_per_address_max);
    server->ingress_accounts = connection_limiter_create((size_t)ingress->connections_per_account_max);
    return trusted_proxies_parse(str_c(ingress->trusted_proxies), &server->proxies, err);
}

static enum error_code create_rabbitmq(struct server *server, struct error *err)
{
    const struct config *config = server->config;
    const struct process_settings *process = process_settings_of(config);
    const struct bus_settings *bus = bus_settings_of(config);
    if (strcmp(bus->kind, "rabbitmq") != 0) return ERROR_NONE;
    char *url;
    enum error_code code = config_secret(bus->url, &url, err);
    if (code != ERROR_NONE) return code;
    struct purpose_key key;
    deployment_key_derive(server->deployment_key, "bus messages", &key);
    server->rabbitmq = rabbitmq_create(
        &(struct rabbitmq_options){
            .key = key,
            .allow_plaintext = bus->allow_plaintext,
            .accept_unsigned = bus->accept_unsigned,
            .message_age_max_ms = (uint64_t)bus->message_age_max_ms,
            .replica = process->node_name,
            .url = url,
            .password_file = bus->password_file,
            .ca_file = bus->tls_ca_file,
            .certificate_file = bus->tls_certificate_file,
            .key_file = bus->tls_key_file,
            .prefix = bus->prefix,
            .shards = (uint64_t)bus->shards,
            .window = (uint64_t)bus->window,
            .window_bytes = (uint64_t)bus->window_bytes,
            .message_count = (uint64_t)bus->message_count,
            .message_bytes = (uint64_t)bus->message_bytes,
            .prefetch = (uint64_t)bus->prefetch,
            .confirm_timeout_ms = (uint64_t)bus->confirm_timeout_ms,
            .connect_timeout_ms = (uint64_t)bus->connect_timeout_ms,
            .heartbeat_ms = (uint64_t)bus->heartbeat_ms,
            .delivery_limit = (uint64_t)bus->delivery_limit,
            .queue_bytes_max = (uint64_t)bus->queue_bytes_max,
            .dead_letters_max = (uint64_t)bus->dead_letters_max,
        },
        err);
    mem_free_secret(url, strlen(url));
    purpose_key_finish(&key);
    if (server->rabbitmq && bus->accept_unsigned)
        log_warn("server", "unsigned_messages_accepted", log_c("setting", "rabbitmq.accept_unsigned"));
    return server->rabbitmq ? ERROR_NONE : err->code;
}

// ---- start ---------------------------------------------------------------------------------------------------------

// All replicas make the same digests, also after a restart: their key comes from the one that they share.
static enum error_code load_redaction(struct server *server, struct error *err)
{
    const struct config *config = server->config;
    const struct report_settings *reports = report_settings_of(config);
    struct metric_family *values = metrics_counter(
        "culvert_redacted_values_total", "Values of manifests over HTTP that are not kept as they came.", "how", NULL);
    const struct redaction_options options = {.digested = metric_with(values, "digested"),
                                              .scrubbed = metric_with(values, "scrubbed"),
                                              .open_paths = str_c(reports->open_paths),
                                              .open_labels = str_c(reports->open_labels),
                                              .open_annotations = str_c(reports->open_annotations)};
    struct purpose_key key;
    deployment_key_derive(server->deployment_key, "digests of reports over HTTP", &key);
    enum error_code code = redaction_create(key.bytes[0], &options, &server->redaction, err);
    purpose_key_finish(&key);
    return code;
}

static enum error_code load_secrets(struct server *server, struct error *err)
{
    const struct config *config = server->config;
    const struct security_settings *security = security_settings_of(config);
    const struct database_settings *database = database_settings_of(config);
    const struct redis_settings *redis = redis_settings_of(config);
    enum error_code code = deployment_key_load(security->deployment_key_file, security->deployment_key_previous_file,
                                               &server->deployment_key, err);
    if (code == ERROR_NONE) code = load_redaction(server, err);
    if (code == ERROR_NONE) code = config_secret(database->url, &server->database_conninfo, err);
    if (code != ERROR_NONE) return code;
    return config_secret(redis->url, &server->redis_url, err);
}

static enum error_code load_tls(const struct config *config, struct tls_context **out_api,
                                struct tls_context **out_ingress, struct error *err)
{
    const struct tls_settings *tls = tls_settings_of(config);
    bool http2 = ingress_settings_of(config)->http2;
    bool own = tls->ingress_certificate_file[0] != '\0';
    struct tls_context *api = tls_context_create(tls->certificate_file, tls->key_file, false, err);
    if (!api) return err->code;
    struct tls_context *ingress = tls_context_create(own ? tls->ingress_certificate_file : tls->certificate_file,
                                                     own ? tls->ingress_key_file : tls->key_file, http2, err);
    if (!ingress) {
        tls_context_destroy(api);
        return err->code;
    }
    *out_api = api;
    *out_ingress = ingress;
    return ERROR_NONE;
}

static enum error_code load_peer_tls(const struct config *config, struct peer_tls *out, struct error *err)
{
    const struct listener_settings *listeners = listener_settings_of(config);
    const struct tls_settings *tls = tls_settings_of(config);
    if (!listeners->peer[0]) return ERROR_NONE;
    return peer_tls_init(out, tls->peer_certificate_file, tls->peer_key_file, tls->peer_ca_file, err);
}

// A database that can be reached must be fit: durable, at our version, and our login without privileges that the
// server does not need. One that is away is waited for: readiness
// stays false until it is there, and each new connection is checked again.
static enum error_code check_database(struct server *server, struct error *err)
{
    enum error_code code = pg_server_check(server->database_conninfo, true, err);
    if (code == ERROR_NONE) code = migrations_check(server->database_conninfo, err);
    if (code != ERROR_UNAVAILABLE) return code;
    log_warn("server", "database_unavailable_at_start", log_err(err));
    return ERROR_NONE;
}

static enum error_code load_ui(struct server *server, struct error *err)
{
    const struct ui_settings *ui = ui_settings_of(server->config);
    struct str base_path = str_c(ui->base_path);
    if (!ui->enabled) return ERROR_NONE;
    if (ui->file[0])
        server->ui = ui_files_open(ui->file, base_path, err);
    else if (ui_embedded_pack().len)
        server->ui = ui_files_create(ui_embedded_pack(), base_path, err);
    else
        return ERROR_NONE;
    return server->ui ? ERROR_NONE : err->code;
}

// All loops share a port by SO_REUSEPORT, and so would a second culvertd, without a word.
static enum error_code check_addresses(struct server *server, struct error *err)
{
    const struct listener_settings *listeners = listener_settings_of(server->config);
    const char *const addresses[] = {listeners->api, listeners->admin, listeners->tunnel, listeners->ingress,
                                     listeners->peer};
    if (listeners->shared) return ERROR_NONE;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        if (!addresses[i][0]) continue;
        enum error_code code = listener_probe(str_c(addresses[i]), err);
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}

static unsigned loops_wanted(const struct config *config)
{
    const struct process_settings *process = process_settings_of(config);
    if (process->loops > 0) return (unsigned)process->loops;
    unsigned processors = uv_available_parallelism();
    return processors < SERVER_WORKERS_MAX ? processors : SERVER_WORKERS_MAX;
}

static enum error_code start_tls(struct server *server, struct error *err)
{
    return load_tls(server->config, &server->api_tls, &server->ingress_tls, err);
}

static enum error_code start_peer_tls(struct server *server, struct error *err)
{
    return load_peer_tls(server->config, &server->peer_tls, err);
}

static enum error_code start_failed_sign_ins(struct server *server, struct error *err)
{
    (void)err;
    const struct authentication_settings *authentication = authentication_settings_of(server->config);
    server->failed_sign_ins = failed_sign_ins_create(&(struct failed_sign_ins_options){
        .per_address = (unsigned)authentication->failures_per_address,
        .per_key = (unsigned)authentication->failures_per_key,
        .is_proxy = is_proxy,
        .ctx = server,
    });
    return ERROR_NONE;
}

static enum error_code start_request_rates(struct server *server, struct error *err)
{
    (void)err;
    const struct api_settings *api = api_settings_of(server->config);
    server->request_rates =
        request_rates_create((uint64_t)api->account_requests_per_second, (uint64_t)api->user_requests_per_second);
    return ERROR_NONE;
}

static enum error_code start_oidc(struct server *server, struct error *err)
{
    struct purpose_key key;
    deployment_key_derive(server->deployment_key, "sign-in attempts", &key);
    enum error_code code = oidc_create(sign_in_settings_of(server->config),
                                       listener_settings_of(server->config)->platform_url, &key, &server->oidc, err);
    purpose_key_finish(&key);
    return code;
}

static void on_enrolled(void *ctx)
{
    struct server *server = ctx;
    runtime_tokens_refresh(server->tokens);
}

static enum error_code start_enrollments(struct server *server, struct error *err)
{
    (void)err;
    const struct runtime_token_settings *tokens = runtime_token_settings_of(server->config);
    server->enrollments = enrollments_create(&(struct enrollments_options){
        .failed = server->failed_sign_ins,
        .per_second = (unsigned)tokens->enrollments_per_second,
        .is_proxy = is_proxy,
        .on_enrolled = on_enrolled,
        .ctx = server,
    });
    return ERROR_NONE;
}

static enum error_code start_tokens(struct server *server, struct error *err)
{
    (void)err;
    const struct runtime_token_settings *tokens = runtime_token_settings_of(server->config);
    server->tokens = runtime_tokens_create(&(struct runtime_tokens_options){
        .refresh_ms = TOKENS_REFRESH_MS,
        .used_interval_ms = (uint64_t)tokens->used_interval_ms,
        .sessions_per_minute = (unsigned)tokens->sessions_per_minute,
        .on_ended = on_token_ended,
        .on_collect_uses = on_collect_uses,
        .ctx = server,
        .expects_sealed = true,
        .tokens_changed = runtime_token_store_changed,
        .note_use = runtime_token_store_note_use,
    });
    return ERROR_NONE;
}

static enum error_code start_modules(struct server *server, struct error *err)
{
    module_tables_init(&server->modules, modules);
    module_tables_add_sweeps(&server->modules, runtime_token_store_sweeps, 1);
    module_tables_add_sweeps(&server->modules, browser_session_store_sweeps, 1);
    module_tables_add_sweeps(&server->modules, audit_store_sweeps, 1);
    module_tables_add_sweeps(&server->modules, report_store_sweeps, report_store_sweep_count);
    server->schema = gql_schema_create(str_of(schema_sdl, schema_sdl_bytes), err);
    if (!server->schema) return err->code;
    enum error_code code =
        stored_routes_create(str_of(rest_routes, rest_routes_bytes), server->schema, &server->stored_routes, err);
    if (code == ERROR_NONE) code = openapi_write(server->stored_routes, server->schema, err);
    if (code == ERROR_NONE) mcp_write_tools(server->stored_routes, server->schema);
    const char *documents = api_settings_of(server->config)->graphql_documents_file;
    return code == ERROR_NONE && *documents ? document_list_load(documents, &server->documents, err) : code;
}

static enum error_code start_manifests(struct server *server, struct error *err)
{
    (void)err;
    server->manifests = manifest_known_create();
    return ERROR_NONE;
}

static enum error_code start_workers(struct server *server, struct error *err)
{
    unsigned wanted = loops_wanted(server->config);
    for (unsigned i = 0; i < wanted; i++) {
        if (!worker_create(server, i, err)) return err->code;
        server->worker_count++;
    }
    return server->rabbitmq ? rabbitmq_start(server->rabbitmq, err) : ERROR_NONE;
}

// ---- end of parts: each accepts what was not started --------------------------------------------

static void free_secret(char *secret)
{
    if (secret) mem_free_secret(secret, strlen(secret));
}

static void free_secrets(struct server *server)
{
    free_secret(server->database_conninfo);
    free_secret(server->redis_url);
    redaction_destroy(server->redaction);
    deployment_key_destroy(server->deployment_key);
}

static void free_caps(struct server *server)
{
    connection_limiter_destroy(server->live_accounts);
    connection_limiter_destroy(server->live_users);
    connection_limiter_destroy(server->api_addresses);
    connection_limiter_destroy(server->ingress_addresses);
    connection_limiter_destroy(server->ingress_accounts);
}

static void destroy_tls(struct server *server)
{
    tls_context_destroy(server->api_tls);
    tls_context_destroy(server->ingress_tls);
}

static void finish_peer_tls(struct server *server)
{
    peer_tls_finish(&server->peer_tls);
}

static void destroy_ui(struct server *server)
{
    ui_files_destroy(server->ui);
}

static void destroy_failed_sign_ins(struct server *server)
{
    failed_sign_ins_destroy(server->failed_sign_ins);
}

static void destroy_request_rates(struct server *server)
{
    request_rates_destroy(server->request_rates);
}

static void destroy_oidc(struct server *server)
{
    oidc_destroy(server->oidc);
}

static void destroy_enrollments(struct server *server)
{
    enrollments_destroy(server->enrollments);
}

static void destroy_tokens(struct server *server)
{
    runtime_tokens_destroy(server->tokens);
}

static void finish_modules(struct server *server)
{
    json_decref(server->documents);
    stored_routes_destroy(server->stored_routes);
    gql_schema_destroy(server->schema);
    module_tables_finish(&server->modules);
}

static void destroy_broker(struct server *server)
{
    tunnel_broker_destroy(server->broker);
}

static void destroy_manifests(struct server *server)
{
    manifest_known_destroy(server->manifests);
}

static void destroy_rabbitmq(struct server *server)
{
    rabbitmq_destroy(server->rabbitmq);
}

static void destroy_workers(struct server *server)
{
    for (unsigned i = server->worker_count; i-- > 0;)
        worker_destroy(server->workers[i]);
}

// What all workers share, in the order of the start; destroyed against it.
static const struct server_part {
    enum error_code (*start)(struct server *server, struct error *err);
    void (*destroy)(struct server *server);
} parts[] = {
    {load_secrets, free_secrets},
    {set_caps, free_caps},
    {start_tls, destroy_tls},
    {start_peer_tls, finish_peer_tls},
    {load_ui, destroy_ui},
    {check_addresses, NULL},
    {check_database, NULL},
    {start_failed_sign_ins, destroy_failed_sign_ins},
    {start_request_rates, destroy_request_rates},
    {start_oidc, destroy_oidc},
    {start_tokens, destroy_tokens},
    {start_enrollments, destroy_enrollments},
    {start_modules, finish_modules},
    {server_broker_start, destroy_broker},
    {start_manifests, destroy_manifests},
    {create_rabbitmq, destroy_rabbitmq},
    {start_workers, destroy_workers},
};
enum { PARTS = sizeof parts / sizeof *parts };

static enum error_code start(struct server *server, struct error *err)
{
    for (size_t i = 0; i < PARTS; i++) {
        enum error_code code = parts[i].start(server, err);
        if (code != ERROR_NONE) return code;
    }
    server->is_up = true;
    return ERROR_NONE;
}

struct server *server_create(const struct config *config, struct error *err)
{
    struct server *server = mem_zalloc(sizeof *server);
    server->config = config;
    server->started_ms = clock_mono_ms();
    id_uuid7(server->origin);
    if (start(server, err) == ERROR_NONE) return server;
    server_drain(server);
    server_destroy(server);
    return NULL;
}

// ---- end -----------------------------------------------------------------------------------------------------------

void server_drain(struct server *server)
{
    const struct drain_settings *drain = drain_settings_of(server->config);
    atomic_store(&server->draining, true);
    rabbitmq_retire(server->rabbitmq); // another replica goes on with what is in the queues
    for (unsigned i = 0; i < server->worker_count; i++)
        worker_drain(server->workers[i], server->is_up ? (uint64_t)drain->lame_duck_ms : 0);
    for (unsigned i = 0; i < server->worker_count; i++)
        worker_join(server->workers[i]);
    rabbitmq_stop(server->rabbitmq);
}

void server_destroy(struct server *server)
{
    if (!server) return;
    for (size_t i = PARTS; i-- > 0;)
        if (parts[i].destroy) parts[i].destroy(server);
    mem_free(server);
}

// ---- reload --------------------------------------------------------------------------------------------------------

enum error_code server_reload(struct server *server, struct error *err)
{
    struct tls_context *api = NULL, *ingress = NULL;
    struct peer_tls peer = {0};
    enum error_code code = load_peer_tls(server->config, &peer, err);
    if (code == ERROR_NONE) code = load_tls(server->config, &api, &ingress, err);
    if (code != ERROR_NONE) {
        peer_tls_finish(&peer);
        return code;
    }
    peer_tls_finish(&server->peer_tls);
    server->peer_tls = peer;
    tls_context_destroy(server->api_tls);
    tls_context_destroy(server->ingress_tls);
    server->api_tls = api;
    server->ingress_tls = ingress;
    for (unsigned i = 0; i < server->worker_count; i++)
        worker_reload_tls(server->workers[i]);
    return ERROR_NONE;
}
