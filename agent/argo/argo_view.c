#include "agent/argo/argo_view.h"

#include <string.h>

#include "agent/argo/argo_commits.h"
#include "agent/kube/entry_ref.h"
#include "base/json/json.h"
#include "base/mem.h"

struct argo_view {
    struct argo_api *api;
    struct argo_trees *trees;
    struct argo_commits *commits;
    struct collector *collector; // of the own cluster; NULL: none now
    struct collector *(*collector_of)(void *arg, struct str ns, struct str name);
    void *arg;
};

static bool is_same(const char *one, const char *other)
{
    return one && other ? strcmp(one, other) == 0 : one == other;
}

static size_t on_tree(void *arg, struct str ns, struct str name, const json_t *nodes)
{
    struct argo_view *view = arg;
    struct collector *collector = view->collector ? view->collector_of(view->arg, ns, name) : NULL;
    if (!collector) return 0;
    size_t behind = 0, i;
    json_t *each;
    collector_tree(collector, ns, name, nodes);
    json_array_foreach((json_t *)(uintptr_t)nodes, i, each)
    {
        const struct object_ref ref = entry_ref(each);
        const struct inventory_resource *resource = collector_find(collector, &ref);
        struct argo_node *node = argo_trees_find(view->trees, &(struct argo_node_key){ns, name, ref});
        bool is_shown = resource && (resource->absent || (resource->uid && resource->reported));
        if (!node || !is_shown || resource->health_status) continue;
        bool is_seen = !resource->absent;
        behind += is_seen && resource->version && resource->version != node->version;
        const char *verdict = argo_node_verdict(node, is_seen ? resource->assessed : NULL, resource->version);
        bool is_news = resource->absent && resource->version != argo_version_of(str_c(node->uid));
        if (is_news || !is_same(verdict, resource->shown)) collector_fetch(collector, &ref);
    }
    return behind;
}

static void on_known(void *arg, struct str ns, struct str name)
{
    struct argo_view *view = arg;
    const struct object_ref ref = {.group = STR("argoproj.io"), .kind = STR("Application"), .ns = ns, .name = name};
    if (view->collector) collector_fetch(view->collector, &ref);
}

enum error_code argo_view_create(struct loop *loop, const struct argo_view_options *options, struct argo_view **out,
                                 struct error *err)
{
    *out = NULL;
    if (!options->url || !*options->url) return ERROR_NONE;
    struct argo_api *api = argo_api_create(&(struct argo_api_options){.loop = loop,
                                                                      .url = options->url,
                                                                      .token_file = options->token_file,
                                                                      .ca_file = options->ca_file,
                                                                      .timeout_ms = options->timeout_ms,
                                                                      .bytes_max = options->bytes_max,
                                                                      .requests_max = options->requests_max},
                                           err);
    if (!api) return ERROR_INVALID;
    struct argo_view *view = mem_zalloc(sizeof *view);
    view->api = api;
    view->collector_of = options->collector_of;
    view->arg = options->arg;
    view->trees = argo_trees_create(&(struct argo_trees_options){.api = api,
                                                                 .interval_ms = options->interval_ms,
                                                                 .refresh_ms = options->refresh_ms,
                                                                 .nodes_max = options->nodes_max,
                                                                 .on_tree = on_tree,
                                                                 .arg = view});
    view->commits = argo_commits_create(&(struct argo_commits_options){.api = api,
                                                                       .commits_max = options->commits_max,
                                                                       .retry_ms = options->refresh_ms,
                                                                       .on_known = on_known,
                                                                       .arg = view});
    *out = view;
    return ERROR_NONE;
}

void argo_view_destroy(struct argo_view *view)
{
    if (!view) return;
    argo_commits_destroy(view->commits);
    argo_trees_destroy(view->trees);
    argo_api_destroy(view->api);
    mem_free(view);
}

// Trees first: health is what people look at.
void argo_view_tick(struct argo_view *view, struct collector *collector, uint64_t now_ms)
{
    if (!view) return;
    view->collector = collector;
    if (!collector) return;
    argo_trees_tick(view->trees, now_ms);
    argo_commits_tick(view->commits, now_ms);
}

void argo_view_let_go(struct argo_view *view)
{
    if (view) view->collector = NULL;
}

static bool is_application(const struct inventory_resource *resource)
{
    return strcmp(resource->kind->kind, "Application") == 0 && strcmp(resource->kind->group, "argoproj.io") == 0;
}

static struct argo_node *node_of(const struct argo_view *view, const struct inventory_resource *resource)
{
    const struct argo_node_key key = {inventory_application_ns(resource), inventory_application_name(resource),
                                      inventory_ref(resource)};
    return argo_trees_find(view->trees, &key);
}

const struct argo_node *argo_view_node(struct argo_view *view, const struct inventory_resource *resource)
{
    return view ? node_of(view, resource) : NULL;
}

const char *argo_view_verdict(struct argo_view *view, struct inventory_resource *resource, const json_t *object,
                              const char *own, struct str *out_message)
{
    *out_message = STR_EMPTY;
    resource->assessed = resource->shown = own;
    if (!view || is_application(resource)) return own;
    resource->version = argo_version_of(json_str(json_path(object, "metadata", "resourceVersion", NULL)));
    struct str ns = inventory_application_ns(resource), name = inventory_application_name(resource);
    if (name.len) argo_trees_touch(view->trees, ns, name);
    struct argo_node *node = node_of(view, resource);
    const char *verdict = argo_node_verdict(node, own, resource->version);
    if (verdict && !is_same(verdict, own)) *out_message = str_c(node->message);
    return resource->shown = verdict;
}

json_t *argo_view_application(struct argo_view *view, const json_t *application)
{
    if (!view) return NULL;
    const json_t *metadata = json_get_object(application, "metadata");
    argo_trees_touch(view->trees, json_get_str(metadata, "namespace"), json_get_str(metadata, "name"));
    return argo_commits_of(view->commits, application);
}

void argo_view_forget(struct argo_view *view, struct str ns, struct str name)
{
    if (view) argo_trees_forget(view->trees, ns, name);
}

void argo_view_findings(const struct argo_view *view, json_t *findings)
{
    if (!view) return;
    argo_api_findings(view->api, findings);
    argo_trees_findings(view->trees, findings);
}
