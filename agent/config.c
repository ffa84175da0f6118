#include "agent/config.h"

#include <stddef.h>

#include "agent/argo/argo_api.h"
#include "agent/operations/operation_rights.h"
#include "tunnel/wire/redaction.h"

#define FIELD(name) offsetof(struct agent_config, name)

static const struct config_entry platform_entries[] = {
    {.name = "platform.url",
     .type = CONFIG_STRING,
     .offset = FIELD(platform_url),
     .help = "URL of the platform's tunnel listener: wss://host[:port][/prefix]."},
    {.name = "platform.ca_file",
     .type = CONFIG_PATH,
     .offset = FIELD(platform_ca_file),
     .def = "",
     .reloadable = true,
     .help =
         "PEM file with the CAs that the platform's certificate is verified against; empty: the CAs of the system."},
    {.name = "platform.pin",
     .type = CONFIG_STRING,
     .offset = FIELD(platform_pin),
     .def = "",
     .help = "Public keys, one of which must be in the platform's certificate chain, which must be trusted as well: "
             "sha256/<base64 of the SHA-256 of a public key>, comma-separated, so that a new key can be added before "
             "the old one is removed; empty: any key."},
    {.name = "platform.sealed_token",
     .type = CONFIG_BOOL,
     .offset = FIELD(platform_sealed_token),
     .def = "true",
     .help = "Send the runtime token in a form that only the platform that issued it can read, and only on this TLS "
             "connection; the platform has to prove that it is that one. false: for a network path where an "
             "intermediary terminates TLS, for example a load balancer with certificates of its own."},
    {.name = "proxy.url",
     .type = CONFIG_STRING,
     .offset = FIELD(proxy_url),
     .def = "",
     .secret = true,
     .help = "HTTP CONNECT proxy for the connection to the platform, http://[user:password@]host:port, or file:/path "
             "of a file that contains it; empty: the variable HTTPS_PROXY."},
    {.name = "proxy.exclude",
     .type = CONFIG_STRING,
     .offset = FIELD(proxy_exclude),
     .def = "",
     .help = "Hosts that are reached without the proxy: names (and names below them), addresses, networks such as "
             "10.0.0.0/8, each with an optional :port, or *; comma-separated; empty: the variable NO_PROXY."},
};

static const struct config_entry runtime_entries[] = {
    {.name = "runtime.name",
     .type = CONFIG_STRING,
     .offset = FIELD(runtime_name),
     .help = "Name of this runtime; must be the one that the token was issued for."},
    {.name = "runtime.token_file",
     .type = CONFIG_PATH,
     .offset = FIELD(runtime_token_file),
     .reloadable = true,
     .help = "File that contains the runtime token and nothing else."},
    {.name = "instance.id",
     .type = CONFIG_STRING,
     .offset = FIELD(instance_id),
     .def = "",
     .help = "Distinguishes agents of one runtime and stays the same over restarts; empty: the host name."},
};

