#include "server/server.h"

#include <string.h>

#include "api/access/audit_store.h"
#include "api/access/browser_session_store.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/loop/listener.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "migrations/migrations.h"
#include "modules/schema_sdl.h"
#include "server/bus/rabbitmq.h"
#include "server/intake/intake.h"
#include "server/operations/operation_sender.h"
#include "server/sessions/sessions.h"
#include "server/ui/ui_embedded.h"
#include "server/ui/ui_files.h"
#include "server/worker.h"
#include "server/worker_peers.h"
#include "storage/manifests/manifest_known.h"
#include "tunnel/wire/redaction.h"

enum {
    TOKENS_REFRESH_MS = 1000,
    TOKENS_WAIT_MS = 10 * 1000, // so long agents wait for the first reading of the tokens
};

// ---- the broker's callbacks: each goes to the worker whose node asks
// -------------------------------------------------

static struct worker *worker_of(void *ctx, const struct tunnel_node *node)
{
    struct server *server = ctx;
    return server->workers[tunnel_node_index(node)];
}

static enum error_code authenticate(void *ctx, struct tunnel_node *node, const struct tunnel_credential *credential,
                                    struct tunnel_identity *out, struct error *err)
{
    (void)node;
    struct server *server = ctx;
    struct error limit;
    struct str remote = str_c(credential->remote);
    enum error_code code = runtime_tokens_authenticate(server->tokens, credential, out, err);
    if (code != ERROR_UNAUTHENTICATED) return code;
    if (failed_sign_ins_check(server->failed_sign_ins, remote, NULL, &limit) != ERROR_NONE)
        return error_set(err, ERROR_LIMITED, "%s", limit.text);
    failed_sign_ins_note(server->failed_sign_ins, remote, STR_EMPTY);
    return code;
}

static void on_session_opening(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    sessions_on_opening(worker_of(ctx, node)->sessions, node, session);
}

static void on_session_open(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    sessions_on_open(worker_of(ctx, node)->sessions, session);
}

static void on_session_retired(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session)
{
    sessions_on_retired(worker_of(ctx, node)->sessions, session);
}

static void on_session_closed(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                              const char *reason)
{
    struct worker *worker = worker_of(ctx, node);
    intake_forget_session(worker->intake, session->ref);
    sessions_on_closed(worker->sessions, session, reason);
}

static void on_session_lag(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                           uint64_t behind_ms, uint64_t blind_ms)
{
    sessions_on_lag(worker_of(ctx, node)->sessions, session, behind_ms, blind_ms);
}

static void on_session_operation(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                                 const struct wire_control *control)
{
    operation_sender_take(worker_of(ctx, node)->operations, session, control);
}

static bool on_report(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                      const struct wire_report *report)
{
    return intake_take_tunnel(worker_of(ctx, node)->intake, session, report);
}

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

// Agents that came back before their tokens were read would all be told to come again. A database that is away is not
// waited for: then they are told so.
static bool may_come(void *ctx)
{
    const struct server *server = ctx;
    return runtime_tokens_are_known(server->tokens) || clock_mono_ms() - server->started_ms >= TOKENS_WAIT_MS;
}

static bool is_proxy(void *ctx, struct str address)
{
    const struct server *server = ctx;
    return trusted_proxies_have(&server->proxies, address);
}

// Caps that hold for all loops together.
static enum error_code set_caps(struct server *server, struct error *err)
{
    const struct server_config *config = server->config;
    server->api_connections.max = (size_t)config->api_connections_max;
    server->ingress_connections.max = (size_t)config->ingress_connections_max;
    server->api_addresses = census_create((size_t)config->api_connections_per_address_max);
    server->ingress_addresses = census_create((size_t)config->ingress_connections_per_address_max);
    server->ingress_accounts = census_create((size_t)config->ingress_connections_per_account_max);
    return trusted_proxies_parse(str_c(config->ingress_trusted_proxies), &server->proxies, err);
}

static bool is_valid(void *ctx, const struct tunnel_identity *identity)
{
    struct server *server = ctx;
    return runtime_tokens_has(server->tokens, identity);
}

