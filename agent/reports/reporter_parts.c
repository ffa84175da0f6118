#include "agent/reports/reporter_parts.h"

#include <string.h>

#include "agent/reports/findings.h"
#include "agent/reports/redaction_key.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "tunnel/wire/redaction.h"

// ---- from an object to the outbox --------------------------------------------------------------

void reporter_request_turn(struct reporter *reporter)
{
    if (reporter->stream) timer_start(&reporter->turn, 0, 0);
}

static void report(struct reporter *reporter, struct str cluster, struct inventory_resource *resource, json_t *object)
{
    if (object_report_put(&reporter->objects, cluster, resource, object)) reporter_request_turn(reporter);
}

static void on_report(void *arg, struct inventory_resource *resource, json_t *object)
{
    report(arg, STR_EMPTY, resource, object);
}

static void on_managed_report(void *arg, struct str cluster, struct inventory_resource *resource, json_t *object)
{
    report(arg, cluster, resource, object);
}

static void report_absent(struct reporter *reporter, struct str cluster, struct inventory_resource *resource,
                          const char *presence, const char *plural)
{
    if (object_report_put_absent(&reporter->objects, cluster, resource, presence, plural))
        reporter_request_turn(reporter);
}

static void on_absent(void *arg, struct inventory_resource *resource, const char *presence, const char *plural)
{
    report_absent(arg, STR_EMPTY, resource, presence, plural);
}

static void report_gone(struct reporter *reporter, struct str cluster, const struct inventory_resource *resource)
{
    object_report_delete(&reporter->objects, cluster, resource);
    reporter_request_turn(reporter);
}

static void on_gone(void *arg, const struct inventory_resource *resource)
{
    struct reporter *reporter = arg;
    if (strcmp(resource->kind->kind, "Application") == 0)
        argo_view_forget(reporter->argo, str_c(resource->ns), str_c(resource->name));
    report_gone(reporter, STR_EMPTY, resource);
}

static void on_managed_absent(void *arg, struct str cluster, struct inventory_resource *resource, const char *presence,
                              const char *plural)
{
    report_absent(arg, cluster, resource, presence, plural);
}

static void on_managed_gone(void *arg, struct str cluster, const struct inventory_resource *resource)
{
    report_gone(arg, cluster, resource);
}

static void on_elsewhere(void *arg, struct str ns, struct str name, struct str elsewhere, const json_t *entries)
{
    managed_clusters_application(((struct reporter *)arg)->managed, ns, name, elsewhere, entries);
}

static bool may_read(void *arg)
{
    struct reporter *reporter = arg;
    if (outbox_is_full(reporter->outbox)) reporter->held_back = true;
    return !reporter->held_back;
}

static const struct collector_events collector_events = {on_report, on_absent, on_gone, on_elsewhere, may_read};

// The Applications say which objects of other clusters are to be reported, and why they are not
// read.
static void on_managed_changed(void *arg)
{
    struct reporter *reporter = arg;
    if (reporter->collector) collector_relist(reporter->collector);
}

static const struct managed_clusters_events managed_events = {on_managed_report, on_managed_absent, on_managed_gone,
                                                              may_read, on_managed_changed};

// Where the objects of this cluster are followed; NULL: nowhere.
struct collector *reporter_collector_of_cluster(const struct reporter *reporter, struct str cluster)
{
    return cluster.len ? managed_clusters_find(reporter->managed, cluster) : reporter->collector;
}

static struct collector *collector_of_application(void *arg, struct str ns, struct str name)
{
    const struct reporter *reporter = arg;
    struct collector *managed = managed_clusters_of_application(reporter->managed, ns, name);
    return managed ? managed : reporter->collector;
}

bool reporter_is_there(void *arg, const struct outbox_object *object)
{
    const struct collector *collector = reporter_collector_of_cluster(arg, object->cluster);
    return collector && collector_reports(collector, &object->ref);
}

void reporter_gather_unread(const struct reporter *reporter, struct strbuf *out)
{
    collector_unread(reporter->collector, out);
    managed_clusters_unread(reporter->managed, out);
}

// The platform keeps what it has of these kinds: it is compared once they can be read.
void reporter_unread(void *arg, struct strbuf *out)
{
    struct reporter *reporter = arg;
    reporter_gather_unread(reporter, out);
    mem_free(reporter->unread);
    reporter->unread = out->len ? mem_strndup(out->at, out->len) : NULL;
}

void reporter_on_cluster(void *arg, struct str manifest)
{
    struct reporter *reporter = arg;
    report_stream_cluster(reporter->stream, manifest);
    reporter_request_turn(reporter);
}

