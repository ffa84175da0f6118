#include "agent/reports/managed_clusters.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "agent/kube/kube_probe.h"
#include "agent/reports/destinations.h"
#include "agent/reports/findings.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { NAME_BYTES_MAX = 253, TEXT_BYTES = 1024, NOTICE_MS = 10000, PATIENCE_MS = 30000, CHANGES_MS = 3000 };

// Why a cluster is not read; what its Applications have as a note changes with it.
enum unread_cause {
    UNREAD_NONE,
    UNREAD_SECRET,  // it is not known to be another cluster, or its Secret cannot be used
    UNREAD_PROBLEM, // its API server does not answer as it should
    UNREAD_LISTS,   // it has not been listed for a long time
    UNREAD_LIMIT,   // it has more objects than reporter.managed_objects_max
};

struct managed_cluster {
    struct managed_clusters *set;
    size_t index; // of its Secret
    char *name, *server;
    struct kube_config config;
    struct kube_client *client; // NULL: its Secret could not be used yet
    struct kube_probe *probe;
    struct collector *collector; // NULL: let go, or no client
    bool is_other;               // it may be read
    char secret_problem[TEXT_BYTES];
    enum unread_cause cause;
    int kind;              // of the API server's problem, with UNREAD_PROBLEM
    char text[TEXT_BYTES]; // why it is not read; "": it is
    uint64_t since_ms;     // of what is wrong now, or of its beginning
    uint64_t blind_since_ms;
};

struct managed_clusters {
    struct managed_clusters_options options;
    struct managed_cluster *at[CLUSTER_IDENTITY_SECRETS_MAX]; // NULL: not known, or gone
    bool is_resolved[CLUSTER_IDENTITY_SECRETS_MAX];           // the Secret was read, or is gone
    struct inventory *unmatched;                              // Applications of other destinations
    bool is_open, is_changed;
    uint64_t changed_sent_ms; // on_changed, last; 0: never
    struct metric *read, *unread, *resources, *left_out;
};

// ---- what one of them reports ------------------------------------------------------------------

// Applications are rows by name alone: those of another Argo CD are its own agent's to report.
static bool is_application(const struct inventory_resource *resource)
{
    return strcmp(resource->kind->kind, "Application") == 0 && strcmp(resource->kind->group, "argoproj.io") == 0;
}

static void on_report(void *arg, struct inventory_resource *resource, json_t *object)
{
    const struct managed_cluster *cluster = arg;
    const struct managed_clusters_options *o = &cluster->set->options;
    if (!is_application(resource)) o->events->on_report(o->arg, str_c(cluster->name), resource, object);
}

static void on_absent(void *arg, struct inventory_resource *resource, const char *presence, const char *plural)
{
    const struct managed_cluster *cluster = arg;
    const struct managed_clusters_options *o = &cluster->set->options;
    if (!is_application(resource)) o->events->on_absent(o->arg, str_c(cluster->name), resource, presence, plural);
}

static void on_gone(void *arg, const struct inventory_resource *resource)
{
    const struct managed_cluster *cluster = arg;
    const struct managed_clusters_options *o = &cluster->set->options;
    if (!is_application(resource)) o->events->on_gone(o->arg, str_c(cluster->name), resource);
}

static bool may_read(void *arg)
{
    const struct managed_clusters_options *o = &((const struct managed_cluster *)arg)->set->options;
    return o->events->may_read(o->arg);
}

static const struct collector_events collector_events = {
    .on_report = on_report, .on_absent = on_absent, .on_gone = on_gone, .may_read = may_read};

// ---- life ---------------------------------------------------------------------------------------

static void ignore_report(void *arg, struct inventory_resource *resource, json_t *object)
{
    (void)arg, (void)resource, (void)object;
}

static void ignore_gone(void *arg, const struct inventory_resource *resource)
{
    (void)arg, (void)resource;
}

static void ignore(void *arg, struct inventory_resource *resource)
{
    (void)arg, (void)resource;
}

static const struct inventory_events no_events = {ignore_report, ignore_gone, ignore, NULL, ignore};