static struct tunnel_broker *create_broker(struct server *server, struct error *err)
{
    const struct server_config *config = server->config;
    bool own = config->tunnel_tls_certificate_file[0] != '\0';
    struct tunnel_options options = {
        .listen = config->tunnel_listen,
        .tls_certificate_file = own ? config->tunnel_tls_certificate_file : config->tls_certificate_file,
        .tls_key_file = own ? config->tunnel_tls_key_file : config->tls_key_file,
        .sessions_max = (unsigned)config->tunnel_sessions_max,
        .streams_max = (unsigned)config->tunnel_streams_max,
        .ping_after_ms = (uint64_t)config->tunnel_ping_after_ms,
        .dead_after_ms = (uint64_t)config->tunnel_dead_after_ms,
        .head_timeout_ms = (uint64_t)config->tunnel_head_timeout_ms,
        .buffered_bytes_max = (uint64_t)config->tunnel_buffered_bytes_max,
        .account_buffered_bytes_max = (uint64_t)config->tunnel_account_buffered_bytes_max,
        .node_buffered_bytes_max = (uint64_t)config->tunnel_node_buffered_bytes_max,
        .handshakes_per_second = (unsigned)config->tunnel_handshakes_per_second,
        .handshakes_per_address = (unsigned)config->tunnel_handshakes_per_address,
        .sessions_per_address = (unsigned)config->tunnel_sessions_per_address,
        .may_come = may_come,
        .is_proxy = is_proxy,
        .ctx = server,
        .authenticate = authenticate,
        .is_valid = is_valid,
        .on_session_opening = on_session_opening,
        .on_session_open = on_session_open,
        .on_session_retired = on_session_retired,
        .on_session_closed = on_session_closed,
        .on_session_lag = on_session_lag,
        .on_session_operation = on_session_operation,
        .on_report = on_report,
        .carrier = &worker_peers_carrier,
    };
    return tunnel_broker_create(&options, err);
}

static enum error_code create_rabbitmq(struct server *server, struct error *err)
{
    const struct server_config *config = server->config;
    if (strcmp(config->bus, "rabbitmq") != 0) return ERROR_NONE;
    char *url;
    enum error_code code = server_config_secret(config->rabbitmq_url, &url, err);
    if (code != ERROR_NONE) return code;
    struct purpose_key key;
    deployment_key_derive(server->deployment_key, "bus messages", &key);
    server->rabbitmq = rabbitmq_create(
        &(struct rabbitmq_options){
            .key = key,
            .allow_plaintext = config->rabbitmq_allow_plaintext,
            .accept_unsigned = config->rabbitmq_accept_unsigned,
            .message_age_max_ms = (uint64_t)config->rabbitmq_message_age_max_ms,
            .replica = config->node_name,
            .url = url,
            .password_file = config->rabbitmq_password_file,
            .ca_file = config->rabbitmq_tls_ca_file,
            .certificate_file = config->rabbitmq_tls_certificate_file,
            .key_file = config->rabbitmq_tls_key_file,
            .prefix = config->rabbitmq_prefix,
            .shards = (uint64_t)config->rabbitmq_shards,
            .window = (uint64_t)config->rabbitmq_window,
            .window_bytes = (uint64_t)config->rabbitmq_window_bytes,
            .message_count = (uint64_t)config->rabbitmq_message_count,
            .message_bytes = (uint64_t)config->rabbitmq_message_bytes,
            .prefetch = (uint64_t)config->rabbitmq_prefetch,
            .confirm_timeout_ms = (uint64_t)config->rabbitmq_confirm_timeout_ms,
            .connect_timeout_ms = (uint64_t)config->rabbitmq_connect_timeout_ms,
            .heartbeat_ms = (uint64_t)config->rabbitmq_heartbeat_ms,
            .delivery_limit = (uint64_t)config->rabbitmq_delivery_limit,
            .queue_bytes_max = (uint64_t)config->rabbitmq_queue_bytes_max,
            .dead_letters_max = (uint64_t)config->rabbitmq_dead_letters_max,
        },
        err);
    mem_free_secret(url, strlen(url));
    purpose_key_finish(&key);
    if (server->rabbitmq && config->rabbitmq_accept_unsigned)
        log_warn("server", "unsigned_messages_accepted", log_c("setting", "rabbitmq.accept_unsigned"));
    return server->rabbitmq ? ERROR_NONE : err->code;
}

