#include "agent/reports/collector.h"

#include <string.h>

#include "agent/kube/entry_ref.h"
#include "agent/reports/discovery.h"
#include "agent/reports/fetches.h"
#include "agent/reports/findings.h"
#include "agent/reports/watch.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "tunnel/wire/report.h"

enum { TIERS = 4, TIER_NAMED = 1, PATIENCE_RESTARTS = 3, RELIST_MS = 60000 };

// Kinds that need no discovery and no application that names them.
static const struct {
    const char *group, *version, *kind, *plural;
    int tier;
    bool always, managed; // reported for itself; watched in a managed cluster
} fixed_kinds[] = {
    {"argoproj.io", "v1alpha1", "Application", "applications", 0, true, false},
    {"argoproj.io", "v1alpha1", "ApplicationSet", "applicationsets", 1, true, false},
    {"argoproj.io", "v1alpha1", "Rollout", "rollouts", 1, true, false},
    {"argoproj.io", "v1alpha1", "AnalysisRun", "analysisruns", 1, true, true},
    {"argoproj.io", "v1alpha1", "Workflow", "workflows", 1, true, false},
    {"apps", "v1", "ReplicaSet", "replicasets", 2, false, true},
    {"apps", "v1", "ControllerRevision", "controllerrevisions", 2, false, true},
    {"batch", "v1", "Job", "jobs", 2, false, true},
    {"discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", 2, false, true},
    {"", "v1", "Pod", "pods", 3, false, true},
};

// One watch of a kind: of one namespace, or of all.
struct source {
    struct kind_watch *owner;
    struct watch *watch;
    char *ns; // NULL: all
    uint64_t generation, restarts_before;
    bool relist_due;       // contents are missing that could not be fetched
    bool has_fetched;      // one by one since its list began, so that it may be behind
    uint64_t relist_at_ms; // not before
};

struct kind_watch {
    struct collector *collector;
    struct inventory_kind *kind;
    int tier;
    bool fixed, unknown;  // unknown: the API server does not have it (now)
    bool failing;         // it does not say
    uint64_t asked_at_ms; // since when it is asked; 0: it has said
    char *plural;         // NULL: to be discovered
    bool namespaced;
    struct source sources[COLLECTOR_NAMESPACES_MAX];
    size_t source_count;
    struct kind_watch *next;
};

struct collector {
    struct collector_options options;
    char *namespaces[COLLECTOR_NAMESPACES_MAX];
    size_t namespace_count;
    struct inventory *inventory;
    struct discovery *discovery;
    struct kind_watch *kinds;
    struct fetches *fetches;
    uint64_t fetch_barrier; // how many there had been when all lists were complete, and 1; 0: they are not
    uint64_t restarts;      // of watches that are gone
};

// ---- contents that are fetched one by one ---------------------------------------------------------------------

static void on_stale(void *arg, struct inventory_resource *resource)
{
    fetches_add(((struct collector *)arg)->fetches, resource);
}

static void on_forget(void *arg, struct inventory_resource *resource)
{
    fetches_forget(((struct collector *)arg)->fetches, resource);
}

// 0: not a number. Those of one API server's objects of one kind can be compared.
static uint64_t version_of(const json_t *object)
{
    uint64_t version;
    struct str text = json_str(json_path(object, "metadata", "resourceVersion", NULL));
    return parse_u64(text, 1, UINT64_MAX, &version, NULL) == ERROR_NONE ? version : 0;
}

// A list that was requested before, or a watch that is slower, must not bring back an older state.
static void note_fetched(struct inventory_resource *resource, uint64_t version)
{
    struct kind_watch *kind_watch = resource->kind->user;
    for (size_t i = 0; kind_watch && i < kind_watch->source_count; i++) {
        struct source *source = &kind_watch->sources[i];
        if (source->ns && strcmp(source->ns, resource->ns) != 0) continue;
        source->has_fetched = true;
        resource->fetched_version = version;
        resource->fetched_generation = source->generation;
    }
}

