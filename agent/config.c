#include "agent/config.h"

#include <stddef.h>

#include "tunnel/wire/redaction.h"

#define FIELD(name) offsetof(struct agent_config, name)

static const struct config_entry platform_entries[] = {
    {.name = "platform.url",
     .type = CONFIG_STRING,
     .offset = FIELD(platform_url),
     .help = "Where the platform's tunnel door is: wss://host[:port][/prefix]."},
    {.name = "platform.ca_file",
     .type = CONFIG_PATH,
     .offset = FIELD(platform_ca_file),
     .def = "",
     .reloadable = true,
     .help = "PEM file with the CAs that the platform's certificate is checked against; empty: the system's."},
    {.name = "platform.pin",
     .type = CONFIG_STRING,
     .offset = FIELD(platform_pin),
     .def = "",
     .help =
         "Keys of which one must be in the platform's certificate chain, besides its being trusted: sha256/<base64 "
         "of the SHA-256 of a public key>, comma-separated, so that a new key can be added before the old one goes; "
         "empty: any key."},
    {.name = "platform.sealed_token",
     .type = CONFIG_BOOL,
     .offset = FIELD(platform_sealed_token),
     .def = "true",
     .help = "The runtime token is said only so that the platform that issued it can read it, and only on this TLS "
             "connection; and the platform has to prove that it is that one. false: for a way to the platform where "
             "something ends TLS, as a load balancer with certificates of its own."},
    {.name = "proxy.url",
     .type = CONFIG_STRING,
     .offset = FIELD(proxy_url),
     .def = "",
     .secret = true,
     .help = "HTTP CONNECT proxy on the way to the platform, http://[user:password@]host:port, or file:/path of a file "
             "that holds it; empty: the variable HTTPS_PROXY."},
    {.name = "proxy.exclude",
     .type = CONFIG_STRING,
     .offset = FIELD(proxy_exclude),
     .def = "",
     .help =
         "Hosts that are reached without the proxy: names (and those below them), addresses, networks as 10.0.0.0/8, "
         "each with an optional :port, or *; comma-separated; empty: the variable NO_PROXY."},
};

static const struct config_entry runtime_entries[] = {
    {.name = "runtime.name",
     .type = CONFIG_STRING,
     .offset = FIELD(runtime_name),
     .help = "Name of this runtime; it must be the one that the token was issued for."},
    {.name = "runtime.token_file",
     .type = CONFIG_PATH,
     .offset = FIELD(runtime_token_file),
     .reloadable = true,
     .help = "File that holds the runtime token and nothing else."},
    {.name = "instance.id",
     .type = CONFIG_STRING,
     .offset = FIELD(instance_id),
     .def = "",
     .help = "Tells agents of one runtime apart and stays the same over restarts; empty: the host's name."},
};

static const struct config_entry reporter_entries[] = {
    {.name = "kubeconfig",
     .type = CONFIG_PATH,
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
     .help = "How long the exec plugin may run; then it is killed with all that it started."},
    {.name = "kubeconfig.retry_interval",
     .type = CONFIG_DURATION,
     .offset = FIELD(kubeconfig_retry_interval_ms),
     .def = "30s",
     .min = 100,
     .max = 60 * 60 * 1000,
     .help = "How often a kubeconfig that cannot be used is read again. Until it can be used the agent does not "
             "connect, and its log and /readyz have the reason."},
    {.name = "reporter.enabled",
     .type = CONFIG_BOOL,
     .offset = FIELD(reporter_enabled),
     .def = "true",
     .help = "Watch the cluster and report what is there."},
    {.name = "reporter.cluster_name",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_cluster_name),
     .def = "in-cluster",
     .help = "What reports call the cluster; Argo CD's own name for it fits best."},
    {.name = "reporter.cluster_aliases",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_cluster_aliases),
     .def = "",
     .help = "Other names of this cluster in the destinations of Applications, comma-separated: what Argo CD calls it, "
             "or https://host[:port]. "
             "kubernetes.default.svc, in-cluster and the kubeconfig's address are known."},
    {.name = "reporter.namespaces",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_namespaces),
     .def = "",
     .help = "Comma-separated namespaces to watch; empty: all."},
    {.name = "reporter.state_dir",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_state_dir),
     .def = "",
     .help = "Folder for the key of redacted values, so that it outlives restarts; empty: a new key every start."},
    {.name = "reporter.clusters",
     .type = CONFIG_BOOL,
     .offset = FIELD(reporter_clusters),
     .def = "false",
     .help = "Read Argo CD's cluster Secrets for the names and addresses of its clusters."},
    {.name = "reporter.open_paths",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_open_paths),
     .def = "",
     .help = "Values that may leave the cluster besides those that docs/security.md lists, comma-separated: "
             "Kind[.group]:path, as Deployment.apps:spec.template.spec.containers.env.value; * as kind is every kind, "
             "a member whose name has a dot is written [\"as.this\"], elements of lists have no name. What lies below "
             "leaves too. Nothing of a Secret can be opened. culvert-agent --explain-redaction FILE shows the effect."},
    {.name = "reporter.open_labels",
     .type = CONFIG_STRING,
     .offset = FIELD(reporter_open_labels),
     .def = "",
     .help = "Keys of labels whose values may leave the cluster, comma-separated; * at the end: all that begin so."},
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
     .help =
         "Objects that are reported; some 1 KB of memory each. Beyond it new ones are left out, what is shown counts "
         "as outdated, and nothing is deleted for being absent."},
    {.name = "reporter.object_burst",
     .type = CONFIG_INT,
     .offset = FIELD(reporter_object_burst),
     .def = "10",
     .min = 1,
     .max = 1000000,
     .help = "Changes of one object that are told at once; beyond that the newest state is told once an interval."},
    {.name = "reporter.object_interval",
     .type = CONFIG_DURATION,
     .offset = FIELD(reporter_object_interval_ms),
     .def = "1s",
     .min = 10,
     .max = 60 * 60 * 1000,
     .help = "The interval of a noisy object."},
    {.name = "reporter.changes_per_second",
     .type = CONFIG_INT,
     .offset = FIELD(reporter_changes_per_second),
     .def = "5000",
     .max = 1000000,
     .help =
         "Changes of all objects together that are told in a second; a first snapshot is not counted. What waits is "
         "told as it then is. 0: no limit."},
    {.name = "reporter.probe_interval",
     .type = CONFIG_DURATION,
     .offset = FIELD(reporter_probe_interval_ms),
     .def = "3s",
     .min = 100,
     .max = 60000,
     .help = "How often the Kubernetes API server is asked for its version: a server that hangs is noticed by that."},
    {.name = "reporter.probe_timeout",
     .type = CONFIG_DURATION,
     .offset = FIELD(reporter_probe_timeout_ms),
     .def = "4s",
     .min = 100,
     .max = 60000,
     .help = "How long it may take to answer; what is shown counts as outdated when it takes longer."},
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