// ---- start ---------------------------------------------------------------------------------------------------------

// All replicas make the same digests, also after a restart: their key comes from the one that they share.
static enum error_code load_redaction(struct server *server, struct error *err)
{
    const struct server_config *config = server->config;
    struct metric_family *values = metrics_counter(
        "culvert_redacted_values_total", "Values of manifests over HTTP that are not kept as they came.", "how", NULL);
    const struct redaction_options options = {.digested = metric_with(values, "digested"),
                                              .scrubbed = metric_with(values, "scrubbed"),
                                              .open_paths = str_c(config->reports_open_paths),
                                              .open_labels = str_c(config->reports_open_labels),
                                              .open_annotations = str_c(config->reports_open_annotations)};
    struct purpose_key key;
    deployment_key_derive(server->deployment_key, "digests of reports over HTTP", &key);
    enum error_code code = redaction_create(key.bytes[0], &options, &server->redaction, err);
    purpose_key_finish(&key);
    return code;
}

static enum error_code load_secrets(struct server *server, struct error *err)
{
    const struct server_config *config = server->config;
    enum error_code code =
        deployment_key_load(config->security_deployment_key_file, config->security_deployment_key_previous_file,
                            &server->deployment_key, err);
    if (code == ERROR_NONE) code = load_redaction(server, err);
    if (code == ERROR_NONE) code = server_config_secret(config->database_url, &server->database_conninfo, err);
    if (code != ERROR_NONE) return code;
    return server_config_secret(config->redis_url, &server->redis_url, err);
}

static enum error_code load_tls(const struct server_config *config, struct tls_context **out_api,
                                struct tls_context **out_ingress, struct error *err)
{
    bool own = config->ingress_tls_certificate_file[0] != '\0';
    struct tls_context *api = tls_context_create(config->tls_certificate_file, config->tls_key_file, false, err);
    if (!api) return err->code;
    struct tls_context *ingress =
        tls_context_create(own ? config->ingress_tls_certificate_file : config->tls_certificate_file,
                           own ? config->ingress_tls_key_file : config->tls_key_file, config->ingress_http2, err);
    if (!ingress) {
        tls_context_destroy(api);
        return err->code;
    }
    *out_api = api;
    *out_ingress = ingress;
    return ERROR_NONE;
}

static enum error_code load_peer_tls(const struct server_config *config, struct peer_tls *out, struct error *err)
{
    if (!config->peer_listen[0]) return ERROR_NONE;
    return peer_tls_init(out, config->peer_tls_certificate_file, config->peer_tls_key_file, config->peer_tls_ca_file,
                         err);
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
    const struct server_config *config = server->config;
    struct str base_path = str_c(config->ui_base_path);
    if (!config->ui_enabled) return ERROR_NONE;
    if (config->ui_file[0])
        server->ui = ui_files_open(config->ui_file, base_path, err);
    else if (ui_embedded_pack().len)
        server->ui = ui_files_create(ui_embedded_pack(), base_path, err);
    else
        return ERROR_NONE;
    return server->ui ? ERROR_NONE : err->code;
}

// All loops share a port by SO_REUSEPORT, and so would a second culvertd, without a word.
static enum error_code check_addresses(const struct server_config *config, struct error *err)
{
    const char *const addresses[] = {config->api_listen, config->admin_listen, config->tunnel_listen,
                                     config->ingress_listen, config->peer_listen};
    if (config->listen_shared) return ERROR_NONE;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        if (!addresses[i][0]) continue;
        enum error_code code = listener_probe(str_c(addresses[i]), err);
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}

static unsigned loops_wanted(const struct server_config *config)
{
    if (config->loops > 0) return (unsigned)config->loops;
    unsigned processors = uv_available_parallelism();
    return processors < SERVER_WORKERS_MAX ? processors : SERVER_WORKERS_MAX;
}

