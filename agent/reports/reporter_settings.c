#include "agent/reports/reporter_settings.h"

#include <stddef.h>

#include "tunnel/wire/redaction.h"

#define AT(field) offsetof(struct reporter_settings, field)

static const struct config_entry entries[] = {
    // A string: a file that is missing is waited for, like one that is invalid (agent/agent.c).
    {.name = "kubeconfig",
     .type = CONFIG_STRING,
     .offset = AT(kubeconfig),
     .def = "",
     .help = "kubeconfig file of the cluster to report; empty: the pod's service account."},
    {.name = "kubeconfig.exec",
     .type = CONFIG_BOOL,
     .offset = AT(kubeconfig_exec),
     .def = "true",
     .help =
         "Run the exec plugin that the kubeconfig names for its user (as those of EKS, GKE and AKS), without a shell "
         "and without the agent's own variables, whenever a credential is needed. false: such a file is refused."},
    {.name = "kubeconfig.exec_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(kubeconfig_exec_timeout_ms),
     .def = "30s",
     .min = 1000,
     .max = 600000,
     .help = "Time limit of the exec plugin; it is then killed with all processes that it started."},
    {.name = "kubeconfig.retry_interval",
     .type = CONFIG_DURATION,
     .offset = AT(kubeconfig_retry_interval_ms),
     .def = "30s",
     .min = 100,
     .max = 60 * 60 * 1000,
     .help = "How often a missing or invalid kubeconfig is read again. The agent does not connect before it can be "
             "used; its log "
             "and /readyz have the reason."},
    {.name = "reporter.enabled",
     .type = CONFIG_BOOL,
     .offset = AT(enabled),
     .def = "true",
     .help = "Watch the cluster and report its objects."},
    {.name = "reporter.cluster_name",
     .type = CONFIG_STRING,
     .offset = AT(cluster_name),
     .def = "in-cluster",
     .help = "Name of the cluster in reports; use the name that Argo CD has for it."},
    {.name = "reporter.cluster_aliases",
     .type = CONFIG_STRING,
     .offset = AT(cluster_aliases),
     .def = "",
     .help = "Other names of this cluster in the destinations of Applications, comma-separated: its name in Argo CD, "
             "or https://host[:port]. kubernetes.default.svc, in-cluster and the address of the kubeconfig are known."},
    {.name = "reporter.namespaces",
     .type = CONFIG_STRING,
     .offset = AT(namespaces),
     .def = "",
     .help = "Comma-separated namespaces to watch; empty: all."},
    {.name = "reporter.state_dir",
     .type = CONFIG_STRING,
     .offset = AT(state_dir),
     .def = "",
     .help = "Folder for the key of redacted values, so that it survives restarts; empty: a new key at every start."},
    {.name = "reporter.clusters",
     .type = CONFIG_BOOL,
     .offset = AT(clusters),
     .def = "false",
     .help = "Read Argo CD's cluster Secrets for the names and addresses of its clusters."},
    {.name = "reporter.cluster_secrets",
     .type = CONFIG_STRING,
     .offset = AT(cluster_secrets),
     .def = "",
     .help = "Argo CD's cluster Secrets whose credentials the agent may use, NAME or NAMESPACE/NAME, comma-separated: "
             "to find out by the uid of its namespace kube-system whether such a cluster is this one under another "
             "name or address. Empty: none."},
    {.name = "reporter.cluster_interval",
     .type = CONFIG_DURATION,
     .offset = AT(cluster_interval_ms),
     .def = "10m",
     .min = 100,
     .max = 24 * 60 * 60 * 1000,
     .help = "How often that is found out again."},
    {.name = "reporter.managed_clusters",
     .type = CONFIG_BOOL,
     .offset = AT(managed_clusters),
     .def = "false",
     .help = "Read the clusters in reporter.cluster_secrets that are not this one, with the credentials in these "
             "Secrets: the resources of Applications that deploy there. The agent only gets, lists and watches."},
    {.name = "reporter.managed_objects_max",
     .type = CONFIG_INT,
     .offset = AT(managed_objects_max),
     .def = "50000",
     .min = 1000,
     .max = 10000000,
     .help = "Objects that are held of each such cluster. What is reported counts in reporter.objects_max, too. "
             "Beyond it new ones are left out, and the Applications of that cluster have a note."},
    {.name = "reporter.open_paths",
     .type = CONFIG_STRING,
     .offset = AT(open_paths),
     .def = "",
     .help =
         "Values that may leave the cluster, in addition to those in docs/security.md, comma-separated: "
         "Kind[.group]:path, for example Deployment.apps:spec.template.spec.containers.env.value. * as kind is every "
         "kind; a member whose name has a dot is written [\"as.this\"]; list elements have no name. Everything below "
         "the path leaves as well. Secrets cannot be opened. culvert-agent --explain-redaction FILE shows the effect."},
    {.name = "reporter.open_labels",
     .type = CONFIG_STRING,
     .offset = AT(open_labels),
     .def = "",
     .help = "Keys of labels whose values may leave the cluster, comma-separated; a trailing * matches every key with "
             "that prefix."},
    {.name = "reporter.open_annotations",
     .type = CONFIG_STRING,
     .offset = AT(open_annotations),
     .def = "",
     .help = "The same for annotations."},
    {.name = "reporter.objects_max",
     .type = CONFIG_INT,
     .offset = AT(objects_max),
     .def = "200000",
     .min = 1000,
     .max = 10000000,
     .help = "Objects that are reported; about 1 KB of memory each. Beyond it new ones are left out, what is shown "
             "counts as outdated, and no object is deleted for being absent."},
    {.name = "reporter.object_burst",
     .type = CONFIG_INT,
     .offset = AT(object_burst),
     .def = "10",
     .min = 1,
     .max = 1000000,
     .help = "Changes of one object that are reported at once; beyond it the newest state is reported once per "
             "reporter.object_interval."},
    {.name = "reporter.object_interval",
     .type = CONFIG_DURATION,
     .offset = AT(object_interval_ms),
     .def = "1s",
     .min = 10,
     .max = 60 * 60 * 1000,
     .help = "Interval between reports of one object after its burst."},
    {.name = "reporter.changes_per_second",
     .type = CONFIG_INT,
     .offset = AT(changes_per_second),
     .def = "5000",
     .max = 1000000,
     .help = "Changes of all objects together that are reported per second, not counting the first snapshot. What "
             "waits is reported in its newest state. 0: no limit."},
    {.name = "reporter.kubernetes_events",
     .type = CONFIG_BOOL,
     .offset = AT(kubernetes_events),
     .def = "false",
     .help = "Report Kubernetes Events of the objects of this cluster that are reported, where the platform takes "
             "them. Their messages are texts of controllers; credentials that redaction knows are taken out. It needs "
             "the right to list and watch events."},
    {.name = "reporter.kubernetes_events_max",
     .type = CONFIG_INT,
     .offset = AT(kubernetes_events_max),
     .def = "1000",
     .min = 100,
     .max = 10000,
     .help =
         "Kubernetes Events that wait to be sent; at most 20 of an object. Beyond it the oldest are dropped, Normal "
         "ones first."},
    {.name = "reporter.kubernetes_events_per_second",
     .type = CONFIG_INT,
     .offset = AT(kubernetes_events_per_second),
     .def = "50",
     .min = 1,
     .max = 1000,
     .help = "Kubernetes Events that are sent per second. Reports go first."},
    {.name = "reporter.probe_interval",
     .type = CONFIG_DURATION,
     .offset = AT(probe_interval_ms),
     .def = "3s",
     .min = 100,
     .max = 60000,
     .help = "How often the version of the Kubernetes API server is requested, to notice a server that hangs."},
    {.name = "reporter.probe_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(probe_timeout_ms),
     .def = "4s",
     .min = 100,
     .max = 60000,
     .help = "Time limit of that request; beyond it what is shown counts as outdated."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct reporter_settings *reporter = reporter_settings_of(config);
    const struct {
        const char *setting;
        struct redaction_options options;
    } each[] = {
        {"reporter.open_paths", {.open_paths = str_c(reporter->open_paths)}},
        {"reporter.open_labels", {.open_labels = str_c(reporter->open_labels)}},
        {"reporter.open_annotations", {.open_annotations = str_c(reporter->open_annotations)}},
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

const struct config_section reporter_settings_section = {
    .title = "reporter", .size = sizeof(struct reporter_settings), CONFIG_ENTRIES(entries), .check = check};
