#include "server/config.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "server/ingress/ingress_proxies.h"

#define AT(field) offsetof(struct server_config, field)
#define KIB       1024ll
#define MIB       (1024ll * KIB)
#define GIB       (1024ll * MIB)
#define SECOND    1000ll
#define MINUTE    (60ll * SECOND)

static const struct config_entry entries[] = {
    {.section = "Process",
     .name = "node.name",
     .type = CONFIG_STRING,
     .offset = AT(node_name),
     .def = "culvertd-0",
     .help = "Name of this replica in leases and logs; unique among the replicas of one database."},
    {.name = "loops",
     .type = CONFIG_INT,
     .offset = AT(loops),
     .def = "0",
     .max = 16,
     .help = "Loop threads; 0 makes one a processor, at most 16."},
    {.name = "log.level",
     .type = CONFIG_CHOICE,
     .offset = AT(log_level),
     .def = "info",
     .choices = "debug|info|warn|error",
     .reloadable = true,
     .help = "The least level that is logged."},

    {.section = "Doors",
     .name = "platform.url",
     .type = CONFIG_STRING,
     .offset = AT(platform_url),
     .def = "https://localhost:8443",
     .help = "How users and runtimes reach the API door; shown in answers and used for links."},
    {.name = "api.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(api_listen),
     .def = ":8443",
     .help = "API door (HTTPS, HTTP/1.1): GraphQL, REST, event intake."},
    {.name = "admin.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(admin_listen),
     .def = "127.0.0.1:8444",
     .help = "Admin listener (plain HTTP): /livez, /readyz, /metrics, /version. Keep it off public networks."},
    {.name = "tunnel.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(tunnel_listen),
     .def = ":8445",
     .help = "Tunnel door (WSS): agents dial in here."},
    {.name = "ingress.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(ingress_listen),
     .def = ":8446",
     .help = "Ingress door (HTTPS): https://<account>-<runtime>.<tunnel.domain>/ is carried into the cluster."},
    {.name = "tunnel.domain",
     .type = CONFIG_STRING,
     .offset = AT(tunnel_domain),
     .def = "tunnels.localhost",
     .help = "Domain under which every runtime has a host name of its own (wildcard DNS and certificate)."},

    {.name = "listen.shared",
     .type = CONFIG_BOOL,
     .offset = AT(listen_shared),
     .def = "false",
     .help =
         "Start although another process serves these addresses: both get connections, for a take-over on one host."},
    {.name = "peer.listen",
     .type = CONFIG_ADDRESS,
     .offset = AT(peer_listen),
     .def = "",
     .help = "Peer door (mutual TLS): where other replicas hand over calls for tunnels that are here. Empty: this is "
             "the only replica."},
    {.name = "peer.address",
     .type = CONFIG_ADDRESS,
     .offset = AT(peer_address),
     .def = "",
     .help = "host:port under which other replicas reach this replica's own peer door, never a balancer."},

    {.section = "TLS (1.2 and 1.3); on SIGHUP the same files are read again",
     .name = "tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(tls_certificate_file),
     .def = NULL,
     .help = "Certificate chain (PEM) of the API door, and of the other doors unless they name their own."},
    {.name = "tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(tls_key_file),
     .def = NULL,
     .help = "Private key (PEM) to it."},
    {.name = "tunnel.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(tunnel_tls_certificate_file),
     .def = "",
     .help = "Certificate chain of the tunnel door."},
    {.name = "tunnel.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(tunnel_tls_key_file),
     .def = "",
     .help = "Private key to it."},
    {.name = "ingress.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(ingress_tls_certificate_file),
     .def = "",
     .help = "Certificate chain of the ingress door (wildcard of tunnel.domain)."},
    {.name = "ingress.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(ingress_tls_key_file),
     .def = "",
     .help = "Private key to it."},

    {.name = "peer.tls.certificate_file",
     .type = CONFIG_PATH,
     .offset = AT(peer_tls_certificate_file),
     .def = "",
     .help = "Certificate chain that this replica shows to others; its subjectAltName has the DNS name or the URI "
             "culvert-replica."},
    {.name = "peer.tls.key_file",
     .type = CONFIG_PATH,
     .offset = AT(peer_tls_key_file),
     .def = "",
     .help = "Private key to it."},
    {.name = "peer.tls.ca_file",
     .type = CONFIG_PATH,
     .offset = AT(peer_tls_ca_file),
     .def = "",
     .help = "The CA of all replicas' certificates; no other is trusted on the peer door."},

    {.section = "PostgreSQL 15 (required)",
     .name = "database.url",
     .type = CONFIG_STRING,
     .offset = AT(database_url),
     .def = NULL,
     .secret = true,
     .help = "libpq connection string of the application role; file:/path reads it from a file."},
    {.name = "database.migrate_url",
     .type = CONFIG_STRING,
     .offset = AT(database_migrate_url),
     .def = "",
     .secret = true,
     .help = "Connection string of the owner role, for `culvertd migrate`; empty: database.url."},
    {.name = "database.connections",
     .type = CONFIG_INT,
     .offset = AT(database_connections),
     .def = "2",
     .min = 1,
     .max = 16,
     .help = "Pipelined connections a loop."},
    {.name = "database.queue_max",
     .type = CONFIG_INT,
     .offset = AT(database_queue_max),
     .def = "1024",
     .min = 16,
     .max = 65536,
     .help = "Transactions that may wait on a loop; more are refused at once."},
    {.name = "database.statement_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(database_statement_timeout_ms),
     .def = "10s",
     .min = 100,
     .max = 10 * MINUTE,
     .help = "PostgreSQL ends a statement that runs longer."},
    {.name = "database.deadline",
     .type = CONFIG_DURATION,
     .offset = AT(database_deadline_ms),
     .def = "15s",
     .min = 100,
     .max = 10 * MINUTE,
     .help = "How long a request waits for its transaction, queueing and reconnects included."},

    {.section = "Redis (optional: live updates and a copy of the tunnel directory)",
     .name = "redis.url",
     .type = CONFIG_STRING,
     .offset = AT(redis_url),
     .def = "",
     .secret = true,
     .help = "redis://host:port[/db] or unix:///path; empty: none."},
    {.name = "redis.password_file",
     .type = CONFIG_PATH,
     .offset = AT(redis_password_file),
     .def = "",
     .help = "File with the password, if Redis asks for one."},
    {.name = "redis.timeout",
     .type = CONFIG_DURATION,
     .offset = AT(redis_timeout_ms),
     .def = "1s",
     .min = 10,
     .max = MINUTE,
     .help = "How long a command may take before Redis counts as away."},
    {.name = "cache.answer_bytes_max",
     .type = CONFIG_BYTES,
     .offset = AT(cache_answer_bytes_max),
     .def = "512KiB",
     .max = 1000 * 1000,
     .help =
         "GraphQL answers up to this size may be kept in Redis and given again as long as they are exact; 0: none."},
    {.name = "cache.slower_than",
     .type = CONFIG_DURATION,
     .offset = AT(cache_slower_than_ms),
     .def = "3ms",
     .min = 1,
     .max = MINUTE,
     .help = "Only answers that took longer are kept."},
    {.name = "cache.ttl",
     .type = CONFIG_DURATION,
     .offset = AT(cache_ttl_ms),
     .def = "1m",
     .min = SECOND,
     .max = 10 * MINUTE,
     .help = "For how long Redis keeps one."},
    {.name = "cache.patience",
     .type = CONFIG_DURATION,
     .offset = AT(cache_patience_ms),
     .def = "50ms",
     .min = 1,
     .max = 10 * SECOND,
     .help = "How long Redis may take to find one before PostgreSQL is asked."},

    {.section = "Limits of the API door",
     .name = "api.connections_max",
     .type = CONFIG_INT,
     .offset = AT(api_connections_max),
     .def = "4096",
     .min = 1,
     .max = 1000000,
     .help = "Open connections a loop; more wait in the kernel's queue."},
    {.name = "api.connections_per_address_max",
     .type = CONFIG_INT,
     .offset = AT(api_connections_per_address_max),
     .def = "1024",
     .max = 1000000,
     .help = "Open connections a client address (IPv6: a /64) and loop, but for ingress.trusted_proxies; 0: no cap."},
    {.name = "api.request_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(api_request_timeout_ms),
     .def = "30s",
     .min = SECOND,
     .max = 10 * MINUTE,
     .help = "A request, head and body, must have arrived in this time; also the idle limit between requests."},
    {.name = "api.body_max",
     .type = CONFIG_BYTES,
     .offset = AT(api_body_bytes_max),
     .def = "1MiB",
     .min = KIB,
     .max = 32 * MIB,
     .help = "Request bodies of the API."},
    {.name = "api.events_body_max",
     .type = CONFIG_BYTES,
     .offset = AT(api_events_bytes_max),
     .def = "10MiB",
     .min = KIB,
     .max = 32 * MIB,
     .help = "Bodies of POST /2.0/api/events, counted while inflating; also of calls through /runtimes/<name>/proxy/."},
    {.name = "head_max",
     .type = CONFIG_BYTES,
     .offset = AT(head_bytes_max),
     .def = "32KiB",
     .min = 4 * KIB,
     .max = 32 * KIB,
     .help = "Request line and headers, on both doors."},
    {.name = "graphql.tokens_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_tokens_max),
     .def = "1000",
     .min = 100,
     .max = 10000,
     .help = "Lexical tokens of a GraphQL document."},
    {.name = "graphql.depth_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_depth_max),
     .def = "12",
     .min = 3,
     .max = 64,
     .help = "Nesting of a GraphQL selection."},

    {.section = "Limits of the ingress door",
     .name = "ingress.connections_max",
     .type = CONFIG_INT,
     .offset = AT(ingress_connections_max),
     .def = "4096",
     .min = 1,
     .max = 1000000,
     .help = "Open connections a loop."},
    {.name = "ingress.connections_per_address_max",
     .type = CONFIG_INT,
     .offset = AT(ingress_connections_per_address_max),
     .def = "1024",
     .max = 1000000,
     .help = "Open connections a client address (IPv6: a /64) and loop, but for trusted proxies; 0: no cap."},
    {.name = "ingress.connections_per_account_max",
     .type = CONFIG_INT,
     .offset = AT(ingress_connections_per_account_max),
     .def = "4096",
     .max = 1000000,
     .help = "Open connections an account and loop, from their first authenticated request on; 0: no cap."},
    {.name = "ingress.trusted_proxies",
     .type = CONFIG_STRING,
     .offset = AT(ingress_trusted_proxies),
     .def = "",
     .help =
         "Networks (10.0.0.0/8, ::1) of proxies whose X-Forwarded-For, -Proto and Forwarded are kept and added to."},
    {.name = "ingress.http2",
     .type = CONFIG_BOOL,
     .offset = AT(ingress_http2),
     .def = "true",
     .help = "Offer HTTP/2 (ALPN) beside HTTP/1.1."},
    {.name = "ingress.http2_streams_max",
     .type = CONFIG_INT,
     .offset = AT(ingress_http2_streams_max),
     .def = "100",
     .min = 1,
     .max = 10000,
     .help = "Requests that an HTTP/2 connection may have open at once."},
    {.name = "ingress.buffered_max",
     .type = CONFIG_BYTES,
     .offset = AT(ingress_buffered_bytes_max),
     .def = "16MiB",
     .min = 1024 * KIB,
     .max = 4 * GIB,
     .help = "Request bytes of HTTP/2 clients that may wait on a loop for the tunnel; then no more credit is given."},
    {.name = "ingress.head_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(ingress_head_timeout_ms),
     .def = "10s",
     .min = 100,
     .max = MINUTE,
     .help = "A request's head must have arrived in this time."},
    {.name = "ingress.idle_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(ingress_idle_timeout_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "A kept-alive connection without a request is closed after this time."},
    {.name = "ingress.stall_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(ingress_stall_timeout_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "A client that takes nothing of its answer for this long is cut off."},
    {.name = "ingress.webhooks_per_second",
     .type = CONFIG_INT,
     .offset = AT(webhooks_per_second),
     .def = "20",
     .min = 1,
     .max = 100000,
     .help = "Calls of /webhooks/ a runtime and loop, which pass without a credential."},

    {.section = "Tunnels",
     .name = "tunnel.sessions_max",
     .type = CONFIG_INT,
     .offset = AT(tunnel_sessions_max),
     .def = "8192",
     .min = 1,
     .max = 1000000,
     .help = "Sessions a loop."},
    {.name = "tunnel.streams_max",
     .type = CONFIG_INT,
     .offset = AT(tunnel_streams_max),
     .def = "1000",
     .min = 1,
     .max = 65536,
     .help = "Calls at once through one session."},
    {.name = "tunnel.ping_after",
     .type = CONFIG_DURATION,
     .offset = AT(tunnel_ping_after_ms),
     .def = "10s",
     .min = 100,
     .max = 10 * MINUTE,
     .help = "Silence of an agent after which it is asked for a sign of life."},
    {.name = "tunnel.dead_after",
     .type = CONFIG_DURATION,
     .offset = AT(tunnel_dead_after_ms),
     .def = "5s",
     .min = 100,
     .max = 10 * MINUTE,
     .help = "Without an answer for this long more, the session is closed."},
    {.name = "tunnel.head_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(tunnel_head_timeout_ms),
     .def = "1m",
     .min = 100,
     .max = 60 * MINUTE,
     .help = "A service must have answered with a response head in this time (504 otherwise)."},
    {.name = "tunnel.buffered_max",
     .type = CONFIG_BYTES,
     .offset = AT(tunnel_buffered_bytes_max),
     .def = "8MiB",
     .min = MIB,
     .max = GIB,
     .help = "Bytes that one session may buffer before windows stop growing; at twice of it new calls get 503."},
    {.name = "tunnel.node_buffered_max",
     .type = CONFIG_BYTES,
     .offset = AT(tunnel_node_buffered_bytes_max),
     .def = "512MiB",
     .min = 16 * MIB,
     .max = 64 * GIB,
     .help = "Bytes buffered for all sessions of a loop."},
    {.name = "tunnel.handshakes_per_second",
     .type = CONFIG_INT,
     .offset = AT(tunnel_handshakes_per_second),
     .def = "500",
     .min = 1,
     .max = 100000,
     .help = "Handshakes a loop; the rest is answered 503 with Retry-After."},
    {.name = "tunnel.handshakes_per_address_max",
     .type = CONFIG_INT,
     .offset = AT(tunnel_handshakes_per_address),
     .def = "128",
     .min = 1,
     .max = 100000,
     .help = "Unfinished handshakes of one address, a loop (256 in all); more are closed at once."},
    {.name = "tunnel.lease_ttl",
     .type = CONFIG_DURATION,
     .offset = AT(lease_ttl_ms),
     .def = "15s",
     .min = 3 * SECOND,
     .max = 10 * MINUTE,
     .help = "A replica that does not renew its lease for this long has lost its sessions."},

    {.section = "Other replicas",
     .name = "peer.connections_max",
     .type = CONFIG_INT,
     .offset = AT(peer_connections_max),
     .def = "256",
     .min = 1,
     .max = 65536,
     .help = "Connections of other replicas to the peer door, a loop."},
    {.name = "peer.streams_max",
     .type = CONFIG_INT,
     .offset = AT(peer_streams_max),
     .def = "4096",
     .min = 1,
     .max = 1000000,
     .help = "Calls at once on one connection between two replicas."},
    {.name = "peer.idle_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(peer_idle_timeout_ms),
     .def = "1m",
     .min = SECOND,
     .max = 60 * MINUTE,
     .help = "A connection to another replica that carries no call is closed after this time."},
    {.name = "registry.entries_max",
     .type = CONFIG_INT,
     .offset = AT(registry_entries_max),
     .def = "16384",
     .min = 16,
     .max = 1000000,
     .help = "Runtimes whose replica a loop remembers."},

    {.section = "Reports",
     .name = "reports.batch_count",
     .type = CONFIG_INT,
     .offset = AT(reports_batch_count),
     .def = "256",
     .min = 1,
     .max = 256,
     .help = "Reports in one transaction."},
    {.name = "reports.batch_bytes",
     .type = CONFIG_BYTES,
     .offset = AT(reports_batch_bytes),
     .def = "4MiB",
     .min = 64 * KIB,
     .max = 32 * MIB,
     .help = "Bytes in one transaction (a single larger report makes one of its own)."},
    {.name = "reports.batch_delay",
     .type = CONFIG_DURATION,
     .offset = AT(reports_batch_delay_ms),
     .def = "5ms",
     .max = SECOND,
     .help = "How long a report waits for others to share its transaction."},
    {.name = "reports.queue_max",
     .type = CONFIG_BYTES,
     .offset = AT(reports_queue_bytes_max),
     .def = "64MiB",
     .min = 16 * MIB,
     .max = 16 * GIB,
     .help = "Reports that wait on a loop; beyond it tunnels are paused and HTTP gets 503."},

    {.name = "reports.sweep_interval",
     .type = CONFIG_DURATION,
     .offset = AT(sweep_interval_ms),
     .def = "10m",
     .min = SECOND,
     .max = 24 * 60 * MINUTE,
     .help = "How often manifests that no row names any more, and old tombstones, are removed."},
    {.name = "events.keep",
     .type = CONFIG_DURATION,
     .offset = AT(events_keep_ms),
     .def = "90d",
     .min = 7 * 24 * 60 * MINUTE,
     .max = 3650 * INT64_C(24) * 60 * MINUTE,
     .help = "How long events of event sources (POST /2.0/api/events/event-payload) are kept, in whole weeks."},
    {.name = "history.keep",
     .type = CONFIG_DURATION,
     .offset = AT(history_keep_ms),
     .def = "400d",
     .min = 7 * 24 * 60 * MINUTE,
     .max = 36500 * INT64_C(24) * 60 * MINUTE,
     .help = "How long deployments, sync operations and workflows are kept, in whole days; an account may have its own "
             "(culvertd admin set-retention). What runs now stays, however old."},

    {.section = "Shutdown",
     .name = "drain.lame_duck",
     .type = CONFIG_DURATION,
     .offset = AT(drain_lame_duck_ms),
     .def = "1s",
     .max = 10 * MINUTE,
     .help = "SIGTERM: /readyz says no for this long before anything else changes, so that balancers look elsewhere."},
    {.name = "drain.spread",
     .type = CONFIG_DURATION,
     .offset = AT(drain_spread_ms),
     .def = "2s",
     .max = 10 * MINUTE,
     .help = "SIGTERM: agents are asked to move over this span."},
    {.name = "drain.deadline",
     .type = CONFIG_DURATION,
     .offset = AT(drain_deadline_ms),
     .def = "20s",
     .min = 100,
     .max = 60 * MINUTE,
     .help = "SIGTERM: what is in flight may take this long to finish."},
};

const struct config_table server_config_table = {
    .entries = entries,
    .count = sizeof entries / sizeof *entries,
    .program = "culvertd",
    .env_prefix = "CULVERT_",
};

static bool is_host_name(struct str s)
{
    if (s.len == 0 || s.len > 200 || s.at[0] == '.' || s.at[s.len - 1] == '.') return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
        if (!ok) return false;
    }
    return true;
}

static void check_pair(const char *what, const char *certificate, const char *key, struct strbuf *problems)
{
    if ((certificate[0] == '\0') != (key[0] == '\0'))
        strbuf_addf(problems, "%s.certificate_file and %s.key_file: give both or none\n", what, what);
}

// One replica or several: the settings of the hop go together.
static void check_peer(const struct server_config *config, struct strbuf *problems)
{
    bool all = config->peer_address[0] && config->peer_tls_certificate_file[0] && config->peer_tls_key_file[0] &&
               config->peer_tls_ca_file[0];
    bool any = config->peer_address[0] || config->peer_tls_certificate_file[0] || config->peer_tls_key_file[0] ||
               config->peer_tls_ca_file[0];
    if (config->peer_listen[0] && !all)
        strbuf_add_c(problems, "peer.listen: needs peer.address and peer.tls.certificate_file, key_file and ca_file\n");
    if (!config->peer_listen[0] && any) strbuf_add_c(problems, "peer.*: are set without peer.listen\n");
    if (config->peer_address[0] == ':') strbuf_add_c(problems, "peer.address: has no host\n");
    if (strlen(config->peer_address) > 300) strbuf_add_c(problems, "peer.address: is longer than 300 bytes\n");
    if (config->peer_listen[0] && strpbrk(config->node_name, " \t\r\n"))
        strbuf_add_c(problems, "node.name: has a space\n");
}

bool server_config_check(const struct server_config *config, struct strbuf *problems)
{
    size_t before = problems->len;
    if (config->node_name[0] == '\0') strbuf_add_c(problems, "node.name: is empty\n");
    if (strlen(config->node_name) > 100) strbuf_add_c(problems, "node.name: is longer than 100 bytes\n");
    if (config->database_url[0] == '\0') strbuf_add_c(problems, "database.url: is empty\n");
    if (config->tls_certificate_file[0] == '\0' || config->tls_key_file[0] == '\0')
        strbuf_add_c(problems, "tls.certificate_file and tls.key_file: are needed; culvertd serves no plain HTTP\n");
    check_pair("tunnel.tls", config->tunnel_tls_certificate_file, config->tunnel_tls_key_file, problems);
    check_pair("ingress.tls", config->ingress_tls_certificate_file, config->ingress_tls_key_file, problems);
    struct ingress_proxies proxies;
    struct error err;
    if (ingress_proxies_parse(str_c(config->ingress_trusted_proxies), &proxies, &err) != ERROR_NONE)
        strbuf_addf(problems, "ingress.trusted_proxies: %s\n", err.text);
    if (!is_host_name(str_c(config->tunnel_domain)))
        strbuf_add_c(problems, "tunnel.domain: is not a lower-case host name\n");
    if (!str_starts(str_c(config->platform_url), STR("https://")) || !config->platform_url[8])
        strbuf_add_c(problems, "platform.url: is not https:// and a host\n");
    check_peer(config, problems);
    if (config->api_body_bytes_max > config->api_events_bytes_max)
        strbuf_add_c(problems, "api.body_max: is larger than api.events_body_max\n");
    if (config->reports_batch_bytes > config->reports_queue_bytes_max)
        strbuf_add_c(problems, "reports.batch_bytes: is larger than reports.queue_max\n");
    return problems->len == before;
}

enum error_code server_config_secret(const char *value, char **out, struct error *err)
{
    enum { SECRET_BYTES_MAX = 4096 };
    if (strncmp(value, "file:", 5) != 0) {
        *out = mem_strdup(value);
        return ERROR_NONE;
    }
    FILE *file = fopen(value + 5, "re");
    if (!file) return error_set(err, ERROR_INVALID, "%s: cannot be read: %m", value + 5);
    char text[SECRET_BYTES_MAX + 1];
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    while (len && len <= SECRET_BYTES_MAX && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    enum error_code code = ERROR_NONE;
    if (len && len <= SECRET_BYTES_MAX && memchr(text, '\0', len))
        code = error_set(err, ERROR_INVALID, "%s: has a NUL byte", value + 5);
    else if (len == 0 || len > SECRET_BYTES_MAX)
        code = error_set(err, ERROR_INVALID, "%s: is empty or longer than %d bytes", value + 5, SECRET_BYTES_MAX);
    else
        *out = mem_strndup(text, len);
    explicit_bzero(text, sizeof text);
    return code;
}