static bool is_behind(struct source *source, const json_t *object)
{
    if (!source->has_fetched) return false;
    const struct inventory_kind *kind = source->owner->kind;
    const json_t *metadata = json_get_object(object, "metadata");
    const struct object_ref ref = {.group = str_c(kind->group),
                                   .kind = str_c(kind->kind),
                                   .ns = json_get_str(metadata, "namespace"),
                                   .name = json_get_str(metadata, "name")};
    struct inventory_resource *resource = inventory_find(source->owner->collector->inventory, &ref);
    uint64_t version = version_of(object);
    bool is_older = resource && version && resource->fetched_generation == source->generation &&
                    version < resource->fetched_version;
    if (is_older) resource->generation = source->generation; // it is there
    return is_older;
}

static void on_fetched(void *arg, struct inventory_resource *resource, json_t *object)
{
    struct collector *collector = arg;
    note_fetched(resource, version_of(object));
    // Straight from the object's own address: its type is as certain as a watch's.
    struct inventory_kind *kind = resource->kind;
    AUTO_FREE char *api = *kind->group ? mem_printf("%s/%s", kind->group, kind->version) : mem_strdup(kind->version);
    json_object_set_new(object, "kind", json_string(kind->kind));
    json_object_set_new(object, "apiVersion", json_string(api));
    inventory_seen(collector->inventory, kind, 0, object);
}

static void on_fetch_failed(void *arg, const struct inventory_resource *resource)
{
    struct kind_watch *kind_watch = resource->kind->user;
    (void)arg;
    for (size_t i = 0; kind_watch && i < kind_watch->source_count; i++)
        kind_watch->sources[i].relist_due = true;
}

static char *path_of(void *arg, const struct inventory_resource *resource)
{
    (void)arg;
    const struct inventory_kind *kind = resource->kind;
    const struct kind_watch *watch = kind->user;
    if (!watch || !watch->plural) return NULL;
    AUTO_FREE char *root =
        *kind->group ? mem_printf("/apis/%s/%s", kind->group, kind->version) : mem_printf("/api/%s", kind->version);
    if (watch->namespaced)
        return mem_printf("%s/namespaces/%s/%s/%s", root, resource->ns, watch->plural, resource->name);
    return mem_printf("%s/%s/%s", root, watch->plural, resource->name);
}

// ---- watches -------------------------------------------------------------------------------------------------

static void on_watch_object(void *arg, struct watch *watch, enum watch_event event, json_t *object)
{
    (void)watch;
    struct source *source = arg;
    struct inventory *inventory = source->owner->collector->inventory;
    if (is_behind(source, object)) return;
    if (event != WATCH_DELETED) {
        inventory_seen(inventory, source->owner->kind, source->generation, object);
        return;
    }
    const json_t *metadata = json_get_object(object, "metadata");
    inventory_deleted(inventory, source->owner->kind, json_get_str(metadata, "namespace"),
                      json_get_str(metadata, "name"));
}

static void on_listing(void *arg, struct watch *watch)
{
    (void)watch;
    struct source *source = arg;
    source->generation++;
    source->has_fetched = false;
}

static void on_listed(void *arg, struct watch *watch, int status)
{
    struct source *source = arg;
    struct inventory_kind *kind = source->owner->kind;
    inventory_doubt(kind);
    // That they cannot be read does not make objects go away.
    if (status != 403 && !watch_is_partial(watch))
        inventory_sweep(source->owner->collector->inventory, source->owner->kind, source->ns, source->generation);
    if (status == 200)
        log_debug("collector", "listed", log_c("kind", kind->kind), log_c("group", kind->group),
                  log_c("namespace", source->ns ? source->ns : ""), log_uint("restarts", watch_restarts(watch)));
}

static bool may_read(void *arg)
{
    const struct collector *collector = ((const struct source *)arg)->owner->collector;
    return !collector->options.events->may_read || collector->options.events->may_read(collector->options.arg);
}

static const struct watch_events watch_events = {on_watch_object, on_listing, on_listed, may_read};

