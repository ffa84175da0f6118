// server_config: every setting of culvertd. The table is made of sections, one noun a file
// (server/config/); see base/config/config.h for where values come from. Filled once at start,
// read-only afterwards, shared by all threads; on SIGHUP main reads it again and takes over what is
// reloadable.
#ifndef CULVERT_SERVER_CONFIG_CONFIG_H
#define CULVERT_SERVER_CONFIG_CONFIG_H

#include "base/config/config.h"

struct server_config {
    char *node_name; // replica id in leases and logs
    int64_t loops;   // 0: one a processor, at most 16
    char *log_level;

    char *platform_url; // as users reach the API listener
    char *api_listen;
    char *admin_listen;
    char *tunnel_listen;
    char *ingress_listen;
    char *tunnel_domain;
    bool listen_shared;
    char *peer_listen, *peer_address;

    char *tls_certificate_file, *tls_key_file;
    int64_t tls_hsts_max_age_ms;
    char *tunnel_tls_certificate_file, *tunnel_tls_key_file;
    char *ingress_tls_certificate_file, *ingress_tls_key_file;
    char *peer_tls_certificate_file, *peer_tls_key_file, *peer_tls_ca_file;

    int64_t sessions_idle_max_ms, sessions_life_max_ms, sessions_per_user_max, sessions_link_life_ms;
    char *security_deployment_key_file, *security_deployment_key_previous_file;

    char *database_url;
    int64_t database_connections, database_queue_max, database_statement_timeout_ms, database_deadline_ms;
    int64_t database_slow_statement_timeout_ms;
    int64_t database_statements_max;
    char *bus;
    char *rabbitmq_url, *rabbitmq_password_file, *rabbitmq_prefix;
    bool rabbitmq_allow_plaintext, rabbitmq_accept_unsigned;
    int64_t rabbitmq_message_age_max_ms;
    char *rabbitmq_tls_ca_file, *rabbitmq_tls_certificate_file, *rabbitmq_tls_key_file;
    int64_t rabbitmq_shards, rabbitmq_window, rabbitmq_window_bytes, rabbitmq_prefetch;
    int64_t rabbitmq_message_count, rabbitmq_message_bytes;
    int64_t rabbitmq_confirm_timeout_ms, rabbitmq_connect_timeout_ms, rabbitmq_heartbeat_ms;
    int64_t rabbitmq_delivery_limit, rabbitmq_queue_bytes_max, rabbitmq_dead_letters_max;
    char *redis_url, *redis_password_file;
    char *redis_tls_ca_file, *redis_tls_certificate_file, *redis_tls_key_file;
    bool redis_allow_plaintext;
    int64_t redis_timeout_ms;
    int64_t cache_answer_bytes_max, cache_slower_than_ms, cache_ttl_ms, cache_patience_ms;

    int64_t api_connections_max, api_connections_per_address_max, api_request_timeout_ms, api_body_bytes_max,
        api_events_bytes_max;
    bool ui_enabled;
    char *ui_file, *ui_base_path;
    bool ingress_http2;
    char *ingress_trusted_proxies;
    int64_t ingress_connections_per_address_max, ingress_connections_per_account_max;
    int64_t credentials_grace_ms;
    int64_t ingress_http2_streams_max, ingress_buffered_bytes_max;
    int64_t ingress_body_bytes_per_second_min, ingress_body_rate_window_ms;
    int64_t ingress_connections_max, ingress_head_timeout_ms, ingress_idle_timeout_ms, ingress_stall_timeout_ms;
    int64_t head_bytes_max;
    int64_t webhooks_per_second;

    int64_t tunnel_sessions_max, tunnel_streams_max, tunnel_ping_after_ms, tunnel_dead_after_ms;
    int64_t tunnel_head_timeout_ms, tunnel_buffered_bytes_max, tunnel_node_buffered_bytes_max,
        tunnel_account_buffered_bytes_max;
    int64_t tunnel_handshakes_per_second, tunnel_handshakes_per_address, tunnel_sessions_per_address;
    int64_t lease_ttl_ms;
    int64_t authentication_failures_per_address, authentication_failures_per_key;
    int64_t runtime_tokens_valid_max, runtime_tokens_rotation_grace_ms, runtime_tokens_sessions_per_minute,
        runtime_tokens_used_interval_ms;
    int64_t peer_connections_max, peer_streams_max, peer_idle_timeout_ms, registry_entries_max;

    char *reports_open_paths, *reports_open_labels, *reports_open_annotations; // comma-separated
    int64_t reports_batch_count, reports_batch_bytes, reports_batch_delay_ms, reports_queue_bytes_max,
        reports_account_share, reports_transactions, reports_runtime_share, reports_noise_burst,
        reports_noise_interval_ms, reports_unpacked_per_second;
    int64_t operations_interval_ms, operations_resend_after_ms, operations_run_max_ms, operations_batch_count,
        operations_open_max;
    int64_t storage_account_bytes, storage_account_rows, storage_runtime_bytes, storage_runtime_rows;
    int64_t sweep_interval_ms, events_keep_ms, history_keep_ms;

    int64_t graphql_tokens_max, graphql_depth_max, graphql_cost_max, graphql_plans_max;
    bool graphql_introspection;
    int64_t api_compress_bytes_min, api_compress_bytes_max;

    int64_t drain_lame_duck_ms, drain_spread_ms, drain_deadline_ms;
};

// Why database.migrate_url, a setting of older versions, is refused.
#define SERVER_CONFIG_NO_OWNER                                                                                         \
    "the server must not have the owner's credential; remove the setting and run `culvertd migrate --url-file FILE`"

// The purpose of the key that encrypts columns in PostgreSQL.
#define SERVER_COLUMN_KEY "database columns"

extern const struct config_table server_config_table;

// The quotas, as pg_options.settings has them (migrations/0026).
enum { SERVER_STORAGE_SETTINGS_BYTES = 256 };
void server_config_storage_settings(const struct server_config *config, char out[static SERVER_STORAGE_SETTINGS_BYTES]);

// Text of a secret setting: as it is, or the content of the file behind "file:". The caller frees
// it (mem_free_secret).
MUST_CHECK enum error_code server_config_secret(const char *value, char **out, struct error *err);

#endif