static const struct config_entry reporter_entries[] = {
    // A string: a file that is missing is waited for, like one that is invalid (agent/agent.c).
    {.name = "kubeconfig",
     .type = CONFIG_STRING,
     .offset = FIELD(kubeconfig),
     .def = "",
     .help = "kubeconfig file of the cluster to report; empty: the pod's service account."},
    {.name = "kubeconfig.exec",
     .type = CONFIG_BOOL,
     .offset = FIELD(kubeconfig_exec),
     .def = "true",
     .help =
         "Run the exec plugin that the kubeconfig names for its user (as those of EKS, GKE and AKS), without a shell "
         "and without the agent's own variables, whenever a credential is needed. false: such a file is refused."},
    {.name = "kubeconfig.exec_timeout",
     .type = CONFIG_DURATION,
     .offset = FIELD(kubeconfig_exec_timeout_ms),
     .def = "30s",
     .min = 1000,
     .max = 600000,
     .help = "Time limit of the exec plugin; it is then killed with all processes that it started."},
    {.name = "kubeconfig.retry_interval",
     .type = CONFIG_DURATION,
     .offset = FIELD(kubeconfig_retry_interval_ms),
     .def = "30s",
     .min = 100,
     .max = 60 * 60 * 1000,
     .help = "How often a missing or invalid kubeconfig is read again. The agent does not connect before it can be "
             "used; its log "
             "and /readyz have the reason."},
    {.name = "reporter.enabled",
     .type = CONFIG_BOOL,
     .offset = FIELD(reporter_enabled),
     .def = "true",
     .help = "Watch the cluster and report its objects."},
    {.name = "reporter.cluster_name",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_cluster_name),
     .def = "in-cluster",
     .help = "Name of the cluster in reports; use the name that Argo CD has for it."},
    {.name = "reporter.cluster_aliases",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_cluster_aliases),
     .def = "",
     .help = "Other names of this cluster in the destinations of Applications, comma-separated: its name in Argo CD, "
             "or https://host[:port]. kubernetes.default.svc, in-cluster and the address of the kubeconfig are known."},
    {.name = "reporter.namespaces",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_namespaces),
     .def = "",
     .help = "Comma-separated namespaces to watch; empty: all."},
    {.name = "reporter.state_dir",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_state_dir),
     .def = "",
     .help = "Folder for the key of redacted values, so that it survives restarts; empty: a new key at every start."},
    {.name = "reporter.clusters",
     .type = CONFIG_BOOL,
     .offset = FIELD(reporter_clusters),
     .def = "false",
     .help = "Read Argo CD's cluster Secrets for the names and addresses of its clusters."},
    {.name = "reporter.cluster_secrets",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_cluster_secrets),
     .def = "",
     .help = "Argo CD's cluster Secrets whose credentials the agent may use, NAME or NAMESPACE/NAME, comma-separated: "
             "to find out by the uid of its namespace kube-system whether such a cluster is this one under another "
             "name or address. Empty: none."},
    {.name = "reporter.cluster_interval",
     .type = CONFIG_DURATION,
     .offset = FIELD(reporter_cluster_interval_ms),
     .def = "10m",
     .min = 100,
     .max = 24 * 60 * 60 * 1000,
     .help = "How often that is found out again."},
    {.name = "reporter.open_paths",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_open_paths),
     .def = "",
     .help =
         "Values that may leave the cluster, in addition to those in docs/security.md, comma-separated: "
         "Kind[.group]:path, for example Deployment.apps:spec.template.spec.containers.env.value. * as kind is every "
         "kind; a member whose name has a dot is written [\"as.this\"]; list elements have no name. Everything below "
         "the path leaves as well. Secrets cannot be opened. culvert-agent --explain-redaction FILE shows the effect."},
    {.name = "reporter.open_labels",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_open_labels),
     .def = "",
     .help = "Keys of labels whose values may leave the cluster, comma-separated; a trailing * matches every key with "
             "that prefix."},
    {.name = "reporter.open_annotations",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_open_annotations),
     .def = "",
     .help = "The same for annotations."},
    {.name = "reporter.objects_max",
     .type = CONFIG_INT,
     .offset = FIELD(reporter_objects_max),
     .def = "200000",
     .min = 1000,
     .max = 10000000,
     .help = "Objects that are reported; about 1 KB of memory each. Beyond it new ones are left out, what is shown "
             "counts as outdated, and no object is deleted for being absent."},
    {.name = "reporter.object_burst",
     .type = CONFIG_INT,
     .offset = FIELD(reporter_object_burst),
     .def = "10",
     .min = 1,
     .max = 1000000,
     .help = "Changes of one object that are reported at once; beyond it the newest state is reported once per "
             "reporter.object_interval."},
    {.name = "reporter.object_interval",
     .type = CONFIG_DURATION,
     .offset = FIELD(reporter_object_interval_ms),
     .def = "1s",
     .min = 10,
     .max = 60 * 60 * 1000,
     .help = "Interval between reports of one object after its burst."},
    {.name = "reporter.changes_per_second",
     .type = CONFIG_INT,
     .offset = FIELD(reporter_changes_per_second),
     .def = "5000",
     .max = 1000000,
     .help = "Changes of all objects together that are reported per second, not counting the first snapshot. What "
             "waits is reported in its newest state. 0: no limit."},
    {.name = "reporter.probe_interval",
     .type = CONFIG_DURATION,
     .offset = FIELD(reporter_probe_interval_ms),
     .def = "3s",
     .min = 100,
     .max = 60000,
     .help = "How often the version of the Kubernetes API server is requested, to notice a server that hangs."},
    {.name = "reporter.probe_timeout",
     .type = CONFIG_DURATION,
     .offset = FIELD(reporter_probe_timeout_ms),
     .def = "4s",
     .min = 100,
     .max = 60000,
     .help = "Time limit of that request; beyond it what is shown counts as outdated."},
};

static void check_reporter(const void *values, struct strbuf *problems)
{
    const struct agent_config *config = values;
    const struct {
        const char *setting;
        struct redaction_options options;
    } each[] = {
        {"reporter.open_paths", {.open_paths = str_c(config->reporter_open_paths)}},
        {"reporter.open_labels", {.open_labels = str_c(config->reporter_open_labels)}},
        {"reporter.open_annotations", {.open_annotations = str_c(config->reporter_open_annotations)}},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        static const uint8_t any_key[REDACTION_KEY_BYTES];
        struct redaction *redaction = NULL;
        struct error err;
        if (redaction_create(any_key, &each[i].options, &redaction, &err) != ERROR_NONE)
            strbuf_addf(problems, "%s: %s\n", each[i].setting, err.text);
        redaction_destroy(redaction);
    }
}