void reporter_cluster_counts(void *arg, size_t *out_applications, size_t *out_resources, size_t *out_kinds)
{
    const struct reporter *reporter = arg;
    *out_applications = collector_application_count(reporter->collector);
    *out_resources = collector_resource_count(reporter->collector);
    *out_kinds = collector_kind_count(reporter->collector);
}

void reporter_cluster_findings(void *arg, json_t *out)
{
    const struct reporter *reporter = arg;
    findings_add_problem(out, kube_probe_problem(reporter->probe));
    collector_findings(reporter->collector, out);
    destinations_findings(reporter->destinations, out);
    argo_view_findings(reporter->argo, out);
    cluster_identity_findings(reporter->identity, out);
    managed_clusters_findings(reporter->managed, out);
    kubernetes_events_findings(reporter->events, out);
}

// What its Applications name is looked at once they are listed again.
void reporter_on_named(void *arg, struct str name, struct str server)
{
    struct reporter *reporter = arg;
    if (destinations_learn(reporter->destinations, name, server)) collector_relist(reporter->collector);
}

static void on_secret(void *arg, const struct cluster_secret *secret)
{
    managed_clusters_secret(((struct reporter *)arg)->managed, secret);
}

static const char *managed_problem(void *arg, struct str elsewhere)
{
    return managed_clusters_problem(((const struct reporter *)arg)->managed, elsewhere);
}

// The Applications of what is or is no longer taken for the own cluster are looked at again.
static void on_identified(void *arg, struct str name, struct str server, bool is_own)
{
    struct reporter *reporter = arg;
    if (!destinations_identify(reporter->destinations, name, server, is_own)) return;
    log_info("reporter", is_own ? "cluster_is_own" : "cluster_is_another", log_str("cluster", name),
             log_str("server", server));
    if (reporter->collector) collector_relist(reporter->collector);
}

// ---- making the parts --------------------------------------------------------------------------

// Much is seen that is not reported: the Pods of others above all.
static size_t resources_max(const struct reporter_options *options)
{
    size_t most = options->outbox.objects_max * 5 / 2;
    return most > INVENTORY_RESOURCES_MAX ? most : INVENTORY_RESOURCES_MAX;
}

enum error_code reporter_open_collector(struct reporter *reporter, struct error *err)
{
    const struct reporter_options *o = &reporter->options;
    reporter->collector = collector_create(&(struct collector_options){.client = reporter->client,
                                                                       .namespaces = o->namespaces,
                                                                       .events = &collector_events,
                                                                       .arg = reporter,
                                                                       .watch_seconds = o->watch_seconds,
                                                                       .silence_ms = o->silence_ms,
                                                                       .absent_retry_ms = o->absent_retry_ms,
                                                                       .page_limit = o->page_limit,
                                                                       .resources_max = resources_max(o),
                                                                       .destinations = reporter->destinations},
                                           err);
    if (reporter->collector) managed_clusters_open(reporter->managed);
    return reporter->collector ? ERROR_NONE : err->code;
}

void reporter_free_parts(struct reporter *reporter)
{
    argo_view_destroy(reporter->argo);
    kubernetes_events_destroy(reporter->events);
    kube_exec_destroy(reporter->kube.exec);
    kube_config_finish(&reporter->kube);
    redaction_destroy(reporter->redaction);
    outbox_destroy(reporter->outbox);
    destinations_destroy(reporter->destinations);
    mem_free((char *)reporter->options.kubeconfig);
    mem_free((char *)reporter->options.cluster_name);
    mem_free((char *)reporter->options.namespaces);
    mem_free((char *)reporter->options.state_folder);
}

// Everything of the configuration that can be wrong is found here, not when the first stream opens.
// The probe reads in the first of the namespaces that the agent may read.
static enum error_code start_probe(struct reporter *reporter, struct error *err)
{
    const struct reporter_options *o = &reporter->options;
    size_t start = strspn(o->namespaces, ", "), len = strcspn(o->namespaces + start, ", ");
    AUTO_FREE char *ns = len ? mem_strndup(o->namespaces + start, len) : NULL;
    reporter->probe = kube_probe_create(&(struct kube_probe_options){.loop = reporter->loop,
                                                                     .config = &reporter->kube,
                                                                     .interval_ms = o->probe_interval_ms,
                                                                     .timeout_ms = o->probe_timeout_ms,
                                                                     .ns = ns},
                                        err);
    return reporter->probe ? ERROR_NONE : ERROR_INTERNAL;
}