static void add_source(struct kind_watch *kind_watch, const char *ns)
{
    const struct collector_options *o = &kind_watch->collector->options;
    const struct inventory_kind *kind = kind_watch->kind;
    struct source *source = &kind_watch->sources[kind_watch->source_count++];
    *source = (struct source){.owner = kind_watch, .ns = ns ? mem_strdup(ns) : NULL};
    source->watch = watch_create(&(struct watch_options){.client = o->client,
                                                         .group = kind->group,
                                                         .version = kind->version,
                                                         .plural = kind_watch->plural,
                                                         .kind = kind->kind,
                                                         .ns = ns,
                                                         .page_limit = o->page_limit,
                                                         .watch_seconds = o->watch_seconds,
                                                         .silence_ms = o->silence_ms,
                                                         .absent_retry_ms = o->absent_retry_ms,
                                                         .needed = kind_watch->tier == 0,
                                                         .events = &watch_events,
                                                         .arg = source});
}

static void add_sources(struct kind_watch *kind_watch, const char *plural, bool namespaced)
{
    struct collector *collector = kind_watch->collector;
    kind_watch->plural = mem_strdup(plural);
    kind_watch->namespaced = namespaced;
    kind_watch->unknown = false;
    if (!namespaced || collector->namespace_count == 0) add_source(kind_watch, NULL);
    for (size_t i = 0; namespaced && i < collector->namespace_count; i++)
        add_source(kind_watch, collector->namespaces[i]);
}

static struct kind_watch *add_kind(struct collector *collector, struct inventory_kind *kind, int tier)
{
    struct kind_watch *kind_watch = mem_zalloc(sizeof *kind_watch);
    kind_watch->collector = collector;
    kind_watch->kind = kind;
    kind_watch->tier = tier;
    kind_watch->next = collector->kinds;
    collector->kinds = kind_watch;
    kind->user = kind_watch;
    return kind_watch;
}

static void kind_watch_free(struct kind_watch *kind_watch)
{
    for (size_t i = 0; i < kind_watch->source_count; i++) {
        kind_watch->collector->restarts += watch_restarts(kind_watch->sources[i].watch);
        watch_destroy(kind_watch->sources[i].watch);
        mem_free(kind_watch->sources[i].ns);
    }
    kind_watch->kind->user = NULL;
    mem_free(kind_watch->plural);
    mem_free(kind_watch);
}

// Kinds that applications name come, kinds that none names any more go.
static void follow_kinds(struct collector *collector)
{
    size_t cursor = 0;
    for (struct inventory_kind *kind; (kind = inventory_next_kind(collector->inventory, &cursor));)
        if (!kind->user && kind->claims) add_kind(collector, kind, TIER_NAMED);
    for (struct kind_watch **link = &collector->kinds; *link;) {
        struct kind_watch *kind_watch = *link;
        if (kind_watch->fixed || kind_watch->kind->claims) {
            link = &kind_watch->next;
            continue;
        }
        *link = kind_watch->next;
        inventory_sweep(collector->inventory, kind_watch->kind, NULL, UINT64_MAX);
        kind_watch_free(kind_watch);
    }
}

static void discover(struct kind_watch *kind_watch, uint64_t now_ms)
{
    const struct inventory_kind *kind = kind_watch->kind;
    const char *plural;
    bool namespaced;
    enum discovery_answer answer = discovery_find(kind_watch->collector->discovery, kind->group, kind->version,
                                                  kind->kind, now_ms, &plural, &namespaced);
    bool said = answer == DISCOVERY_FOUND || answer == DISCOVERY_UNKNOWN;
    kind_watch->failing = answer == DISCOVERY_FAILING;
    kind_watch->asked_at_ms = said ? 0 : kind_watch->asked_at_ms ? kind_watch->asked_at_ms : now_ms;
    switch (answer) {
    case DISCOVERY_FOUND: add_sources(kind_watch, plural, namespaced); break;
    case DISCOVERY_UNKNOWN:
        if (!kind_watch->unknown) inventory_doubt(kind_watch->kind);
        if (!kind_watch->unknown)
            log_warn("collector", "kind_unknown", log_c("kind", kind->kind), log_c("group", kind->group));
        kind_watch->unknown = true;
        break;
    case DISCOVERY_ASKING:
    case DISCOVERY_FAILING: break;
    }
}