static const struct config_entry argocd_entries[] = {
    {.name = "argocd.url",
     .type = CONFIG_STRING,
     .offset = FIELD(argocd_url),
     .def = "",
     .help = "Argo CD's API (argocd-server), https://host[:port][/prefix]: health by its custom rules, "
             "children that no watch finds, and the commits of releases are read there; empty: they are not."},
    {.name = "argocd.token_file",
     .type = CONFIG_STRING,
     .offset = FIELD(argocd_token_file),
     .def = "",
     .help = "File with the token of an account of Argo CD that may get applications. Read again every minute, and "
             "after it was refused. The token is sent to argocd.url alone."},
    {.name = "argocd.ca_file",
     .type = CONFIG_PATH,
     .offset = FIELD(argocd_ca_file),
     .def = "",
     .help = "PEM file with the CAs that the certificate of argocd.url is verified against; empty: the CAs of the "
             "system."},
    {.name = "argocd.timeout",
     .type = CONFIG_DURATION,
     .offset = FIELD(argocd_timeout_ms),
     .def = "10s",
     .min = 100,
     .max = 300000,
     .help = "Time limit of a request to Argo CD's API."},
    {.name = "argocd.interval",
     .type = CONFIG_DURATION,
     .offset = FIELD(argocd_interval_ms),
     .def = "2s",
     .min = 100,
     .max = 60 * 60 * 1000,
     .help = "Least time between two reads of the resource tree of one Application while it changes."},
    {.name = "argocd.refresh_interval",
     .type = CONFIG_DURATION,
     .offset = FIELD(argocd_refresh_interval_ms),
     .def = "5m",
     .min = 1000,
     .max = 24 * 60 * 60 * 1000,
     .help = "How often the resource tree of an Application is read that does not change."},
    {.name = "argocd.requests_max",
     .type = CONFIG_INT,
     .offset = FIELD(argocd_requests_max),
     .def = "2",
     .min = 1,
     .max = ARGO_API_REQUESTS_MAX,
     .help = "Concurrent requests to Argo CD's API."},
    {.name = "argocd.bytes_max",
     .type = CONFIG_BYTES,
     .offset = FIELD(argocd_bytes_max),
     .def = "16MiB",
     .min = 64 * 1024,
     .max = 256 * 1024 * 1024,
     .help = "Bytes of one answer of Argo CD's API; a larger one is not used."},
    {.name = "argocd.nodes_max",
     .type = CONFIG_INT,
     .offset = FIELD(argocd_nodes_max),
     .def = "200000",
     .min = 1000,
     .max = 10000000,
     .help = "Nodes of resource trees that are kept; about 500 bytes of memory each. Those beyond it have the agent's "
             "own assessment."},
    {.name = "argocd.commits_max",
     .type = CONFIG_INT,
     .offset = FIELD(argocd_commits_max),
     .def = "10000",
     .min = 100,
     .max = 1000000,
     .help = "Commits that are kept; beyond it the oldest are read again when an Application names them."},
};

static void check_argocd(const void *values, struct strbuf *problems)
{
    const struct agent_config *config = values;
    if (!*config->argocd_url != !*config->argocd_token_file)
        strbuf_add_c(problems, "argocd.url and argocd.token_file: must be set together\n");
}

static const struct config_entry router_entries[] = {
    {.name = "router.services",
     .type = CONFIG_STRING,
     .offset = FIELD(router_services),
     .def = "",
     .help = "Services that calls may reach: name=http://host:port (or https://, h2c:// for gRPC, tcp://), "
             "comma-separated. All others are refused."},
    {.name = "router.webhooks",
     .type = CONFIG_STRING,
     .offset = FIELD(router_webhooks),
     .def = "",
     .help = "Event sources that webhooks may reach: namespace/eventsource[=http://host:port], comma-separated."},
    {.name = "router.workflows",
     .type = CONFIG_STRING,
     .offset = FIELD(router_workflows),
     .def = "",
     .help = "Argo Workflows server behind /workflows/: http://host:port; empty: the path is refused."},
    {.name = "router.ca_file",
     .type = CONFIG_PATH,
     .offset = FIELD(router_ca_file),
     .def = "",
     .help = "PEM file with the CAs that certificates of https:// services are verified against; empty: the CAs of the "
             "system."},
    {.name = "tcp.allow",
     .type = CONFIG_STRING,
     .offset = FIELD(tcp_allow),
     .def = "",
     .help = "Raw TCP services behind /tcp/<name> (:protocol connect-tcp): name=host:port, comma-separated."},
    {.name = "router.streams_max",
     .type = CONFIG_INT,
     .offset = FIELD(router_streams_max),
     .def = "1000",
     .min = 1,
     .max = 100000,
     .help = "Concurrent calls."},
    {.name = "router.connect_timeout",
     .type = CONFIG_DURATION,
     .offset = FIELD(router_connect_timeout_ms),
     .def = "5s",
     .min = 100,
     .max = 60000,
     .help = "Time limit of connecting to a service."},
};