struct managed_clusters *managed_clusters_create(const struct managed_clusters_options *options)
{
    struct managed_clusters *set = mem_zalloc(sizeof *set);
    set->options = *options;
    assert(options->secrets <= CLUSTER_IDENTITY_SECRETS_MAX);
    set->unmatched = inventory_create(&no_events, set, options->resources_max, NULL);
    struct metric_family *count =
        metrics_gauge("culvert_agent_managed_clusters",
                      "Clusters of reporter.cluster_secrets that are not the agent's own, by state.", "state", NULL);
    set->read = metric_with(count, "read");
    set->unread = metric_with(count, "unread");
    set->resources = metric_with(
        metrics_gauge("culvert_agent_managed_objects", "Objects of other clusters that the agent holds.", NULL));
    set->left_out = metric_with(metrics_gauge("culvert_agent_managed_objects_left_out",
                                              "Objects of other clusters beyond reporter.managed_objects_max.", NULL));
    return set;
}

static void let_go(struct managed_cluster *cluster)
{
    collector_destroy(cluster->collector);
    cluster->collector = NULL;
}

static void cluster_free(struct managed_cluster *cluster)
{
    let_go(cluster);
    kube_probe_destroy(cluster->probe);
    if (cluster->client) kube_client_close(cluster->client);
    kube_config_finish(&cluster->config);
    cluster->set->at[cluster->index] = NULL;
    mem_free(cluster->name);
    mem_free(cluster->server);
    mem_free(cluster);
}

void managed_clusters_destroy(struct managed_clusters *set)
{
    if (!set) return;
    for (size_t i = 0; i < set->options.secrets; i++)
        if (set->at[i]) cluster_free(set->at[i]);
    inventory_destroy(set->unmatched);
    mem_free(set);
}

static void open_cluster(struct managed_cluster *cluster)
{
    const struct managed_clusters_options *o = &cluster->set->options;
    struct error err;
    if (cluster->collector || !cluster->client || !cluster->set->is_open) return;
    // No list of namespaces, so that it cannot fail.
    cluster->collector = collector_create(&(struct collector_options){.client = cluster->client,
                                                                      .events = &collector_events,
                                                                      .arg = cluster,
                                                                      .watch_seconds = o->watch_seconds,
                                                                      .silence_ms = o->silence_ms,
                                                                      .absent_retry_ms = o->absent_retry_ms,
                                                                      .page_limit = o->page_limit,
                                                                      .resources_max = o->resources_max,
                                                                      .is_managed = true},
                                          &err);
    cluster->since_ms = 0;
    cluster->set->is_changed = true;
}

void managed_clusters_open(struct managed_clusters *set)
{
    if (!set) return;
    set->is_open = true;
    for (size_t i = 0; i < set->options.secrets; i++)
        if (set->at[i]) open_cluster(set->at[i]);
}

void managed_clusters_let_go(struct managed_clusters *set)
{
    if (!set) return;
    set->is_open = false;
    for (size_t i = 0; i < set->options.secrets; i++)
        if (set->at[i]) let_go(set->at[i]);
    inventory_destroy(set->unmatched);
    set->unmatched = inventory_create(&no_events, set, set->options.resources_max, NULL);
}

// ---- Secrets ------------------------------------------------------------------------------------

static bool is_good_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.at[i] < ' ' || name.at[i] == 0x7f) return false;
    return name.len > 0 && name.len <= NAME_BYTES_MAX;
}

static struct managed_cluster *named(const struct managed_clusters *set, struct str name)
{
    for (size_t i = 0; i < set->options.secrets; i++)
        if (set->at[i] && str_eq(str_c(set->at[i]->name), name)) return set->at[i];
    return NULL;
}

// Its objects are reported as deleted.
static void forget(struct managed_clusters *set, size_t index)
{
    struct managed_cluster *cluster = set->at[index];
    if (!cluster) return;
    log_info("reporter", "managed_cluster_forgotten", log_c("cluster", cluster->name),
             log_c("server", cluster->server));
    if (cluster->collector) collector_forget_applications(cluster->collector);
    cluster_free(cluster);
    set->is_changed = true;
}