static bool is_listed(const struct kind_watch *kind_watch)
{
    if (!kind_watch->plural) return kind_watch->unknown;
    for (size_t i = 0; i < kind_watch->source_count; i++) {
        const struct watch *watch = kind_watch->sources[i].watch;
        bool needed = kind_watch->tier == 0;
        if (!watch_is_listed(watch) || (needed && watch_is_forbidden(watch))) return false;
    }
    return true;
}

static bool is_unread(const struct kind_watch *kind_watch)
{
    for (size_t i = 0; i < kind_watch->source_count; i++)
        if (watch_is_forbidden(kind_watch->sources[i].watch) || watch_is_partial(kind_watch->sources[i].watch))
            return true;
    return false;
}

// A kind whose list keeps failing must not hold back the tiers behind it.
static bool holds_tier(const struct kind_watch *kind_watch)
{
    if (!kind_watch->plural) return !kind_watch->unknown && !kind_watch->failing;
    for (size_t i = 0; i < kind_watch->source_count; i++) {
        const struct source *source = &kind_watch->sources[i];
        if (!watch_is_listed(source->watch) &&
            watch_restarts(source->watch) - source->restarts_before < PATIENCE_RESTARTS)
            return true;
    }
    return false;
}

static bool lists_are_complete(const struct collector *collector)
{
    size_t cursor = 0;
    for (const struct inventory_kind *kind; (kind = inventory_next_kind(collector->inventory, &cursor));)
        if (kind->claims && !kind->user) return false;
    for (const struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next)
        if (!is_listed(kind_watch) || kind_watch->kind->absent_due) return false;
    return true;
}

// ---- what is not at hand -------------------------------------------------------------------------------------

// The source that brings objects of this namespace; NULL: the agent is not to look there.
static const struct source *source_of(const struct kind_watch *kind_watch, const char *ns)
{
    for (size_t i = 0; i < kind_watch->source_count; i++) {
        const struct source *source = &kind_watch->sources[i];
        if (!source->ns || strcmp(source->ns, ns) == 0) return source;
    }
    return NULL;
}

// NULL: nothing can be said. *out_plural is set where a right is missing.
static const char *presence_of(const struct kind_watch *kind_watch, const char *ns, const char **out_plural)
{
    *out_plural = NULL;
    if (!kind_watch->plural) return WIRE_PRESENCE_UNKNOWN_KIND;
    const struct source *source = source_of(kind_watch, ns);
    if (!source) return WIRE_PRESENCE_UNREADABLE;
    if (watch_is_forbidden(source->watch)) {
        *out_plural = kind_watch->plural;
        return WIRE_PRESENCE_UNREADABLE;
    }
    if (watch_is_absent(source->watch)) return WIRE_PRESENCE_UNKNOWN_KIND;
    return watch_is_partial(source->watch) ? NULL : WIRE_PRESENCE_MISSING;
}

// Once the kind's lists are complete: what applications name and no list held is missing, or may not be read; what was
// reported while it could be read, and cannot be now, is shown as it was.
static void tell_absent(struct kind_watch *kind_watch)
{
    struct collector *collector = kind_watch->collector;
    if (!kind_watch->kind->absent_due || !is_listed(kind_watch)) return;
    kind_watch->kind->absent_due = false;
    if (kind_watch->tier == 0) return; // without applications nothing is known at all
    for (struct inventory_resource *one = kind_watch->kind->first; one; one = one->next) {
        bool is_held = one->uid && one->reported;
        const char *plural, *presence = presence_of(kind_watch, one->ns, &plural);
        if (!presence || (!is_held && (one->uid || !one->claims))) continue;
        if (is_held && !plural) continue;
        // Argo CD's tree may be older than what was seen here: it makes nothing missing.
        if (one->claims == one->tree_claims && strcmp(presence, WIRE_PRESENCE_UNREADABLE) != 0) continue;
        one->absent = true;
        collector->options.events->on_absent(collector->options.arg, one, presence, plural);
    }
}