static void start_managed(struct reporter *reporter)
{
    const struct reporter_options *o = &reporter->options;
    size_t own_max = resources_max(o);
    reporter->managed = managed_clusters_create(
        &(struct managed_clusters_options){.loop = reporter->loop,
                                           .events = &managed_events,
                                           .arg = reporter,
                                           .own_name = o->cluster_name,
                                           .secrets = cluster_identity_count(reporter->identity),
                                           .resources_max = o->managed_objects_max ? o->managed_objects_max : own_max,
                                           .watch_seconds = o->watch_seconds,
                                           .silence_ms = o->silence_ms,
                                           .absent_retry_ms = o->absent_retry_ms,
                                           .page_limit = o->page_limit,
                                           .probe_interval_ms = o->probe_interval_ms,
                                           .probe_timeout_ms = o->probe_timeout_ms});
    destinations_read_by(reporter->destinations, managed_problem, reporter);
}

static enum error_code start_identity(struct reporter *reporter, struct error *err)
{
    const struct cluster_identity_options options = {.loop = reporter->loop,
                                                     .client = reporter->client,
                                                     .secrets = reporter->options.cluster_secrets,
                                                     .interval_ms = reporter->options.cluster_interval_ms,
                                                     .on_cluster = on_identified,
                                                     .on_secret = on_secret,
                                                     .arg = reporter};
    enum error_code code = cluster_identity_create(&options, &reporter->identity, err);
    if (reporter->identity && reporter->options.managed_clusters) start_managed(reporter);
    return code;
}

enum error_code reporter_start_parts(struct reporter *reporter, struct error *err)
{
    const struct reporter_options *o = &reporter->options;
    enum error_code code = kube_config_load(o->kubeconfig, &reporter->kube, err);
    if (code != ERROR_NONE) return code;
    reporter->kube.transport = o->transport;
    if (reporter->kube.exec_spec && o->exec_forbidden)
        return error_set(err, ERROR_FORBIDDEN,
                         "%s: the exec plugin of the user is disabled (kubeconfig.exec = false): create a kubeconfig "
                         "for a service account (docs/operations.md, \"A kubeconfig for the agent\")",
                         o->kubeconfig);
    if (reporter->kube.exec_spec)
        reporter->kube.exec = kube_exec_create(&(struct kube_exec_options){.loop = reporter->loop,
                                                                           .spec = reporter->kube.exec_spec,
                                                                           .server = reporter->kube.server,
                                                                           .ca_pem = reporter->kube.ca_pem,
                                                                           .timeout_ms = o->exec_timeout_ms});
    reporter->destinations = destinations_create(&(struct destinations_options){.server = reporter->kube.server,
                                                                                .name = o->cluster_name,
                                                                                .aliases = o->cluster_aliases},
                                                 err);
    if (!reporter->destinations) return ERROR_INVALID;
    struct argo_view_options argo = o->argo;
    argo.collector_of = collector_of_application;
    argo.arg = reporter;
    code = argo_view_create(reporter->loop, &argo, &reporter->argo, err);
    if (code != ERROR_NONE) return code;
    uint8_t key[REDACTION_KEY_BYTES];
    code = redaction_key_load(o->state_folder, key, err);
    struct redaction_options redaction = o->redaction;
    redaction.digested = reporter->metrics.digested;
    redaction.scrubbed = reporter->metrics.scrubbed;
    if (code == ERROR_NONE) code = redaction_create(key, &redaction, &reporter->redaction, err);
    explicit_bzero(key, sizeof key);
    if (code != ERROR_NONE) return code;
    struct outbox_options outbox = o->outbox;
    outbox.cluster_name = o->cluster_name;
    reporter->outbox = outbox_create(&outbox);
    reporter->client = kube_client_create(reporter->loop, &reporter->kube, err);
    if (!reporter->client) return ERROR_INTERNAL;
    if (o->kubernetes_events)
        reporter->events =
            kubernetes_events_create(&(struct kubernetes_events_options){.client = reporter->client,
                                                                         .outbox = reporter->outbox,
                                                                         .namespaces = o->namespaces,
                                                                         .count_max = o->kubernetes_events_max,
                                                                         .per_second = o->kubernetes_events_per_second,
                                                                         .watch_seconds = o->watch_seconds,
                                                                         .silence_ms = o->silence_ms,
                                                                         .absent_retry_ms = o->absent_retry_ms,
                                                                         .page_limit = o->page_limit});
    code = start_probe(reporter, err);
    if (code == ERROR_NONE) code = start_identity(reporter, err);
    if (code != ERROR_NONE) return code;
    reporter->objects = (struct object_report){.argo = reporter->argo,
                                               .redaction = reporter->redaction,
                                               .outbox = reporter->outbox,
                                               .destinations = reporter->destinations};
    struct collector *trial = collector_create(
        &(struct collector_options){
            .client = reporter->client, .namespaces = o->namespaces, .events = &collector_events, .arg = reporter},
        err);
    collector_destroy(trial);
    return trial ? ERROR_NONE : ERROR_INVALID;
}