static void set_problem(struct managed_cluster *cluster, const char *text)
{
    snprintf(cluster->secret_problem, sizeof cluster->secret_problem, "%s", text);
}

// Of the client, which reads it with each request; connections that are open go on.
static void take_config(struct managed_cluster *cluster, struct kube_config *config)
{
    const struct managed_clusters_options *o = &cluster->set->options;
    struct error err;
    kube_config_finish(&cluster->config);
    cluster->config = *config;
    *config = (struct kube_config){0};
    cluster->config.may_change = true;
    if (cluster->client) return;
    cluster->client = kube_client_create(o->loop, &cluster->config, &err);
    if (cluster->client)
        cluster->probe = kube_probe_create(&(struct kube_probe_options){.loop = o->loop,
                                                                        .config = &cluster->config,
                                                                        .interval_ms = o->probe_interval_ms,
                                                                        .timeout_ms = o->probe_timeout_ms},
                                           &err);
    if (cluster->client && cluster->probe) {
        open_cluster(cluster);
        return;
    }
    if (cluster->client) kube_client_close(cluster->client);
    cluster->client = NULL;
    set_problem(cluster, err.text);
}

static struct managed_cluster *cluster_of(struct managed_clusters *set, const struct cluster_secret *secret)
{
    struct managed_cluster *cluster = set->at[secret->index];
    bool is_same =
        cluster && str_eq(str_c(cluster->name), secret->name) && str_eq(str_c(cluster->server), secret->server);
    if (cluster && (is_same || !secret->name.len)) return cluster;
    forget(set, secret->index);
    if (!is_good_name(secret->name) || !secret->server.len) return NULL;
    if (str_eq(secret->name, str_c(set->options.own_name)) || named(set, secret->name)) {
        log_warn("reporter", "managed_cluster_name_taken", log_str("cluster", secret->name));
        return NULL;
    }
    cluster = mem_zalloc(sizeof *cluster);
    cluster->set = set;
    cluster->index = secret->index;
    cluster->name = mem_strndup(secret->name.at, secret->name.len);
    cluster->server = mem_strndup(secret->server.at, secret->server.len);
    set->is_changed = true;
    return set->at[secret->index] = cluster;
}

void managed_clusters_secret(struct managed_clusters *set, const struct cluster_secret *secret)
{
    if (!set || secret->index >= set->options.secrets) return;
    bool is_gone = secret->verdict == CLUSTER_SECRET_GONE || secret->verdict == CLUSTER_SECRET_OWN;
    set->is_changed = set->is_changed || (is_gone && !set->is_resolved[secret->index]);
    set->is_resolved[secret->index] = set->is_resolved[secret->index] || is_gone;
    if (is_gone) {
        forget(set, secret->index);
        return;
    }
    struct managed_cluster *cluster = cluster_of(set, secret);
    if (!cluster) return;
    set->is_resolved[secret->index] = true;
    set_problem(cluster, secret->problem);
    if (secret->config) take_config(cluster, secret->config);
    // Once another, it stays one until it is found to be the own: an outage changes no identity.
    bool is_new = secret->verdict == CLUSTER_SECRET_OTHER && !cluster->is_other;
    cluster->is_other = cluster->is_other || secret->verdict == CLUSTER_SECRET_OTHER;
    if (is_new)
        log_info("reporter", "managed_cluster_read", log_c("cluster", cluster->name), log_c("server", cluster->server));
}

// ---- Applications -------------------------------------------------------------------------------

static struct managed_cluster *at_destination(const struct managed_clusters *set, struct str elsewhere)
{
    for (size_t i = 0; set && i < set->options.secrets; i++) {
        struct managed_cluster *cluster = set->at[i];
        if (!cluster) continue;
        if (str_eq(elsewhere, str_c(cluster->name)) || destinations_is_same(elsewhere, str_c(cluster->server)))
            return cluster;
    }
    return NULL;
}