// A list that is under way tells all the same. Where contents can never be fetched, lists must not follow each other.
static void tick_source(struct source *source, uint64_t now_ms)
{
    if (!watch_is_listed(source->watch) || watch_is_forbidden(source->watch)) source->relist_due = false;
    if (source->relist_due && now_ms >= source->relist_at_ms) {
        source->relist_due = false;
        source->relist_at_ms = now_ms + RELIST_MS;
        watch_relist(source->watch);
    }
    watch_tick(source->watch, now_ms);
}

void collector_tick(struct collector *collector, uint64_t now_ms)
{
    follow_kinds(collector);
    bool held = false;
    for (int tier = 0; tier < TIERS && !held; tier++) {
        for (struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next) {
            if (kind_watch->tier != tier) continue;
            if (!kind_watch->plural) discover(kind_watch, now_ms);
            for (size_t i = 0; i < kind_watch->source_count; i++)
                tick_source(&kind_watch->sources[i], now_ms);
            held = held || holds_tier(kind_watch);
        }
        // What applications name is only known when they are listed.
        if (tier == 0 && !held) follow_kinds(collector);
    }
    for (struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next)
        tell_absent(kind_watch);
    fetches_tick(collector->fetches);
    if (!collector->fetch_barrier && lists_are_complete(collector))
        collector->fetch_barrier = fetches_added(collector->fetches) + 1;
}

// ---- the whole -----------------------------------------------------------------------------------------------

static void on_report(void *arg, struct inventory_resource *resource, json_t *object)
{
    struct collector *collector = arg;
    // What is being fetched may be older than what a watch tells now.
    fetches_drop(collector->fetches, resource);
    collector->options.events->on_report(collector->options.arg, resource, object);
}

static void on_gone(void *arg, const struct inventory_resource *resource)
{
    struct collector *collector = arg;
    collector->options.events->on_gone(collector->options.arg, resource);
}

static void on_elsewhere(void *arg, struct str ns, struct str name, struct str elsewhere, const json_t *entries)
{
    struct collector *collector = arg;
    const struct collector_events *events = collector->options.events;
    if (events->on_elsewhere) events->on_elsewhere(collector->options.arg, ns, name, elsewhere, entries);
}

static const struct inventory_events inventory_events = {on_report, on_gone, on_stale, on_elsewhere, on_forget};

static bool is_namespace(struct str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!((name.at[i] >= 'a' && name.at[i] <= 'z') || (name.at[i] >= '0' && name.at[i] <= '9') ||
              name.at[i] == '-'))
            return false;
    return name.len > 0 && name.len <= 63;
}

static enum error_code take_namespaces(struct collector *collector, struct str list, struct error *err)
{
    while (list.len) {
        struct str name;
        if (!str_cut(&list, ',', &name)) list = STR_EMPTY;
        name = str_trim(name);
        if (!is_namespace(name))
            return error_set(err, ERROR_INVALID, "invalid namespace \"%.*s\" in reporter.namespaces", STR_ARG(name));
        if (collector->namespace_count == COLLECTOR_NAMESPACES_MAX)
            return error_set(err, ERROR_TOO_LARGE, "more than %d namespaces in reporter.namespaces",
                             COLLECTOR_NAMESPACES_MAX);
        collector->namespaces[collector->namespace_count++] = mem_strndup(name.at, name.len);
    }
    return ERROR_NONE;
}