static enum error_code start(struct server *server, struct error *err)
{
    enum error_code code = load_secrets(server, err);
    if (code == ERROR_NONE) code = set_caps(server, err);
    if (code == ERROR_NONE) code = load_tls(server->config, &server->api_tls, &server->ingress_tls, err);
    if (code == ERROR_NONE) code = load_peer_tls(server->config, &server->peer_tls, err);
    if (code == ERROR_NONE) code = load_ui(server, err);
    if (code == ERROR_NONE) code = check_addresses(server->config, err);
    if (code == ERROR_NONE) code = check_database(server, err);
    if (code != ERROR_NONE) return code;
    server->failed_sign_ins = failed_sign_ins_create(&(struct failed_sign_ins_options){
        .per_address = (unsigned)server->config->authentication_failures_per_address,
        .per_key = (unsigned)server->config->authentication_failures_per_key,
        .is_proxy = is_proxy,
        .ctx = server,
    });
    server->tokens = runtime_tokens_create(&(struct runtime_tokens_options){
        .refresh_ms = TOKENS_REFRESH_MS,
        .used_interval_ms = (uint64_t)server->config->runtime_tokens_used_interval_ms,
        .sessions_per_minute = (unsigned)server->config->runtime_tokens_sessions_per_minute,
        .on_ended = on_token_ended,
        .on_collect_uses = on_collect_uses,
        .ctx = server,
        .expects_sealed = true,
        .tokens_changed = runtime_token_store_changed,
        .note_use = runtime_token_store_note_use,
    });
    module_tables_init(&server->modules, modules);
    module_tables_add_sweeps(&server->modules, runtime_token_store_sweeps, 1);
    module_tables_add_sweeps(&server->modules, browser_session_store_sweeps, 1);
    module_tables_add_sweeps(&server->modules, audit_store_sweeps, 1);
    module_tables_add_sweeps(&server->modules, report_store_sweeps, report_store_sweep_count);
    server->schema = gql_schema_create(str_of(schema_sdl, schema_sdl_bytes), err);
    if (!server->schema) return err->code;
    server->broker = create_broker(server, err);
    if (!server->broker) return err->code;
    code = create_rabbitmq(server, err);
    if (code != ERROR_NONE) return code;
    server->manifests = manifest_known_create();
    unsigned wanted = loops_wanted(server->config);
    for (unsigned i = 0; i < wanted; i++) {
        if (!worker_create(server, i, err)) return err->code;
        server->worker_count++;
    }
    if (server->rabbitmq) code = rabbitmq_start(server->rabbitmq, err);
    if (code != ERROR_NONE) return code;
    server->is_up = true;
    return ERROR_NONE;
}

struct server *server_create(const struct server_config *config, struct error *err)
{
    struct server *server = mem_zalloc(sizeof *server);
    server->config = config;
    server->started_ms = clock_mono_ms();
    if (start(server, err) == ERROR_NONE) return server;
    server_drain(server);
    server_destroy(server);
    return NULL;
}

// ---- end -----------------------------------------------------------------------------------------------------------

void server_drain(struct server *server)
{
    atomic_store(&server->draining, true);
    rabbitmq_retire(server->rabbitmq); // another replica goes on with what is in the queues
    for (unsigned i = 0; i < server->worker_count; i++)
        worker_drain(server->workers[i], server->is_up ? (uint64_t)server->config->drain_lame_duck_ms : 0);
    for (unsigned i = 0; i < server->worker_count; i++)
        worker_join(server->workers[i]);
    rabbitmq_stop(server->rabbitmq);
}

static void free_secret(char *secret)
{
    if (secret) mem_free_secret(secret, strlen(secret));
}

void server_destroy(struct server *server)
{
    if (!server) return;
    for (unsigned i = server->worker_count; i-- > 0;)
        worker_destroy(server->workers[i]);
    rabbitmq_destroy(server->rabbitmq);
    manifest_known_destroy(server->manifests);
    tunnel_broker_destroy(server->broker);
    gql_schema_destroy(server->schema);
    ui_files_destroy(server->ui);
    module_tables_finish(&server->modules);
    runtime_tokens_destroy(server->tokens);
    failed_sign_ins_destroy(server->failed_sign_ins);
    tls_context_destroy(server->api_tls);
    tls_context_destroy(server->ingress_tls);
    peer_tls_finish(&server->peer_tls);
    census_destroy(server->api_addresses);
    census_destroy(server->ingress_addresses);
    census_destroy(server->ingress_accounts);
    free_secret(server->database_conninfo);
    free_secret(server->redis_url);
    redaction_destroy(server->redaction);
    deployment_key_destroy(server->deployment_key);
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