void managed_clusters_application(struct managed_clusters *set, struct str ns, struct str name, struct str elsewhere,
                                  const json_t *entries)
{
    if (!set) return;
    json_t *none = json_array();
    const struct managed_cluster *there = elsewhere.len ? at_destination(set, elsewhere) : NULL;
    if (elsewhere.len && !entries) entries = none;
    for (size_t i = 0; i < set->options.secrets; i++) {
        struct collector *collector = set->at[i] ? set->at[i]->collector : NULL;
        bool is_there = set->at[i] && set->at[i] == there;
        if (collector && (is_there || collector_has_application(collector, ns, name)))
            collector_application(collector, ns, name, is_there ? entries : NULL);
    }
    bool is_unmatched = elsewhere.len && !(there && there->collector);
    if (is_unmatched || inventory_has_application(set->unmatched, ns, name))
        inventory_application(set->unmatched, ns, name, is_unmatched ? entries : NULL);
    json_decref(none);
}

struct collector *managed_clusters_of_application(const struct managed_clusters *set, struct str ns, struct str name)
{
    for (size_t i = 0; set && i < set->options.secrets; i++) {
        const struct managed_cluster *cluster = set->at[i];
        if (cluster && cluster->collector && collector_has_application(cluster->collector, ns, name))
            return cluster->collector;
    }
    return NULL;
}

struct collector *managed_clusters_find(const struct managed_clusters *set, struct str cluster)
{
    const struct managed_cluster *found = set ? named(set, cluster) : NULL;
    return found ? found->collector : NULL;
}

const char *managed_clusters_problem(const struct managed_clusters *set, struct str elsewhere)
{
    const struct managed_cluster *cluster = at_destination(set, elsewhere);
    return cluster ? cluster->text : NULL;
}

// ---- what keeps one from being read ------------------------------------------------------------

static bool is_listed(const struct managed_cluster *cluster)
{
    return cluster->is_other && cluster->collector && collector_is_complete(cluster->collector) &&
           !kube_probe_blind_since_ms(cluster->probe);
}

// What is wrong at once, and *out_wait_ms: for how long it has to last.
static enum unread_cause cause_of(const struct managed_cluster *cluster, uint64_t *out_wait_ms)
{
    *out_wait_ms = NOTICE_MS;
    if (!cluster->is_other || !cluster->client) return UNREAD_SECRET;
    if (kube_probe_problem(cluster->probe)->kind != KUBE_PROBLEM_NONE) return UNREAD_PROBLEM;
    if (cluster->collector && collector_left_out(cluster->collector)) return UNREAD_LIMIT;
    *out_wait_ms = PATIENCE_MS;
    return is_listed(cluster) ? UNREAD_NONE : UNREAD_LISTS;
}

static void write_text(struct managed_cluster *cluster)
{
    static const char *const texts[] = {
        [UNREAD_NONE] = "",
        [UNREAD_SECRET] = "it has not answered yet",
        [UNREAD_LISTS] = "its objects could not be listed yet",
        [UNREAD_LIMIT] = "it has more objects than reporter.managed_objects_max",
    };
    const char *text = texts[cluster->cause];
    if (cluster->cause == UNREAD_SECRET && *cluster->secret_problem) text = cluster->secret_problem;
    if (cluster->cause == UNREAD_PROBLEM) text = kube_probe_problem(cluster->probe)->cause;
    snprintf(cluster->text, sizeof cluster->text, "%s", text);
}

static void look(struct managed_cluster *cluster, uint64_t now_ms)
{
    uint64_t wait_ms;
    enum unread_cause cause = cause_of(cluster, &wait_ms);
    int kind = cause == UNREAD_PROBLEM ? (int)kube_probe_problem(cluster->probe)->kind : 0;
    if (cause == cluster->cause && kind == cluster->kind) {
        cluster->since_ms = now_ms;
        return;
    }
    if (cause != UNREAD_NONE && now_ms < cluster->since_ms + wait_ms) return;
    cluster->cause = cause;
    cluster->kind = kind;
    cluster->since_ms = now_ms;
    cluster->set->is_changed = true;
    write_text(cluster);
    log_info("reporter", cause ? "managed_cluster_unread" : "managed_cluster_listed", log_c("cluster", cluster->name),
             log_c("reason", cluster->text));
}