struct collector *collector_create(const struct collector_options *options, struct error *err)
{
    struct collector *collector = mem_zalloc(sizeof *collector);
    collector->options = *options;
    collector->options.namespaces = NULL;
    collector->inventory =
        inventory_create(&inventory_events, collector, options->resources_max, options->destinations);
    if (options->is_managed) inventory_ignore_applications(collector->inventory);
    collector->discovery = discovery_create(options->client);
    collector->fetches = fetches_create(&(struct fetches_options){.client = options->client,
                                                                  .path_of = path_of,
                                                                  .on_fetched = on_fetched,
                                                                  .on_failed = on_fetch_failed,
                                                                  .arg = collector});
    if (take_namespaces(collector, str_c(options->namespaces), err) != ERROR_NONE) {
        collector_destroy(collector);
        return NULL;
    }
    for (size_t i = 0; i < sizeof fixed_kinds / sizeof fixed_kinds[0]; i++) {
        if (options->is_managed && !fixed_kinds[i].managed) continue;
        struct inventory_kind *kind = inventory_kind_of(collector->inventory, str_c(fixed_kinds[i].group),
                                                        str_c(fixed_kinds[i].version), str_c(fixed_kinds[i].kind));
        kind->always = fixed_kinds[i].always && !options->is_managed;
        struct kind_watch *kind_watch = add_kind(collector, kind, fixed_kinds[i].tier);
        kind_watch->fixed = true;
        add_sources(kind_watch, fixed_kinds[i].plural, true);
    }
    return collector;
}

void collector_destroy(struct collector *collector)
{
    if (!collector) return;
    fetches_destroy(collector->fetches);
    while (collector->kinds) {
        struct kind_watch *next = collector->kinds->next;
        kind_watch_free(collector->kinds);
        collector->kinds = next;
    }
    discovery_destroy(collector->discovery);
    inventory_destroy(collector->inventory);
    for (size_t i = 0; i < collector->namespace_count; i++)
        mem_free(collector->namespaces[i]);
    mem_free(collector);
}

void collector_relist(struct collector *collector)
{
    for (struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next) {
        inventory_doubt(kind_watch->kind);
        for (size_t i = 0; i < kind_watch->source_count; i++) {
            struct source *source = &kind_watch->sources[i];
            source->restarts_before = watch_restarts(source->watch);
            watch_relist(source->watch);
        }
    }
    collector->fetch_barrier = 0;
}

void collector_fetch(struct collector *collector, const struct object_ref *ref)
{
    struct inventory_resource *resource = inventory_find(collector->inventory, ref);
    if (resource && resource->absent)
        inventory_doubt(resource->kind);
    else if (resource && resource->uid && resource->reported)
        on_stale(collector, resource);
}

// Kinds that are always watched bring their objects themselves, unless they may not be read.
static bool is_child(const struct collector *collector, const json_t *node)
{
    const struct object_ref ref = entry_ref(node);
    if (object_ref_is_application(&ref)) return false;
    const struct inventory_resource *resource = inventory_find(collector->inventory, &ref);
    if (!resource) return ref.uid.len > 0;
    if (resource->claims > resource->tree_claims) return false;
    const struct kind_watch *kind_watch = resource->kind->user;
    return !(kind_watch && kind_watch->fixed && resource->uid);
}

void collector_application(struct collector *collector, struct str ns, struct str name, const json_t *entries)
{
    inventory_application(collector->inventory, ns, name, entries);
    if (!collector->options.is_managed) return;
    // Kinds that are new are still to be listed.
    size_t cursor = 0;
    for (const struct inventory_kind *kind; (kind = inventory_next_kind(collector->inventory, &cursor));)
        if (kind->claims && !kind->user) collector->fetch_barrier = 0;
}

void collector_forget_applications(struct collector *collector)
{
    inventory_forget_applications(collector->inventory);
}

bool collector_has_application(const struct collector *collector, struct str ns, struct str name)
{
    return inventory_has_application(collector->inventory, ns, name);
}

void collector_tree(struct collector *collector, struct str ns, struct str name, const json_t *nodes)
{
    json_t *entries = json_array(), *node;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)nodes, i, node)
    {
        static const char *const members[] = {"group", "version", "kind", "namespace", "name"};
        if (!is_child(collector, node)) continue;
        json_t *entry = json_object();
        for (size_t k = 0; k < sizeof members / sizeof *members; k++)
            if (json_object_get(node, members[k]))
                json_object_set(entry, members[k], json_object_get(node, members[k]));
        json_array_append_new(entries, entry);
    }
    inventory_tree(collector->inventory, ns, name, entries);
    json_decref(entries);
}