static const struct config_entry operation_entries[] = {
    {.name = "operations.allowed",
     .type = CONFIG_STRING,
     .offset = FIELD(operations_allowed),
     .def = "",
     .help =
         "What users of the platform may do in this cluster, comma-separated: refresh, sync, sync-prune, sync-force, "
         "sync-replace, terminate, rollback, restart, rollout. Each may be limited to "
         "objects by a pattern of namespace/name, for example refresh:argocd/team-a-*. Empty: nothing, the agent "
         "only reads. culvert-agent --print-rbac --config FILE prints the Kubernetes permissions that it needs."},
    {.name = "operations.held_max",
     .type = CONFIG_INT,
     .offset = FIELD(operations_held_max),
     .def = "1000",
     .min = 10,
     .max = 100000,
     .help = "Operations that run or whose end is remembered; beyond it the platform is let to repeat them later."},
    {.name = "operations.at_once_max",
     .type = CONFIG_INT,
     .offset = FIELD(operations_at_once_max),
     .def = "8",
     .min = 1,
     .max = 64,
     .help = "Concurrent requests to the Kubernetes API for operations."},
    {.name = "operations.follow_max",
     .type = CONFIG_DURATION,
     .offset = FIELD(operations_follow_ms),
     .def = "1h",
     .min = 1000,
     .max = 7 * 24 * 60 * 60 * 1000ll,
     .help = "How long a controller's work on an operation is waited for; beyond it its end is reported as unknown."},
};

static void check_operations(const void *values, struct strbuf *problems)
{
    const struct agent_config *config = values;
    struct operation_rights *rights = NULL;
    struct error err;
    if (operation_rights_create(str_c(config->operations_allowed), &rights, &err) != ERROR_NONE)
        strbuf_addf(problems, "operations.allowed: %s\n", err.text);
    else if (!operation_rights_is_empty(rights) && !config->reporter_enabled)
        strbuf_add_c(problems, "operations.allowed: requires reporter.enabled\n");
    operation_rights_destroy(rights);
}

static const struct config_entry process_entries[] = {
    {.name = "admin.listen",
     .type = CONFIG_STRING,
     .offset = FIELD(admin_listen),
     .def = "127.0.0.1:8086",
     .help = "Listener for /livez, /readyz, /metrics and /version; empty: no listener."},
    {.name = "shutdown.deadline",
     .type = CONFIG_DURATION,
     .offset = FIELD(shutdown_deadline_ms),
     .def = "20s",
     .min = 0,
     .max = 3600000,
     .help = "After SIGTERM calls may take this long to finish."},
    {.name = "log.level",
     .type = CONFIG_CHOICE,
     .offset = FIELD(log_level),
     .def = "info",
     .choices = "debug|info|warn|error",
     .help = "Lowest level that is logged."},
};

static const struct config_section platform = {.title = "platform", CONFIG_ENTRIES(platform_entries)};
static const struct config_section runtime = {.title = "runtime", CONFIG_ENTRIES(runtime_entries)};
static const struct config_section reporter = {
    .title = "reporter", CONFIG_ENTRIES(reporter_entries), .check = check_reporter};
static const struct config_section argocd = {.title = "argocd", CONFIG_ENTRIES(argocd_entries), .check = check_argocd};
static const struct config_section router = {.title = "router", CONFIG_ENTRIES(router_entries)};
static const struct config_section operations = {
    .title = "operations", CONFIG_ENTRIES(operation_entries), .check = check_operations};
static const struct config_section process = {.title = "process", CONFIG_ENTRIES(process_entries)};
static const struct config_section *const sections[] = {&platform,   &runtime, &reporter, &argocd,
                                                        &operations, &router,  &process};

const struct config_table agent_config_table = {
    .sections = sections,
    .section_count = sizeof sections / sizeof *sections,
    .program = "culvert-agent",
    .env_prefix = "CULVERT_",
};