static void tick(struct managed_cluster *cluster, uint64_t now_ms)
{
    if (!cluster->since_ms) cluster->since_ms = now_ms;
    if (cluster->is_other && cluster->collector) {
        uint64_t before_ms = cluster->blind_since_ms;
        kube_probe_tick(cluster->probe, now_ms);
        cluster->blind_since_ms = kube_probe_blind_since_ms(cluster->probe);
        if (before_ms && !cluster->blind_since_ms) collector_renew(cluster->collector, before_ms);
        collector_tick(cluster->collector, now_ms);
    }
    look(cluster, now_ms);
}

void managed_clusters_tick(struct managed_clusters *set, uint64_t now_ms)
{
    if (!set || !set->is_open) return;
    int64_t read = 0, all = 0, resources = 0, left_out = 0;
    for (size_t i = 0; i < set->options.secrets; i++) {
        struct managed_cluster *cluster = set->at[i];
        if (!cluster) continue;
        tick(cluster, now_ms);
        all++;
        read += cluster->cause == UNREAD_NONE && is_listed(cluster);
        if (!cluster->collector) continue;
        resources += (int64_t)collector_resource_count(cluster->collector);
        left_out += (int64_t)collector_left_out(cluster->collector);
    }
    metric_set(set->read, read);
    metric_set(set->unread, all - read);
    metric_set(set->resources, resources);
    metric_set(set->left_out, left_out);
    if (!set->is_changed || (set->changed_sent_ms && now_ms < set->changed_sent_ms + CHANGES_MS)) return;
    set->is_changed = false;
    set->changed_sent_ms = now_ms;
    set->options.events->on_changed(set->options.arg);
}

// ---- of all -------------------------------------------------------------------------------------

void managed_clusters_relist(struct managed_clusters *set)
{
    for (size_t i = 0; set && i < set->options.secrets; i++)
        if (set->at[i] && set->at[i]->collector) collector_relist(set->at[i]->collector);
}

void managed_clusters_resume(struct managed_clusters *set)
{
    for (size_t i = 0; set && i < set->options.secrets; i++)
        if (set->at[i] && set->at[i]->collector) collector_resume(set->at[i]->collector);
}

static bool has_unresolved(const struct managed_clusters *set)
{
    for (size_t i = 0; i < set->options.secrets; i++)
        if (!set->is_resolved[i] || (set->at[i] && !set->at[i]->collector)) return true;
    return false;
}

void managed_clusters_unread(const struct managed_clusters *set, struct strbuf *out)
{
    for (size_t i = 0; set && i < set->options.secrets; i++) {
        const struct managed_cluster *cluster = set->at[i];
        if (!cluster || !cluster->collector) continue;
        if (is_listed(cluster) && !collector_left_out(cluster->collector))
            collector_unread(cluster->collector, out);
        else
            collector_unread_all(cluster->collector, out);
    }
    // Applications of a cluster whose Secret could not be read may be of any of those.
    size_t cursor = 0;
    if (!set || !has_unresolved(set)) return;
    for (const struct inventory_kind *kind; (kind = inventory_next_kind(set->unmatched, &cursor));)
        if (kind->claims) strbuf_addf(out, "%s/%s\n", kind->group, kind->kind);
}

static void add_rights(const struct managed_cluster *cluster, json_t *findings)
{
    json_t *own = json_array(), *each;
    size_t i;
    collector_findings(cluster->collector, own);
    json_array_foreach(own, i, each)
    {
        char message[TEXT_BYTES];
        struct str text = json_get_str(each, "message");
        snprintf(message, sizeof message, "cluster %s: %.*s", cluster->name, STR_ARG(str_first(text, TEXT_BYTES / 2)));
        findings_add(findings, "KUBERNETES_RIGHT_MISSING", FINDING_WARNING, message,
                     json_string_value(json_object_get(each, "suggestion")));
    }
    json_decref(own);
}

void managed_clusters_findings(const struct managed_clusters *set, json_t *findings)
{
    for (size_t i = 0; set && i < set->options.secrets; i++) {
        const struct managed_cluster *cluster = set->at[i];
        if (cluster && cluster->collector && cluster->cause == UNREAD_NONE) add_rights(cluster, findings);
    }
}