static const struct config_entry router_entries[] = {
    {.name = "router.services",
     .type = CONFIG_STRING,
     .offset = FIELD(router_services),
     .def = "",
     .help =
         "Services that calls may reach, and no others: name=http://host:port (or https://, h2c:// for gRPC, tcp://), "
         "comma-separated."},
    {.name = "router.webhooks",
     .type = CONFIG_STRING,
     .offset = FIELD(router_webhooks),
     .def = "",
     .help = "Event sources open to webhooks: namespace/eventsource[=http://host:port], comma-separated."},
    {.name = "router.workflows",
     .type = CONFIG_STRING,
     .offset = FIELD(router_workflows),
     .def = "",
     .help = "Argo Workflows server behind /workflows/: http://host:port; empty: none."},
    {.name = "router.ca_file",
     .type = CONFIG_PATH,
     .offset = FIELD(router_ca_file),
     .def = "",
     .help = "PEM file with the CAs that certificates of https:// services are checked against; empty: the system's."},
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
     .help = "How many calls may be under way at once."},
    {.name = "router.connect_timeout",
     .type = CONFIG_DURATION,
     .offset = FIELD(router_connect_timeout_ms),
     .def = "5s",
     .min = 100,
     .max = 60000,
     .help = "How long to try to connect to a service."},
};

static const struct config_entry process_entries[] = {
    {.name = "admin.listen",
     .type = CONFIG_STRING,
     .offset = FIELD(admin_listen),
     .def = "127.0.0.1:8086",
     .help = "Listener for /livez, /readyz, /metrics and /version; empty: none."},
    {.name = "shutdown.deadline",
     .type = CONFIG_DURATION,
     .offset = FIELD(shutdown_deadline_ms),
     .def = "20s",
     .min = 0,
     .max = 3600000,
     .help = "How long calls may go on after SIGTERM."},
    {.name = "log.level",
     .type = CONFIG_CHOICE,
     .offset = FIELD(log_level),
     .def = "info",
     .choices = "debug|info|warn|error",
     .help = "The least severe lines that are logged."},
};

static const struct config_section platform = {.title = "platform", CONFIG_ENTRIES(platform_entries)};
static const struct config_section runtime = {.title = "runtime", CONFIG_ENTRIES(runtime_entries)};
static const struct config_section reporter = {
    .title = "reporter", CONFIG_ENTRIES(reporter_entries), .check = check_reporter};
static const struct config_section router = {.title = "router", CONFIG_ENTRIES(router_entries)};
static const struct config_section process = {.title = "process", CONFIG_ENTRIES(process_entries)};
static const struct config_section *const sections[] = {&platform, &runtime, &reporter, &router, &process};

const struct config_table agent_config_table = {
    .sections = sections,
    .section_count = sizeof sections / sizeof *sections,
    .program = "culvert-agent",
    .env_prefix = "CULVERT_",
};