const struct inventory_resource *collector_find(const struct collector *collector, const struct object_ref *ref)
{
    return inventory_find(collector->inventory, ref);
}

void collector_resume(struct collector *collector)
{
    for (struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next)
        for (size_t i = 0; i < kind_watch->source_count; i++)
            watch_resume(kind_watch->sources[i].watch);
}

void collector_renew(struct collector *collector, uint64_t since_ms)
{
    for (struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next)
        for (size_t i = 0; i < kind_watch->source_count; i++)
            watch_renew(kind_watch->sources[i].watch, since_ms);
}

// In a busy cluster something is always being fetched: what matters is what the lists themselves called for.
bool collector_is_complete(const struct collector *collector)
{
    return collector->fetch_barrier && fetches_ended(collector->fetches) >= collector->fetch_barrier - 1;
}

bool collector_reports(const struct collector *collector, const struct object_ref *ref)
{
    const struct inventory_resource *resource = inventory_find(collector->inventory, ref);
    return resource && (resource->absent || (resource->uid && resource->reported));
}

void collector_unread(const struct collector *collector, struct strbuf *out)
{
    for (const struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next)
        if (is_unread(kind_watch)) strbuf_addf(out, "%s/%s\n", kind_watch->kind->group, kind_watch->kind->kind);
}

void collector_unread_all(const struct collector *collector, struct strbuf *out)
{
    size_t cursor = 0;
    if (!inventory_application_count(collector->inventory)) return;
    for (const struct inventory_kind *kind; (kind = inventory_next_kind(collector->inventory, &cursor));)
        strbuf_addf(out, "%s/%s\n", kind->group, kind->kind);
}

size_t collector_application_count(const struct collector *collector)
{
    return inventory_application_count(collector->inventory);
}

size_t collector_resource_count(const struct collector *collector)
{
    return inventory_count(collector->inventory);
}

size_t collector_kind_count(const struct collector *collector)
{
    size_t count = 0;
    for (const struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next)
        count += kind_watch->plural != NULL;
    return count;
}

uint64_t collector_left_out(const struct collector *collector)
{
    return inventory_left_out(collector->inventory);
}

uint64_t collector_restarts(const struct collector *collector)
{
    uint64_t restarts = collector->restarts;
    for (const struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next)
        for (size_t i = 0; i < kind_watch->source_count; i++)
            restarts += watch_restarts(kind_watch->sources[i].watch);
    return restarts;
}

// Kinds that no Application names are not watched.
static bool is_wanted(const struct kind_watch *kind_watch)
{
    return kind_watch->kind->always || kind_watch->kind->claims || kind_watch->fixed;
}

void collector_findings(const struct collector *collector, json_t *findings)
{
    static const enum watch_state states[] = {WATCH_DENIED, WATCH_FORBIDDEN};
    for (size_t pass = 0; pass < 2; pass++)
        for (const struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next)
            for (size_t i = 0; i < kind_watch->source_count; i++)
                if (is_wanted(kind_watch) && watch_state(kind_watch->sources[i].watch) == states[pass])
                    findings_add_right(findings, kind_watch->kind->group, kind_watch->plural, kind_watch->sources[i].ns,
                                       states[pass] == WATCH_DENIED);
}

bool collector_lacks_applications(const struct collector *collector)
{
    for (const struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next)
        for (size_t i = 0; kind_watch->tier == 0 && i < kind_watch->source_count; i++)
            if (watch_is_forbidden(kind_watch->sources[i].watch)) return true;
    return false;
}

uint64_t collector_blind_ms(const struct collector *collector, uint64_t now_ms)
{
    uint64_t since = now_ms;
    for (const struct kind_watch *kind_watch = collector->kinds; kind_watch; kind_watch = kind_watch->next) {
        if (kind_watch->asked_at_ms && kind_watch->asked_at_ms < since) since = kind_watch->asked_at_ms;
        for (size_t i = 0; i < kind_watch->source_count; i++) {
            uint64_t blind = watch_blind_since_ms(kind_watch->sources[i].watch);
            if (blind && blind < since) since = blind;
        }
    }
    return now_ms - since;
}
